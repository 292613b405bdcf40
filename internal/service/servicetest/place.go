// Package servicetest makes a service of the real store, state and queue in one process, with the built-in models, for tests
// of what stands on a service.
package servicetest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/worker"
)

// Place is a store, a state and a queue on disk.
type Place struct {
	dir  string
	db   *sqlite.DB
	conn *natsqueue.Conn

	// Builds, if not nil, goes round the state of builds of the services that are made after it is set.
	Builds func(levels.Builds) levels.Builds
	// Summarize, if not nil, is called before each summary is made; its error is that of the call.
	Summarize func(context.Context) error
	// Reach, if not nil, asks servers whether they are there.
	Reach func(ctx context.Context, needs ...service.Server) error
}

// Open opens a place in a folder, and closes it at the end of the test.
func Open(t testing.TB, dir string) *Place {
	t.Helper()
	p := &Place{dir: dir}
	var err error
	if p.db, err = sqlite.Open(dir, sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	if p.conn, err = natsqueue.Embedded(filepath.Join(dir, "queue"), natsqueue.Config{MaxAckPending: 1024}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Close closes the place; a second time it does nothing.
func (p *Place) Close() {
	if p.db == nil {
		return
	}
	_ = p.conn.Close() // nothing is lost
	_ = p.db.Close()
	p.db = nil
}

// Service returns a service on the place, closed at the end of the test.
func (p *Place) Service(t testing.TB) *service.Service { return p.ServiceOf(t, "test") }

// ServiceOf is Service with a name for leases: services of other names stand for other processes.
func (p *Place) ServiceOf(t testing.TB, holder string) *service.Service {
	t.Helper()
	counter := corpus.NewCounter()
	s := service.New(service.Config{
		Holder: holder + "/documents",
		Rule:   rule, LexicalEmbedder: true, Answer: answer.Config{ContextTokens: 8192, MaxOutputTokens: 200},
	}, service.Deps{
		Store: p.db.Store(), Corpora: p.db.Corpora(), Builds: p.builds(), Barrier: p.db.Barrier(), Embedder: llm.Lexical{}, Counter: counter,
		Builder: builder{p, holder}, Reach: p.Reach,
	})
	t.Cleanup(s.Close)
	return s
}

func (p *Place) builds() levels.Builds {
	if p.Builds != nil {
		return p.Builds(p.db.Builds())
	}
	return p.db.Builds()
}

var rule = levels.Rule{Threshold: 0.1, Scope: tree.ScopeCorpus, KeepLeaves: true}

// recipe names how summaries are made here.
const recipe = "test"

// builder does the work of builds in this process.
type builder struct {
	*Place
	holder string
}

// Coordinator implements service.Builder.
func (p builder) Coordinator(_ context.Context, name string) (*coordinator.Coordinator, error) {
	cfg := clustering.Config{Mode: clustering.KMeans, Seed: 1, Threshold: 0.1, Dim: 10, MaxClusterTokens: 3500}
	dry := func(_ context.Context, children []mapreduce.Child) (tree.Usage, error) {
		return tree.Usage{Calls: 1, InputTokens: 10 * len(children), OutputTokens: 10}, nil
	}
	return coordinator.New(coordinator.Config{
		Corpus: name, Rule: rule, MinChunks: 5, Clustering: cfg, Recipe: recipe, Holder: p.holder, TempDir: p.dir,
	}, coordinator.Deps{
		Store: p.db.Store(), Corpora: p.db.Corpora(), Builds: p.builds(), Barrier: p.db.Barrier(), Plans: p.conn.Plans(), Queue: p.conn.Queue(),
		Journal: p.conn.Journal(), Dry: dry,
	})
}

// Run implements service.Builder, with a worker beside the coordinator.
func (p builder) Run(ctx context.Context, name string, req coordinator.Request, _ api.BuildRequest) (api.BuildReport, error) {
	coord, err := p.Coordinator(ctx, name)
	if err != nil {
		return api.BuildReport{}, err
	}
	summaries := llm.SummariesConfig{Provider: llm.ProviderExtractive, ContextTokens: 4096, MaxOutputTokens: 100}
	reduce, err := summaries.MapReduce(corpus.NewCounter(), nil)
	if err != nil {
		return api.BuildReport{}, err
	}
	extractive, err := llm.NewSummarizer(summaries, llm.Deps{Counter: reduce.Counter})
	if err != nil {
		return api.BuildReport{}, err
	}
	work, err := worker.New(worker.Config{
		Slots: 2, MaxAttempts: 2, Recipe: recipe, Heartbeat: p.conn.Heartbeat(), Reduce: reduce,
	}, worker.Deps{
		Queue: p.conn.Queue(), Store: p.db.Store(), Barrier: p.db.Barrier(), Plans: p.conn.Plans(), Builds: p.builds(),
		Journal: p.conn.Journal(), Summarizer: hooked{extractive, p.Place}, Embedder: llm.Lexical{}, Marked: coord.Hint,
	})
	if err != nil {
		return api.BuildReport{}, err
	}
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	working.Go(func() { _ = work.Run(workCtx) }) // returns nil by its contract
	defer working.Wait()
	defer stop()
	req.Settle = func() { stop(); working.Wait() }
	return coord.Build(ctx, req)
}

// Purge implements service.Builder.
func (p builder) Purge(ctx context.Context, name, build string) error {
	if err := p.conn.Queue().Purge(ctx, name, build); err != nil {
		return err
	}
	return p.conn.Plans().DropPlans(ctx, name, build)
}

// hooked asks the place before each summary.
type hooked struct {
	mapreduce.Summarizer
	place *Place
}

func (h hooked) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	if h.place.Summarize != nil {
		if err := h.place.Summarize(ctx); err != nil {
			return mapreduce.Answer{}, err
		}
	}
	return h.Summarizer.Summarize(ctx, call)
}
