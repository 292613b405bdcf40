package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/worker"
)

const (
	corpusName = "c"
	buildName  = "b"
	digest     = "d"
)

// bench is a worker's surroundings in memory, with one level of tasks over two leaves each.
type bench struct {
	t         *testing.T
	nodes     *storetest.Memory
	records   *leveltest.Memory
	queue     *queuetest.Memory
	journal   *queuetest.MemoryJournal
	tasks     []queue.Task
	summarize func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error)
	cfg       worker.Config
	calls     atomic.Int64
}

func newBench(t *testing.T, tasks int) *bench {
	t.Helper()
	b := &bench{
		t: t, nodes: storetest.NewMemory(), records: leveltest.NewMemory(),
		queue: queuetest.NewMemory(queuetest.MemoryConfig{}), journal: queuetest.NewJournal(),
		cfg: worker.Config{
			Slots: 2, MaxAttempts: 3, Recipe: "r",
			Reduce: mapreduce.Config{ContextTokens: 1000, MaxOutputTokens: 20, Prompt: mapreduce.Placeholder, Counter: words{}},
		},
	}
	b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
		return mapreduce.Answer{Text: "a summary", Usage: tree.Usage{Calls: 1, InputTokens: 7, OutputTokens: 2}}, nil
	}
	ctx := context.Background()
	for i := range tasks {
		var children []tree.ID
		for j := range 2 {
			leaf := tree.Node{
				ID: tree.LeafID(corpusName, "doc", 2*i+j, "text"), DocumentID: "doc", ChunkIndex: 2*i + j,
				Text: fmt.Sprintf("text %d", 2*i+j), Tokens: 2, NLeaves: 1, Died: tree.Alive, Vector: []float32{1, 0},
			}
			if err := b.nodes.Put(ctx, corpusName, []tree.Node{leaf}); err != nil {
				t.Fatal(err)
			}
			children = append(children, leaf.ID)
		}
		b.tasks = append(b.tasks, queue.Task{
			Corpus: corpusName, Build: buildName, Level: 1, Position: i, Digest: digest, Recipe: "r", Generation: 1,
			ID:    tree.SummaryID(corpusName, tree.CorpusTree, 1, "r", children),
			Scope: tree.ScopeCorpus, DocumentID: tree.CorpusTree, NLeaves: 2, Children: children,
		})
	}
	if err := b.records.Open(ctx, b.level(), digest, tasks); err != nil {
		t.Fatal(err)
	}
	if err := b.queue.Publish(ctx, b.tasks); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) level() tree.Level {
	return tree.Level{Corpus: corpusName, Build: buildName, Level: 1}
}

// Summarize lets a bench be the worker's model.
func (b *bench) Summarize(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
	b.calls.Add(1)
	return b.summarize(ctx, c)
}

type words struct{}

func (words) Count(text string) int { return len(strings.Fields(text)) }

type unit struct{}

func (unit) Name() string { return "unit" }
func (unit) Embed(_ context.Context, texts []string) ([][]float32, error) {
	v := make([][]float32, len(texts))
	for i := range v {
		v[i] = []float32{0, 1}
	}
	return v, nil
}
func (unit) EmbedQuery(context.Context, string) ([]float32, error) { return []float32{0, 1}, nil }

func (b *bench) worker(q queue.Queue, marked func()) *worker.Worker {
	b.t.Helper()
	w, err := worker.New(b.cfg, worker.Deps{
		Queue: q, Store: b.nodes, Barrier: b.records, Plans: b.records, Builds: b.records, Journal: b.journal,
		Summarizer: b, Embedder: unit{}, Marked: marked,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// runUntil runs a worker until enough of its tasks were settled or stops were asked for.
func (b *bench) runUntil(settled int) {
	b.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var n atomic.Int64
	w := b.worker(b.queue, func() {
		if n.Add(1) == int64(settled) {
			stop()
		}
	})
	if err := w.Run(ctx); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) count() levels.Count {
	b.t.Helper()
	c, err := b.records.Count(context.Background(), b.level())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) buried() []string {
	b.t.Helper()
	dead, err := b.queue.Dead(context.Background(), corpusName, buildName)
	if err != nil {
		b.t.Fatal(err)
	}
	var causes []string
	for _, d := range dead {
		causes = append(causes, d.Cause)
	}
	return causes
}

func TestTaskIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		b.runUntil(3)
		want := levels.Count{Total: 3, Done: 3, Usage: tree.Usage{Calls: 3, InputTokens: 21, OutputTokens: 6}}
		if diff := cmp.Diff(want, b.count()); diff != "" {
			t.Error(diff)
		}
		nodes, err := b.nodes.Get(context.Background(), corpusName, []tree.ID{b.tasks[0].ID}, store.Fields{Text: true, Vector: true})
		if err != nil || len(nodes) != 1 {
			t.Fatalf("%d nodes, %v", len(nodes), err)
		}
		n := nodes[0]
		if n.Text != "a summary" || n.Tokens != 2 || n.NLeaves != 2 || n.Born != 1 || n.Died != tree.Alive || n.Level != 1 || n.ChunkIndex != -1 {
			t.Errorf("%+v", n)
		}
		if queued, _ := b.queue.Queued(context.Background(), b.level()); len(queued) != 0 {
			t.Errorf("%d tasks are still queued", len(queued))
		}
	})
}

// TestExistingNodeIsNotPaidFor is FAULTS awslabs/graphrag-toolkit 41: what is done is found, not done again.
func TestExistingNodeIsNotPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.runUntil(1)
		if err := b.queue.Publish(context.Background(), b.tasks); err != nil {
			t.Fatal(err)
		}
		b.runUntil(1)
		if got := b.calls.Load(); got != 1 {
			t.Errorf("%d calls for one node", got)
		}
	})
}

// TestThrottledCountsNothing is FAULTS infiniflow/ragflow 6941: a 429 is back-pressure and never a failure.
func TestThrottledCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		ok := b.summarize
		start := time.Now()
		b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
			if b.calls.Load() <= 10 {
				return mapreduce.Answer{}, &llm.Error{Kind: llm.Throttled, RetryAfter: time.Minute}
			}
			return ok(ctx, c)
		}
		b.runUntil(1)
		if c := b.count(); c.Done != 1 || len(b.buried()) > 0 {
			t.Errorf("%+v, buried: %v", c, b.buried())
		}
		if waited := time.Since(start); waited < 10*time.Minute {
			t.Errorf("waited %v in all, was asked for ten minutes", waited)
		}
	})
}

func TestFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
			return mapreduce.Answer{}, &llm.Error{Kind: llm.Transient, Message: "500"}
		}
		b.runUntil(1)
		if diff := cmp.Diff([]string{"attempts"}, b.buried()); diff != "" {
			t.Error(diff)
		}
		if got := b.calls.Load(); got != 3 {
			t.Errorf("%d calls, want max_attempts 3", got)
		}
		if c := b.count(); c.Dead != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestBadAnswerIsBuriedUnderItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
			return mapreduce.Answer{}, &llm.Error{Kind: llm.BadAnswer, Reason: llm.CutOff}
		}
		b.runUntil(1)
		if diff := cmp.Diff([]string{"cut_off"}, b.buried()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAuthStopsTheBuild is FAULTS parthsarthi03/raptor 43: a 401 stops the run, and costs no task an attempt.
func TestAuthStopsTheBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
			return mapreduce.Answer{}, &llm.Error{Kind: llm.Auth, Status: 401, Message: "bad key"}
		}
		b.cfg.Slots = 1
		b.runUntil(1)
		wish, err := b.records.StopRequested(context.Background(), corpusName, buildName)
		if err != nil || wish.Status != levels.Failed || wish.Cause != levels.CauseAuth || !strings.Contains(wish.Sentence, "bad key") {
			t.Errorf("wish %q, %v", wish, err)
		}
		if queued, _ := b.queue.Queued(context.Background(), b.level()); len(queued) != 1 || len(b.buried()) != 0 {
			t.Errorf("%d queued, buried %v", len(queued), b.buried())
		}
		if n, _ := b.journal.Begin(context.Background(), buildName, b.tasks[0].ID); n.Failed != 0 || n.Started-n.Returned != 1 {
			t.Errorf("attempts: %+v", n)
		}
	})
}

// TestPoisonIsBuried: a task whose attempts end with their process runs alone after max_attempts of them, so that no
// neighbor is blamed, and is buried after two more.
func TestPoisonIsBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		ctx := context.Background()
		begin := func() {
			if _, err := b.journal.Begin(ctx, buildName, b.tasks[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		for range b.cfg.MaxAttempts {
			begin() // and the process is gone
		}
		var mu sync.Mutex
		together, running := 0, 0
		ok := b.summarize
		b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
			mu.Lock()
			running++
			together = max(together, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return ok(ctx, c)
		}
		b.runUntil(2)
		if together != 1 {
			t.Errorf("a suspect ran beside %d others", together-1)
		}
		if c := b.count(); c.Done != 2 {
			t.Errorf("%+v", c)
		}
		// The same with two deaths more.
		b = newBench(t, 2)
		for range b.cfg.MaxAttempts + 2 {
			begin()
		}
		b.runUntil(2)
		if c := b.count(); c.Done != 1 || c.Dead != 1 {
			t.Errorf("%+v", c)
		}
		if diff := cmp.Diff([]string{"worker_died"}, b.buried()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOtherRecipeIsGivenBack: a worker that is configured differently must not make nodes under the build's ids.
func TestOtherRecipeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.cfg.Recipe = "another"
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
		defer stop()
		if err := b.worker(b.queue, nil).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := b.calls.Load(); got != 0 {
			t.Errorf("%d calls", got)
		}
		if queued, _ := b.queue.Queued(context.Background(), b.level()); len(queued) != 1 {
			t.Errorf("%d queued", len(queued))
		}
	})
}

// TestDrain: when Run's context ends, what is in hand finishes within the grace period, and is given back at once,
// uncounted, when it doesn't. FAULTS JasperFx/wolverine 4039.
func TestDrain(t *testing.T) {
	for _, test := range []struct {
		grace time.Duration
		done  int
	}{{time.Minute, 1}, {time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 1)
			b.cfg.Grace = test.grace
			entered := make(chan struct{})
			ok := b.summarize
			b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
				close(entered)
				select {
				case <-time.After(30 * time.Second):
					return ok(ctx, c)
				case <-ctx.Done():
					return mapreduce.Answer{}, ctx.Err()
				}
			}
			ctx, stop := context.WithCancel(context.Background())
			go func() { <-entered; stop() }()
			start := time.Now()
			if err := b.worker(b.queue, nil).Run(ctx); err != nil {
				t.Fatal(err)
			}
			if c := b.count(); c.Done != test.done {
				t.Errorf("grace %v: %+v", test.grace, c)
			}
			if test.done == 1 {
				return
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("the drain took %v, the grace was %v", took, test.grace)
			}
			again, err := b.queue.Receive(context.Background())
			if err != nil || again.Task().ID != b.tasks[0].ID || time.Since(start) > 2*time.Second {
				t.Errorf("the task was not there at once: %v after %v", err, time.Since(start))
			}
			if n, _ := b.journal.Begin(context.Background(), buildName, b.tasks[0].ID); n.Started-n.Returned != 1 {
				t.Errorf("attempts: %+v", n)
			}
		})
	}
}

// TestLostLeaseStopsTheWork: FAULTS nats-io/nats-server 4786.
func TestLostLeaseStopsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.cfg.Slots = 1
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		cancelled := make(chan struct{})
		b.summarize = func(ctx context.Context, _ mapreduce.Call) (mapreduce.Answer, error) {
			<-ctx.Done()
			close(cancelled)
			stop()
			return mapreduce.Answer{}, ctx.Err()
		}
		if err := b.worker(&losing{b.queue}, nil).Run(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case <-cancelled:
		default:
			t.Error("the call went on without a lease")
		}
	})
}

// losing is a queue whose leases can't be extended.
type losing struct{ queue.Queue }

func (q *losing) Receive(ctx context.Context) (queue.Delivery, error) {
	d, err := q.Queue.Receive(ctx)
	return &lost{d}, err
}

type lost struct{ queue.Delivery }

func (*lost) Extend(context.Context) error { return queue.ErrLost }

// TestChildrenFromThePlan: a task too large for a message has its children read from the plan.
func TestChildrenFromThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		ctx := context.Background()
		plan := &levels.Plan{
			Corpus: corpusName, Build: buildName, Level: 1,
			Clusters: []levels.Cluster{{ID: b.tasks[0].ID, Children: b.tasks[0].Children}},
		}
		plan.Seal()
		if err := b.records.PutPlan(ctx, plan); err != nil {
			t.Fatal(err)
		}
		if err := b.queue.Purge(ctx, corpusName, buildName); err != nil {
			t.Fatal(err)
		}
		b.tasks[0].Children, b.tasks[0].Digest = nil, plan.Digest
		if err := b.records.Open(ctx, b.level(), plan.Digest, 1); err != nil {
			t.Fatal(err)
		}
		if err := b.queue.Publish(ctx, b.tasks); err != nil {
			t.Fatal(err)
		}
		b.runUntil(1)
		if c := b.count(); c.Done != 1 {
			t.Errorf("%+v, buried %v", c, b.buried())
		}
	})
}

// TestBarrierAway is FAULTS RolnickLab/antenna 1231: while marks can't be made nothing is acked, and nothing is
// paid for again.
func TestBarrierAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		barrier := &away{Barrier: b.records, left: 4}
		w, err := worker.New(b.cfg, worker.Deps{
			Queue: b.queue, Store: b.nodes, Barrier: barrier, Plans: b.records, Builds: b.records, Journal: b.journal,
			Summarizer: b, Embedder: unit{}, Marked: stop,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if c := b.count(); c.Done != 1 || b.calls.Load() != 1 {
			t.Errorf("%+v after %d calls", c, b.calls.Load())
		}
	})
}

type away struct {
	levels.Barrier
	left int
}

func (a *away) Mark(ctx context.Context, l tree.Level, digest string, marks ...levels.Mark) (levels.Count, error) {
	if a.left--; a.left >= 0 {
		return levels.Count{}, errors.New("connection refused")
	}
	return a.Barrier.Mark(ctx, l, digest, marks...)
}

func TestValidate(t *testing.T) {
	for name, cfg := range map[string]worker.Config{
		"build.slots": {MaxAttempts: 1, Recipe: "r"}, "build.max_attempts": {Slots: 1, Recipe: "r"}, "recipe": {Slots: 1, MaxAttempts: 1},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
