// Package service is what aerie does, over the contracts of store, state and queue: documents, builds, trees, queries and status
// as [api.Service] has them. The command line works on it in the embedded mode, and a coordinator serves it.
//
// It holds no adapter and starts nothing by itself but the builds that it is asked for, each in a goroutine that Close waits for.
package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
)

// Config says how a service works.
type Config struct {
	// Place names where corpora are, for sentences such as "there is no corpus x in PLACE"; "" leaves that out.
	Place string
	// Holder names this process in leases; "" is a name that no other process has.
	Holder string
	// LeaseTTL is how long a right to documents lasts unless it is renewed; 0 means fence.DefaultTTL.
	LeaseTTL time.Duration
	// Lock, if not nil, keeps other processes of this machine from changing a corpus's documents until unlock, and gives that back by
	// itself when the process ends, however it ends. With it Holder may be the same for all of them.
	Lock func(ctx context.Context, corpus string) (unlock func(), err error)
	// Ingest says how documents are cut and embedded. Its Erase is the service's own.
	Ingest ingest.Config
	// Rule decides when builds are due.
	Rule levels.Rule
	// LexicalEmbedder says that the embedder is the built-in one, which surely didn't make vectors that were brought along.
	LexicalEmbedder bool
	// Answer says how to answer; its Floor is that of the embedder unless a question has its own.
	Answer answer.Config
	// Exclusive says that the Builder lets no other process work on a build, so that a build that doesn't rest in its record but isn't
	// worked on here is nobody's.
	Exclusive bool
	// Served says that the settings are this process's alone, also where it is Exclusive: its clients have none to give.
	Served bool
	// Turn is how long a change of documents waits for another one of the corpus to end; 0 means 30 s.
	Turn time.Duration
	// Settings are those that trees are built with by key, secrets left out.
	Settings map[string]string
	// Price returns what a model costs; nil, or ok false: not known.
	Price func(model string) (price coordinator.Price, ok bool)
}

// Deps are what a service works with. Model may be nil: then answers quote. Builder may be nil in a service that only reads.
type Deps struct {
	Store   store.Store
	Corpora levels.Corpora
	Builds  levels.Builds
	Barrier levels.Barrier
	Members levels.Members // who works; nil where nobody tells
	// Reading is Corpora for queries, where another place has the records too; nil for Corpora itself.
	Reading levels.Corpora
	// Reach asks servers whether they are there; nil where there are none. An error is one sentence for a person.
	Reach    func(ctx context.Context, needs ...Server) error
	Embedder llm.Embedder // of leaves and queries
	Model    answer.Model // of answers
	Counter  mapreduce.Counter
	Builder  Builder
	// Queried is told of each query that begins, and what it returns how that ended; nil for nobody.
	Queried func(corpus string) (ended func(hits int, err error))
	// Ready opens what a change of trees needs beside the store and the state, before Builder is asked for a coordinator; nil where
	// that is open.
	Ready func(ctx context.Context) error
	// Scrub takes what was deleted out of free pages, logs and files beside the database; nil where servers see to that themselves.
	Scrub func(ctx context.Context, corpus string) error
	// Audit is told of every change; nil for nobody.
	Audit api.Auditor
	Log   *slog.Logger
}

// Builder does the work of builds. Its methods may be called from many goroutines; for one corpus, Run is called by one at a time.
type Builder interface {
	// Run builds until the build rests, as coordinator.Build does, with the budget of s. When ctx ends the build rests or is given up
	// for another process to go on with.
	Run(ctx context.Context, corpus string, req coordinator.Request, s api.BuildRequest) (api.BuildReport, error)
	// Coordinator returns one that plans, reports, cancels and collects.
	Coordinator(ctx context.Context, corpus string) (*coordinator.Coordinator, error)
	// Purge removes the tasks and plans of a build whose corpus is about to be deleted.
	Purge(ctx context.Context, corpus, build string) error
}

// Service implements api.Service.
type Service struct {
	cfg  Config
	deps Deps
	ctx  context.Context // of the builds; it lives until Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu         sync.Mutex
	runs       map[string]*run // newest by corpus
	gates      map[string]chan struct{}
	retrievers map[string]*retrieve.Retriever // by kind of embedder
	views      views
}

var _ api.Service = (*Service)(nil)

// New returns a service. Close it.
func New(cfg Config, deps Deps) *Service {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Turn == 0 {
		cfg.Turn = turnOfAChange
	}
	if cfg.Holder == "" {
		cfg.Holder = "service-" + rand.Text()
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Service{
		cfg: cfg, deps: deps, ctx: ctx, stop: stop, runs: map[string]*run{}, gates: map[string]chan struct{}{},
		retrievers: map[string]*retrieve.Retriever{},
	}
}

// Close ends the builds that the service runs, as their Builder does when its context ends, and waits for them.
func (s *Service) Close() {
	s.stop()
	s.work.Wait()
}

// errMoved: a cursor is of a tree that is no more.
var errMoved = errors.New("the tree that the cursor belongs to was replaced by a newer generation")

// corpusName is what config allows for the key corpus.
var corpusName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// checkName refuses a corpus that can't be.
func checkName(corpus string) error {
	if corpusName.MatchString(corpus) {
		return nil
	}
	return api.Usagef("", `corpus is %q; it must be 1 to 64 letters (a-z, A-Z), digits, "-" or "_", and start with a letter or digit`, corpus)
}

func (s *Service) in() string {
	if s.cfg.Place == "" {
		return ""
	}
	return " in " + s.cfg.Place
}

// Record returns the record of a corpus. One that isn't there is an error that names the nearest.
func (s *Service) Record(ctx context.Context, corpus string) (*levels.Corpus, error) {
	return s.recordOf(ctx, s.deps.Corpora, corpus)
}

// reading is where queries have records from.
func (s *Service) reading() levels.Corpora {
	if s.deps.Reading != nil {
		return s.deps.Reading
	}
	return s.deps.Corpora
}

func (s *Service) recordOf(ctx context.Context, corpora levels.Corpora, corpus string) (*levels.Corpus, error) {
	if err := checkName(corpus); err != nil {
		return nil, err
	}
	record, err := corpora.Load(ctx, corpus)
	if !errors.Is(err, levels.ErrNotFound) {
		return record, err
	}
	names, err := s.names(ctx, corpora)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, api.Missingf("aerie ingest PATH brings text in", "there is no corpus %q%s yet", corpus, s.in())
	}
	return nil, api.Missingf("aerie status lists them", "there is no corpus %q%s; did you mean %q?", corpus, s.in(), config.Nearest(corpus, names))
}

// names lists the corpora that who asks may learn of.
func (s *Service) names(ctx context.Context, corpora levels.Corpora) ([]string, error) {
	names, err := corpora.List(ctx)
	return slices.DeleteFunc(names, func(name string) bool { return !api.Sees(ctx, name) }), err
}

// statusDeps are what a status is read from.
func (s *Service) statusDeps(members []levels.Member) coordinator.StatusDeps {
	return coordinator.StatusDeps{
		Store: s.deps.Store, Corpora: s.deps.Corpora, Builds: s.deps.Builds, Barrier: s.deps.Barrier, Members: members,
		Settings: s.cfg.Settings, Served: s.cfg.Served || !s.cfg.Exclusive,
	}
}

// Status tells how one corpus is, or with "" all of them.
func (s *Service) Status(ctx context.Context, corpus string) (api.Status, error) {
	asked := make(chan []string, 1)
	go func() { asked <- s.away(ctx) }() // meanwhile
	result, err := within(ctx, s, []Server{ServerStore, ServerState}, func(ctx context.Context) (api.Status, error) { return s.status(ctx, corpus) })
	result.Away = <-asked
	return result, err
}

func (s *Service) status(ctx context.Context, corpus string) (api.Status, error) {
	result := api.Status{Corpora: []api.CorpusStatus{}}
	names := []string{corpus}
	if corpus == "" {
		var err error
		if names, err = s.names(ctx, s.reading()); err != nil {
			return result, fmt.Errorf("reading the corpora: %w", err)
		}
	} else if _, err := s.Record(ctx, corpus); err != nil {
		return result, err
	}
	now := time.Now()
	members, err := s.members(ctx)
	if err != nil {
		return result, err
	}
	result.Workers = api.WorkersOf(members, now)
	deps := s.statusDeps(members)
	for _, name := range names {
		one, err := coordinator.ReadStatus(ctx, deps, name, s.cfg.Rule, now)
		if errors.Is(err, levels.ErrNotFound) {
			continue // deleted between the list and here
		}
		if err != nil {
			return result, err
		}
		if one.HiddenLeaves, err = s.hidden(ctx, name); err != nil {
			return result, err
		}
		result.Corpora = append(result.Corpora, one)
	}
	return result, nil
}
