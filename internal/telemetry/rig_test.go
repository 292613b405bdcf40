package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	corpusName = "birds"
	chatModel  = "chat-1"
	embedModel = "embed-1"
	leafCount  = 40
	clusterOf  = 5 // leaves in a cluster
)

// rig is everything that a build needs, with the real queue, database and HTTP client, under telemetry.
type rig struct {
	t        *testing.T
	tel      *telemetry.Telemetry
	endpoint *llmtest.Server
	db       *sqlite.DB
	conn     *natsqueue.Conn
	store    store.Store
	queue    queue.Queue
	embedder llm.Embedder
	coord    *coordinator.Coordinator
	cfg      coordinator.Config // of coord
	deps     coordinator.Deps
	refuse   func() error
	work     *worker.Worker
	reader   *telemetry.Corpora
	slots    int
	log      *slog.Logger
}

// rigConfig says what differs between tests.
type rigConfig struct {
	tracing  telemetry.Tracing
	endpoint llmtest.Config
	// log takes the worker's lines; nil for nobody.
	log *slog.Logger
	// wrap replaces the queue under telemetry.
	wrap func(queue.Queue) queue.Queue
	// refuse, if not nil, is asked before each summary; its error is the call's.
	refuse func() error
}

func newRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, endpoint: llmtest.New(cfg.endpoint), slots: 4, log: cfg.log, refuse: cfg.refuse}
	t.Cleanup(r.endpoint.Close)
	var err error
	if r.tel, err = telemetry.New(telemetry.Config{Program: "aerie", Version: "test", Tracing: cfg.tracing}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.tel.Close(context.Background()) })
	if r.db, err = sqlite.Open(t.TempDir(), sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.must(r.db.Close()) })
	if r.conn, err = natsqueue.Embedded(t.TempDir(), natsqueue.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.must(r.conn.Close()) })
	r.store = r.tel.Store(r.db.Store())
	q := r.conn.Queue()
	if cfg.wrap != nil {
		q = cfg.wrap(q)
	}
	r.queue = r.tel.Queue(q)
	r.wire()
	r.ingest()
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wire makes coordinator and worker as the programs do.
func (r *rig) wire() {
	summaries := llm.SummariesConfig{
		Provider: llm.ProviderOpenAI, BaseURL: r.endpoint.URL(), Model: chatModel, ContextTokens: 4096, MaxOutputTokens: 64,
		Timeout: 30 * time.Second,
	}
	embeddings := llm.EmbeddingsConfig{
		Provider: llm.ProviderOpenAI, BaseURL: r.endpoint.URL(), Model: embedModel, BatchItems: 16, BatchTokens: 4096, Timeout: 30 * time.Second,
	}
	counter := corpus.NewCounter()
	journal, plans := r.tel.Journal(r.conn.Journal()), r.tel.Plans(r.conn.Plans())
	limiter := llm.NewLimiter(llm.LimiterConfig{MaxConcurrent: 2})
	deps := llm.Deps{Counter: counter, Journal: journal, Limiter: limiter, Log: slog.New(slog.DiscardHandler)}
	summarizer, err := llm.NewSummarizer(summaries, r.tel.Model(chatModel).Watch(deps))
	r.must(err)
	r.embedder, err = llm.NewEmbedder(embeddings, r.tel.Model(embedModel).Watch(deps))
	r.must(err)
	reduce, err := summaries.MapReduce(counter, nil)
	r.must(err)

	rule := levels.Rule{Threshold: 0.1, Scope: tree.ScopeCorpus, KeepLeaves: true}
	builds, barrier, corpora := r.tel.Builds(r.db.Builds()), r.tel.Barrier(r.db.Barrier()), r.tel.Corpora(r.db.Corpora())
	r.cfg = coordinator.Config{
		Corpus: corpusName, Rule: rule, MinChunks: 5, MaxDepth: 2, Recipe: "recipe", Holder: "test", Buried: 0.5, Poll: 20 * time.Millisecond,
	}
	r.deps = coordinator.Deps{
		Store: r.store, Corpora: corpora, Builds: builds, Barrier: barrier, Plans: plans, Queue: r.queue, Journal: journal,
		Cluster: inRuns, Observer: r.tel.Coordinator(),
	}
	r.coord, err = coordinator.New(r.cfg, r.deps)
	r.must(err)
	r.work, err = worker.New(worker.Config{
		Slots: r.slots, MaxAttempts: 3, Recipe: "recipe", Reduce: reduce, Grace: time.Second, Heartbeat: r.conn.Heartbeat(),
		Patience: time.Nanosecond, // an endpoint that is away is away
	}, worker.Deps{
		Queue: r.queue, Store: r.store, Barrier: barrier, Plans: plans, Builds: builds, Journal: journal,
		Summarizer: r.refusing(summarizer), Embedder: r.embedder, Marked: r.coord.Hint, Observer: r.tel.Worker(r.slots, 0), Log: r.log,
	})
	r.must(err)
	r.reader = &telemetry.Corpora{
		Telemetry: r.tel, Store: r.store, Corpora: corpora, Builds: builds, Barrier: barrier, Rule: rule,
		Price: &llm.Price{Input: 1, Output: 2}, MaxTokens: 1_000_000, MaxCost: 5,
	}
}

// refusing lets refuse decide before each summary.
func (r *rig) refusing(s mapreduce.Summarizer) mapreduce.Summarizer {
	if r.refuse == nil {
		return s
	}
	return &refusing{s, r.refuse}
}

type refusing struct {
	mapreduce.Summarizer
	refuse func() error
}

func (s *refusing) Summarize(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
	if err := s.refuse(); err != nil {
		return mapreduce.Answer{}, err
	}
	return s.Summarizer.Summarize(ctx, c)
}

// inRuns groups rows in runs of one length, so that a test knows what its clusters are.
func inRuns(_ context.Context, _ clustering.Config, in clustering.Input) (clustering.Result, error) {
	var result clustering.Result
	for lo := 0; lo < in.N; lo += clusterOf {
		var rows []int
		for i := lo; i < min(lo+clusterOf, in.N); i++ {
			rows = append(rows, i)
		}
		result.Clusters = append(result.Clusters, rows)
	}
	return result, nil
}

// leafText is the text of the nth leaf.
func leafText(n int) string {
	return fmt.Sprintf("Sentence %d tells of bird number %d, of its nest, its eggs and the wood where it lives.", n, n)
}

// ingest writes the leaves and the corpus's record.
func (r *rig) ingest() {
	ctx := r.t.Context()
	var texts []string
	for i := range leafCount {
		texts = append(texts, leafText(i))
	}
	vectors, err := r.embedder.Embed(ctx, texts)
	r.must(err)
	var nodes []tree.Node
	for i, text := range texts {
		nodes = append(nodes, tree.Node{
			ID: tree.LeafID(corpusName, "doc", i, text), DocumentID: "doc", ChunkIndex: i, Text: text, Tokens: 20, NLeaves: 1,
			Died: tree.Alive, Vector: vectors[i],
		})
	}
	r.must(r.store.Put(ctx, corpusName, nodes))
	r.must(r.db.Corpora().Update(ctx, corpusName, func(c *levels.Corpus) error {
		c.Changes += leafCount
		return nil
	}))
}

// build runs one build with a worker beside it.
func (r *rig) build(force bool) api.BuildReport {
	r.t.Helper()
	work, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { _ = r.work.Run(work) }) // returns nil by its contract
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	report, err := r.coord.Build(ctx, coordinator.Request{Force: force, Trigger: "test"})
	stop()
	working.Wait()
	r.must(err)
	return report
}

// gathered are the samples of one moment.
type gathered map[string][]*dto.Metric

func (r *rig) gather() gathered {
	r.t.Helper()
	families, err := r.tel.Gather()
	r.must(err)
	all := gathered{}
	for _, f := range families {
		all[f.GetName()] = f.GetMetric()
	}
	return all
}

// gatherWhen gathers until it sees what it waits for, for ten seconds at most.
func (r *rig) gatherWhen(there func(gathered) bool) gathered {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(10 * time.Second); ; {
		g := r.gather()
		if there(g) {
			return g
		}
		select {
		case <-tick.C:
		case <-limit:
			return g
		}
	}
}

// moved reports whether any series of a metric is not zero.
func (g gathered) moved(name string) bool {
	for _, m := range g[name] {
		if value(m) != 0 {
			return true
		}
	}
	return false
}

// at returns the value of the series whose labels, as "name=value" in the order of names, are given.
func (g gathered) at(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range g[name] {
		if strings.Join(labelsOf(m), ",") == strings.Join(labels, ",") {
			return value(m)
		}
	}
	t.Errorf("there is no %s with %v", name, labels)
	return 0
}

func labelsOf(m *dto.Metric) []string {
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return all
}

// value is that of a counter or gauge, and how often a histogram was observed.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return float64(m.Histogram.GetSampleCount())
}
