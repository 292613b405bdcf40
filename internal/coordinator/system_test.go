package coordinator_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/worker"
)

const corpusName = "c"

// system is everything that outlives a process: the stores, the queue, the journal, and the endpoint with its bill.
type system struct {
	t        testing.TB
	nodes    *storetest.Memory
	records  *leveltest.Memory
	queue    *queuetest.Memory
	journal  *queuetest.MemoryJournal
	endpoint *endpoint
	rule     levels.Rule
	cluster  clustering.Func
	depth    int
	buried   float64
	recipe   string
	slots    int
	grow     *clustering.Config // set: builds grow the tree, with real clustering
	embedder llm.Embedder
	counter  mapreduce.Counter
	stale    float64
	keep     int
	dry      coordinator.Dry
	still    time.Duration
	around   func(store.Store) store.Store // nil: the nodes as they are
}

func newSystem(t testing.TB) *system {
	return &system{
		t: t, nodes: storetest.NewMemory(), records: leveltest.NewMemory(),
		queue: queuetest.NewMemory(queuetest.MemoryConfig{}), journal: queuetest.NewJournal(),
		endpoint: &endpoint{paid: map[string]int{}}, cluster: inFives, recipe: "r", slots: 4, embedder: hashed{}, counter: words{},
		dry: func(_ context.Context, passages []mapreduce.Child) (tree.Usage, error) {
			u := tree.Usage{Calls: 1}
			for _, p := range passages {
				u.InputTokens += p.Tokens
			}
			return u, nil
		},
		rule: levels.Rule{Threshold: 0.1, Scope: tree.ScopeCorpus, KeepLeaves: true},
	}
}

// inFives groups rows in runs of five; fewer than ten give two halves, and fewer than four no level.
func inFives(_ context.Context, _ clustering.Config, in clustering.Input) (clustering.Result, error) {
	if in.N < 4 {
		return clustering.Result{Stopped: fmt.Sprintf("%d nodes can't shrink", in.N)}, nil
	}
	size := 5
	if in.N < 10 {
		size = (in.N + 1) / 2
	}
	var r clustering.Result
	for lo := 0; lo < in.N; lo += size {
		var rows []int
		for i := lo; i < min(lo+size, in.N); i++ {
			rows = append(rows, i)
		}
		r.Clusters = append(r.Clusters, rows)
	}
	return r, nil
}

// endpoint is a model that counts what it is paid for.
type endpoint struct {
	mu   sync.Mutex
	paid map[string]int // by input
	// words, if above 0, makes the answer the first of the words below, half as many as there are and at most so many.
	words int
	// answer, if not nil, takes the place of all that.
	answer func(ctx context.Context, texts []string) (string, error)
	fail   func(input string) error
	hold   func(ctx context.Context) error
}

func (e *endpoint) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, times := range e.paid {
		n += times
	}
	return n
}

// call answers with the first word of each passage.
func (e *endpoint) call(ctx context.Context, texts []string) (string, error) {
	input := strings.Join(texts, "|")
	if e.hold != nil {
		if err := e.hold(ctx); err != nil {
			return "", err
		}
	}
	if e.fail != nil {
		if err := e.fail(input); err != nil {
			return "", err
		}
	}
	e.mu.Lock()
	e.paid[input]++
	e.mu.Unlock()
	if e.answer != nil {
		return e.answer(ctx, texts)
	}
	if e.words > 0 {
		all := strings.Fields(strings.Join(texts, " "))
		return strings.Join(all[:min(e.words, (len(all)+1)/2)], " "), nil
	}
	sum := sha256.Sum256([]byte(input))
	return "summary " + hex.EncodeToString(sum[:8]), nil
}

// journaled is the order of package llm: look up, call, record.
type journaled struct {
	journal  journal.Journal
	endpoint *endpoint
	alive    func() error
}

func (j *journaled) Summarize(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
	sum := sha256.Sum256([]byte(strings.Join(c.Texts, "|")))
	key := hex.EncodeToString(sum[:])
	if entry, err := j.journal.Lookup(ctx, key); err == nil {
		if entry.Build == c.Build {
			return mapreduce.Answer{Text: entry.Text, Usage: tree.Usage{Calls: 1}}, nil
		}
		return mapreduce.Answer{Text: entry.Text, Usage: tree.Usage{Reused: 1}}, nil
	}
	if err := j.alive(); err != nil {
		return mapreduce.Answer{}, err
	}
	text, err := j.endpoint.call(ctx, c.Texts)
	if err != nil {
		return mapreduce.Answer{}, err
	}
	if err := j.journal.Record(ctx, key, journal.Entry{Text: text, Build: c.Build}); err != nil {
		return mapreduce.Answer{}, err
	}
	return mapreduce.Answer{Text: text, Usage: tree.Usage{Calls: 1}}, nil
}

// hashed embeds a text as a unit vector of its hash.
type hashed struct{}

func (hashed) Name() string { return "hashed" }

func (hashed) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		v := make([]float32, 4)
		v[binary.LittleEndian.Uint32(sum[:4])%4] = 1
		vectors[i] = v
	}
	return vectors, nil
}

func (h hashed) EmbedQuery(ctx context.Context, q string) ([]float32, error) {
	v, err := h.Embed(ctx, []string{q})
	return v[0], err
}

type words struct{}

func (words) Count(text string) int { return len(strings.Fields(text)) }

// addLeaves puts n leaves of a document into the store and counts them as changes.
func (s *system) addLeaves(document string, n int) {
	s.t.Helper()
	var nodes []tree.Node
	for i := range n {
		text := fmt.Sprintf("%s sentence %d", document, i)
		vectors, _ := hashed{}.Embed(context.Background(), []string{text})
		nodes = append(nodes, tree.Node{
			ID: tree.LeafID(corpusName, document, i, text), DocumentID: document, ChunkIndex: i, Text: text, Tokens: 3,
			NLeaves: 1, Died: tree.Alive, Vector: vectors[0],
		})
	}
	if err := s.nodes.Put(context.Background(), corpusName, nodes); err != nil {
		s.t.Fatal(err)
	}
	s.changed(n)
}

func (s *system) changed(n int) {
	s.t.Helper()
	err := s.records.Corpora().Update(context.Background(), corpusName, func(c *levels.Corpus) error {
		c.Changes += int64(n)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// process is one life of coordinator and worker, with a switch that kills it.
type process struct {
	*system
	kill *killSwitch
}

func (s *system) process(kill *killSwitch) *process { return &process{system: s, kill: kill} }

var holders atomic.Int64

// run builds until the build rests or the process is killed.
func (p *process) run(ctx context.Context, req coordinator.Request) (api.BuildReport, error) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.kill.die = cancel
	k := p.kill
	var nodes store.Store = &killedStore{p.nodes, k}
	if p.around != nil {
		nodes = p.around(nodes)
	}
	barrier := &killedBarrier{p.records, k}
	plans := &killedPlans{p.records, k}
	builds := &killedBuilds{p.records, k}
	tasks := &killedQueue{p.queue, k}
	journal := &killedJournal{p.journal, k}
	cfg := coordinator.Config{
		Corpus: corpusName, Rule: p.rule, MinChunks: 4, MaxDepth: p.depth, Recipe: p.recipe, Buried: p.buried, Keep: p.keep,
		Holder: fmt.Sprint("process ", holders.Add(1)), Poll: time.Millisecond, LeaseTTL: time.Minute, Still: p.still,
	}
	if p.grow != nil {
		cfg.Incremental, cfg.Stale, cfg.Clustering = true, p.stale, *p.grow
	}
	c, err := coordinator.New(cfg, coordinator.Deps{
		Store: nodes, Corpora: &killedCorpora{p.records.Corpora(), k}, Builds: builds, Barrier: barrier, Plans: plans,
		Queue: tasks, Journal: journal, Cluster: p.cluster,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Slots: p.slots, MaxAttempts: 3, Recipe: p.recipe,
		Reduce: mapreduce.Config{ContextTokens: 8192, MaxOutputTokens: 200, Prompt: "sum: " + mapreduce.Placeholder, Counter: p.counter},
	}, worker.Deps{
		Queue: tasks, Store: nodes, Barrier: barrier, Plans: plans, Builds: builds, Journal: journal,
		Summarizer: &journaled{journal, p.endpoint, k.check}, Embedder: p.embedder, Marked: c.Hint,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { _ = w.Run(working) })
	drain := func() { stop(); wait.Wait() }
	defer drain()
	if req.Settle == nil {
		req.Settle = drain
	}
	if req.Trigger == "" {
		req.Trigger = "command"
	}
	return c.Build(ctx, req)
}

// build runs an undisturbed process.
func (s *system) build(req coordinator.Request) api.BuildReport {
	s.t.Helper()
	report, err := s.process(&killSwitch{}).run(context.Background(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.checkEquation()
	return report
}

// visible returns the ids of the nodes that readers see, with their texts.
func (s *system) visible() map[tree.ID]string {
	s.t.Helper()
	record, err := s.records.Corpora().Load(context.Background(), corpusName)
	if err != nil {
		s.t.Fatal(err)
	}
	nodes := make(map[tree.ID]string)
	err = s.nodes.Each(context.Background(), corpusName, store.AnyLevel().VisibleAt(record.Generation),
		store.Fields{Text: true}, func(n *tree.Node) error { nodes[n.ID] = n.Text; return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// checkEquation holds that expected = done + queued + dead, from the facts themselves.
func (s *system) checkEquation() {
	s.t.Helper()
	ctx := context.Background()
	state, err := s.records.Load(ctx, corpusName)
	if errors.Is(err, levels.ErrNotFound) {
		return
	}
	if err != nil {
		s.t.Fatal(err)
	}
	buried, err := s.queue.Dead(ctx, corpusName, state.Build)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range state.Levels {
		of := tree.Level{Corpus: corpusName, Build: state.Build, Level: l.Level}
		plan, err := s.records.Plan(ctx, of)
		if errors.Is(err, levels.ErrNotFound) || l.Phase == levels.Planning || l.Phase == levels.Publishing {
			continue // over, or not out yet
		}
		if err != nil {
			s.t.Fatal(err)
		}
		where := make(map[tree.ID]string)
		queued, err := s.queue.Queued(ctx, of)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, id := range queued {
			where[id] += "queued "
		}
		for _, b := range buried {
			where[b.Task.ID] += "dead "
		}
		var ids []tree.ID
		for _, c := range plan.Clusters {
			ids = append(ids, c.ID)
		}
		done, err := s.nodes.Get(ctx, corpusName, ids, store.Fields{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, n := range done {
			where[n.ID] += "done "
		}
		for _, id := range ids {
			if where[id] == "" {
				s.t.Errorf("level %d: task %s is neither done nor queued nor dead", l.Level, id)
			}
		}
	}
}
