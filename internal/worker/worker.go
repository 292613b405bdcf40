// Package worker takes tasks from the queue and settles them.
//
// # The order of effects
//
// For each task, and in this order: look the node up, look the journal up, call the model, write the journal, embed,
// write the node, mark the barrier, ack. A kill between any two costs at most a look-up: whatever is there is found
// and not done, nor paid for, again.
//
// # Lifetimes
//
// A worker has two contexts: when Run's ends it stops taking tasks, and what only waits for an endpoint is given back at once; other
// tasks in hand may still finish within [Config.Grace]. What is left then is given back. A lost lease cancels the task's work.
// Work that doesn't notice the end of its context, such as a call of a client that ignores it, is left behind after
// [Config.HardEnd]: the task is settled without it, and neither a slot nor Run waits for it.
//
// # Attempts
//
// A task that fails [Config.MaxAttempts] times is buried. Waiting for a throttled endpoint, shutting down and an
// unreachable dependency don't count. An attempt that ends with its process counts apart: after MaxAttempts of
// those the task runs alone, so that only itself can be blamed, and after two more it is buried.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
)

// Config says how a worker works.
type Config struct {
	// Slots is how many clusters it has summarized at a time; at least 1. A quarter more tasks are in hand, whose nodes
	// are looked up or written meanwhile, so that no slot stands still.
	Slots int
	// MaxAttempts is how often a task may fail before it is buried; at least 1.
	MaxAttempts int
	// Recipe must be that of the tasks; others are given back.
	Recipe string
	// Reduce says how clusters larger than a context are summarized, and counts tokens. Its Build is the task's.
	Reduce mapreduce.Config
	// Heartbeat is how often a lease is extended; a third of the lease or less. 0 means 20 s.
	Heartbeat time.Duration
	// Grace is the time to finish what is in hand when Run's context ends; 0 means none.
	Grace time.Duration
	// TaskTimeout bounds all work on one delivery, waits for endpoints included; 0 means an hour.
	TaskTimeout time.Duration
	// HardEnd is how long work whose context has ended may take to notice. After it the task is settled without that work, and the
	// places that it had are free again. 0 means 10 s.
	HardEnd time.Duration
	// Patience is how long an endpoint may be unreachable before the build is asked to pause, once it has
	// answered; before the first answer it is a tenth of it. 0 means 10 min.
	Patience time.Duration
}

// Validate reports the first setting that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Slots < 1:
		return fmt.Errorf("worker: build.slots is %d, but must be at least 1", c.Slots)
	case c.MaxAttempts < 1:
		return fmt.Errorf("worker: build.max_attempts is %d, but must be at least 1", c.MaxAttempts)
	case c.Recipe == "":
		return errors.New("worker: a recipe is required")
	}
	return nil
}

// hands is how many tasks are in hand at most.
func (c Config) hands() int { return c.Slots + (c.Slots+3)/4 }

// Deps are what a worker works with.
type Deps struct {
	Queue      queue.Queue
	Store      store.Store
	Barrier    levels.Barrier
	Plans      levels.Plans
	Builds     levels.Builds // to ask for a stop when no call can succeed
	Journal    journal.Journal
	Summarizer mapreduce.Summarizer
	Embedder   llm.Embedder
	// EmbedderOf, if not nil, returns the one for a corpus, where corpora differ in theirs; it wins over Embedder.
	EmbedderOf func(ctx context.Context, corpus string) (llm.Embedder, error)
	// Full is raised when nothing can be written, for whoever coordinates in this process, and cleared when there is room again. Nil
	// means one of the worker's own.
	Full *space.Alarm
	// Marked is told of each settled task; it must not block. May be nil.
	Marked func()
	// Observer is told of each task in hand. May be nil.
	Observer Observer
	// Random decides the jitter of retries. Nil means a seed of the process's own.
	Random rand.Source
	Log    *slog.Logger
}

// Worker runs tasks.
type Worker struct {
	cfg  Config
	deps Deps

	// places has one place for each task in hand: an ordinary task takes one, and a task that must run alone takes all.
	places *semaphore.Weighted
	// slots has one place for each cluster that is being summarized.
	slots *semaphore.Weighted

	mu      sync.Mutex // guards what follows
	random  *rand.Rand
	hand    map[*delivery]struct{}
	reached time.Time // when an endpoint answered last; zero before the first answer
	lost    time.Time // since when none can be reached; zero if it can
	looked  map[string]look
	foreign foreign
	breaker breaker
}

// New returns a worker that is ready to run.
func New(cfg Config, deps Deps) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 20 * time.Second
	}
	if cfg.TaskTimeout == 0 {
		cfg.TaskTimeout = time.Hour
	}
	if cfg.HardEnd == 0 {
		cfg.HardEnd = 10 * time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Minute
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Full == nil {
		deps.Full = &space.Alarm{}
	}
	if deps.Marked == nil {
		deps.Marked = func() {}
	}
	if deps.Observer == nil {
		deps.Observer = unobserved{}
	}
	if deps.Random == nil {
		deps.Random = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	return &Worker{
		cfg: cfg, deps: deps, random: rand.New(deps.Random), hand: make(map[*delivery]struct{}),
		looked: make(map[string]look),
		places: semaphore.NewWeighted(int64(cfg.hands())), slots: semaphore.NewWeighted(int64(cfg.Slots)),
	}, nil
}

// Run takes tasks until ctx ends, then finishes what is in hand within the grace period, gives the rest back, and
// returns nil.
func (w *Worker) Run(ctx context.Context) error {
	work, stop := context.WithCancel(llm.WithLeaving(context.WithoutCancel(ctx), ctx.Done()))
	defer stop()
	var hands sync.WaitGroup
	for range w.cfg.hands() {
		hands.Go(func() { w.take(ctx, work) })
	}
	<-ctx.Done()
	finished := make(chan struct{})
	go func() { hands.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(w.cfg.Grace):
		stop()
		<-finished
	}
	return nil
}

// take takes one task after another.
func (w *Worker) take(ctx, work context.Context) {
	failures := 0
	for ctx.Err() == nil {
		d, err := w.deps.Queue.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			failures++
			if space.Is(err) {
				w.full(err)
				w.pause(ctx, failures)
				continue
			}
			w.deps.Log.Warn("no task could be taken, trying again", "error", err)
			w.pause(ctx, failures)
			continue
		}
		failures = 0
		w.settle(work, d)
	}
}

// pause waits with full jitter, longer with each failure, up to 10 s.
func (w *Worker) pause(ctx context.Context, failures int) {
	select {
	case <-ctx.Done():
	case <-time.After(w.jitter(failures, 10*time.Second)):
	}
}

// jitter returns a random time below 100 ms x 2^n, and below most.
func (w *Worker) jitter(n int, most time.Duration) time.Duration {
	ceiling := min(100*time.Millisecond<<min(n, 16), most)
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(ceiling)) + 1)
}

// Hand is what a worker has in hand of one build.
type Hand struct {
	Corpus, Build string
	Running       int
	Level         int // of one of the tasks
}

// Hand returns what is in hand, ordered by corpus and build.
func (w *Worker) Hand() []Hand {
	w.mu.Lock()
	defer w.mu.Unlock()
	hands := make(map[[2]string]Hand)
	for d := range w.hand {
		of := [2]string{d.task.Corpus, d.task.Build}
		h := hands[of]
		hands[of] = Hand{Corpus: of[0], Build: of[1], Running: h.Running + 1, Level: max(h.Level, d.task.Level)}
	}
	return slices.SortedFunc(maps.Values(hands), func(a, b Hand) int {
		return cmp.Or(cmp.Compare(a.Corpus, b.Corpus), cmp.Compare(a.Build, b.Build))
	})
}
