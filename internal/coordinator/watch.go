package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// Schedule says when builds are due by the clock.
type Schedule interface {
	// Next returns the first time after t; zero if there is none.
	Next(t time.Time) time.Time
}

// WatchConfig says when builds start by themselves.
type WatchConfig struct {
	Rule levels.Rule
	// Schedule, if not nil, decides alone: at its times a corpus that has changed at all is built, and growth starts nothing
	// in between.
	Schedule Schedule
	// Every is the time between looks; 0 means 2 s.
	Every time.Duration
	// Quiet is how long a corpus must have been left alone before growth starts a build: an ingestion under way would be
	// built half and paid for twice. A corpus that is never left alone is built after MostQuiet. 0 means 10 s.
	Quiet time.Duration
}

// mostQuiet is how long a due build waits at most for its corpus to be left alone.
const mostQuiet = time.Hour

// retryAfter is how long a build that found an endpoint unreachable, or no room, rests before it is tried again.
const retryAfter = 5 * time.Minute

// WatchDeps are what a Watcher works with.
type WatchDeps struct {
	Store   store.Store
	Corpora levels.Corpora
	Builds  levels.Builds
	// Start begins a build of a corpus, or goes on with one, and returns once that is decided. Another process may be
	// quicker, which is no error.
	Start func(ctx context.Context, corpus, trigger string) error
	Log   *slog.Logger
}

// Watcher starts the builds that are due by growth or schedule, and goes on with those that another process left unfinished.
// Any number of processes may watch: the lease decides who builds.
type Watcher struct {
	cfg  WatchConfig
	deps WatchDeps
	now  func() time.Time
	seen map[string]*sight // by corpus
}

// sight is what a Watcher remembers of a corpus between looks.
type sight struct {
	changes   int64     // of the last look
	changed   time.Time // when that was first seen
	due       time.Time // since when a build has been due; zero if none is
	cancelled string    // the build that was found cancelled, when the corpus had
	rested    int64     // so many changes
	revived   bool      // a build that rests for a reason that a new configuration may have mended was tried once
}

// NewWatcher returns a Watcher.
func NewWatcher(cfg WatchConfig, deps WatchDeps) *Watcher {
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 10 * time.Second
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg, deps: deps, now: time.Now, seen: map[string]*sight{}}
}

// Run looks at every corpus again and again until ctx ends. beat, if not nil, is called after each round.
func (w *Watcher) Run(ctx context.Context, beat func()) {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.deps.Log.Warn("the corpora were not looked at, trying again", "error", err)
		}
		if beat != nil {
			beat()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks at every corpus once. One that can't be looked at doesn't keep it from the others.
func (w *Watcher) Look(ctx context.Context) error {
	names, err := w.deps.Corpora.List(ctx)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	var errs []error
	for _, corpus := range names {
		trigger, err := w.lookAt(ctx, corpus)
		if err == nil && trigger != "" {
			w.deps.Log.Info("a build starts or goes on by itself", "corpus", corpus, "trigger", trigger)
			err = w.deps.Start(ctx, corpus, trigger)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("corpus %s: %w", corpus, err))
		}
	}
	return errors.Join(errs...)
}

// lookAt returns why a build of the corpus should start or go on now, or "".
func (w *Watcher) lookAt(ctx context.Context, corpus string) (string, error) {
	holder, err := w.deps.Builds.Holder(ctx, corpus, levels.RightBuild)
	if err != nil || holder != "" {
		return "", err
	}
	record, err := w.deps.Corpora.Load(ctx, corpus)
	if err != nil {
		if errors.Is(err, levels.ErrNotFound) {
			err = nil // deleted between the list and here
		}
		return "", err
	}
	state, err := w.deps.Builds.Load(ctx, corpus)
	if err != nil && !errors.Is(err, levels.ErrNotFound) {
		return "", err
	}
	s := w.sight(corpus, record)
	if trigger := w.goesOn(s, state); trigger != "" {
		return trigger, nil
	}
	if state != nil && !mayFollow(s, state, record) {
		return "", nil
	}
	if w.cfg.Rule.Manual {
		return "", nil
	}
	if w.cfg.Schedule != nil {
		return w.scheduled(ctx, corpus, record)
	}
	leaves, err := w.deps.Store.Count(ctx, corpus, store.Leaves().VisibleAt(record.Generation))
	if err != nil {
		return "", err
	}
	return w.grown(s, w.cfg.Rule.Decide(record, leaves)), nil
}

func (w *Watcher) sight(corpus string, record *levels.Corpus) *sight {
	s := w.seen[corpus]
	if s == nil {
		s = &sight{changes: -1}
		w.seen[corpus] = s
	}
	if s.changes != record.Changes {
		s.changes, s.changed = record.Changes, w.now()
	}
	return s
}

// goesOn tells whether a build that was begun goes on by itself.
func (w *Watcher) goesOn(s *sight, state *levels.State) string {
	switch {
	case state == nil:
	case !state.Resting():
		return TriggerResumed
	case state.Status == levels.Paused && (state.Cause == levels.CauseUnreachable || state.Cause == levels.CauseFull):
		if w.now().Sub(state.Updated) >= retryAfter {
			return TriggerResumed
		}
	case !s.revived && (state.Status == levels.Failed || ranOut(state)):
		// A new process may have a new key or a larger budget. If not, it rests again at once and has paid nothing.
		s.revived = true
		return TriggerResumed
	}
	return ""
}

// ranOut reports whether a build has used up a budget that is configured. One that was asked for with the build is somebody's
// word, which no configuration takes back.
func ranOut(state *levels.State) bool {
	return state.Status == levels.Paused && state.Cause == levels.CauseBudget && state.MaxTokens == nil && state.MaxCost == nil
}

// mayFollow tells whether another build may start by itself after the newest one. One that a person stopped, that failed or
// that has buried tasks is not begun anew from the same corpus.
func mayFollow(s *sight, state *levels.State, record *levels.Corpus) bool {
	switch state.Status {
	case levels.Built:
		return true
	case levels.Cancelled:
		if s.cancelled != state.Build {
			s.cancelled, s.rested = state.Build, record.Changes
		}
		return record.Changes != s.rested
	case levels.Degraded:
		return record.Changes != state.Baseline.Changes
	}
	return false
}

// grown applies the growth rule's decision, and waits until the corpus is left alone.
func (w *Watcher) grown(s *sight, d levels.Decision) string {
	now := w.now()
	if !d.Due {
		s.due = time.Time{}
		return ""
	}
	if s.due.IsZero() {
		s.due = now
	}
	if now.Sub(s.changed) < w.cfg.Quiet && now.Sub(s.due) < mostQuiet {
		return ""
	}
	return "growth"
}

// scheduled tells whether a time of the schedule has come that nobody has attended to. The first process to say so in the
// record does; times that passed while no coordinator ran count once.
func (w *Watcher) scheduled(ctx context.Context, corpus string, record *levels.Corpus) (string, error) {
	now := w.now()
	if !record.Scheduled.IsZero() {
		if next := w.cfg.Schedule.Next(record.Scheduled); next.IsZero() || next.After(now) {
			return "", nil
		}
	}
	attended := false
	err := w.deps.Corpora.Update(ctx, corpus, func(r *levels.Corpus) error {
		attended = r.Scheduled.Equal(record.Scheduled)
		if attended {
			r.Scheduled = now
		}
		return nil
	})
	first := record.Scheduled.IsZero()
	unchanged := record.Baseline != nil && record.Baseline.Changes == record.Changes
	if err != nil || !attended || first || unchanged {
		return "", err
	}
	return TriggerSchedule, nil
}
