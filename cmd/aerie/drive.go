package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/worker"
)

// holder names the embedded coordinator in its lease. It is the same for every process, because the lock on the queue's
// folder lets only one of them get as far: after a kill the next one need not wait until the lease has run out.
const holder = "embedded"

// Run runs or resumes a build in this process, or follows one that runs in another.
func (h *home) Run(ctx context.Context, name string, s api.Start) (coordinator.Report, error) {
	trigger := cmp.Or(s.Trigger, "command")
	if s.Retry {
		trigger = "retry"
	}
	return h.of(name).build(ctx, coordinator.Request{Force: s.Force, Trigger: trigger, Retry: s.Retry, RetryCause: s.Cause})
}

// of returns the home with another corpus at hand.
func (h *home) of(name string) *home {
	if name == h.cfg.Corpus {
		return h
	}
	other, cfg := *h, *h.cfg
	cfg.Corpus, other.cfg = name, &cfg
	return &other
}

// Detach implements builds.
func (h *home) Detach(context.Context, string, api.Start) (api.Build, error) {
	return api.Build{}, usagef("leave it out, or name a coordinator with --server", "--detach has nobody to leave the build to: it runs in this process")
}

func (h *home) build(ctx context.Context, req coordinator.Request) (coordinator.Report, error) {
	waiting := false
	for {
		err := h.openQueue()
		if err == nil {
			return h.drive(ctx, req)
		}
		var locked *natsqueue.LockedError
		if !errors.As(err, &locked) {
			return coordinator.Report{}, err
		}
		if !req.Retry {
			if report, rests, err := h.follow(ctx, locked); rests || err != nil {
				return report, err
			}
		}
		if !waiting {
			waiting = true
			h.c.progressNote("another process%s works in %s; waiting for it to end", pidText(locked.PID), h.dir)
		}
		select {
		case <-ctx.Done():
			return coordinator.Report{}, failf(exitInterrupted, "nothing was begun here", "interrupted while waiting for another process")
		case <-time.After(lookEvery):
		}
	}
}

// drive builds with a coordinator and a worker in this process.
func (h *home) drive(ctx context.Context, req coordinator.Request) (coordinator.Report, error) {
	m, err := h.models(h.conn.Journal())
	if err != nil {
		return coordinator.Report{}, err
	}
	if err := errors.Join(h.checkEmbedder(ctx, m), h.resumeBudget(ctx, m)); err != nil {
		return coordinator.Report{}, err
	}
	show := newDisplay(h.c, h.look)
	coord, err := h.coordinator(m, show.event)
	if err != nil {
		return coordinator.Report{}, err
	}
	work, err := worker.New(worker.Config{
		Slots: h.cfg.Build.Slots, MaxAttempts: h.cfg.Build.MaxAttempts, Recipe: m.recipe, Reduce: m.reduce, Grace: h.cfg.Worker.Grace,
		Heartbeat: h.conn.Heartbeat(),
	}, worker.Deps{
		Queue: h.conn.Queue(), Store: h.store(), Barrier: h.db.Barrier(), Plans: h.conn.Plans(), Builds: h.db.Builds(),
		Journal: h.conn.Journal(), Summarizer: m.summarizer, Embedder: m.summaryEmbedder, Marked: coord.Hint, Log: h.c.log,
	})
	if err != nil {
		return coordinator.Report{}, err
	}

	// The worker outlives ctx: it is stopped by Settle, which waits for the calls in hand, before the pause is recorded.
	detached := context.WithoutCancel(ctx)
	workCtx, stopWork := context.WithCancel(detached)
	sideCtx, stopSide := context.WithCancel(detached)
	var working, side sync.WaitGroup
	working.Go(func() { _ = work.Run(workCtx) }) // returns nil by its contract
	reporter := coordinator.Reporter{Coordinator: coord, Hand: func() (int, int, []string) {
		for _, h := range work.Hand() { // all of one build
			return h.Running, h.Level, m.waiting()
		}
		return 0, 0, m.waiting()
	}}
	side.Go(func() { reporter.Run(sideCtx) })
	side.Go(func() { show.run(sideCtx) })
	unhook := context.AfterFunc(ctx, func() {
		show.event("stopping: what is in hand finishes first; Ctrl-C again stops at once and loses nothing either")
	})
	req.Settle = func() { stopWork(); working.Wait() }
	report, err := coord.Build(ctx, req)
	unhook()
	stopWork()
	working.Wait()
	stopSide()
	side.Wait()
	return report, err
}

// coordinator returns one for the home's corpus. Without a queue it can only plan.
func (h *home) coordinator(m *models, events func(string)) (*coordinator.Coordinator, error) {
	deps := coordinator.Deps{
		Store: h.store(), Corpora: h.db.Corpora(), Builds: h.db.Builds(), Barrier: h.db.Barrier(), Dry: m.dry, Events: events, Log: h.c.log,
	}
	if h.conn != nil {
		deps.Queue, deps.Plans, deps.Journal = h.conn.Queue(), h.conn.Plans(), h.conn.Journal()
	}
	cfg := coordinator.Config{
		Corpus: h.cfg.Corpus, Rule: h.rule(), MinChunks: h.cfg.Build.MinChunks, MaxDepth: h.cfg.Build.MaxDepth,
		Clustering: clusteringConfig(h.cfg), Recipe: m.recipe, Settings: h.cfg.Map(), Holder: holder, TempDir: h.dir,
	}
	if price, ok := h.cfg.Build.Prices[m.model]; ok {
		cfg.Price = &coordinator.Price{Input: price.Input, Output: price.Output, Currency: price.Currency}
	}
	return coordinator.New(cfg, deps)
}

// Plan says what a build would do. It needs the queue for the journal only: where there is none yet, or another process
// has it, paid answers count as calls.
func (h *home) Plan(ctx context.Context, name string) (coordinator.Estimate, error) {
	return h.of(name).plan(ctx)
}

func (h *home) plan(ctx context.Context) (coordinator.Estimate, error) {
	var journal llm.Journal
	if exists(h.queueDir()) {
		switch err := h.openQueue(); {
		case err == nil:
			journal = h.conn.Journal()
		case errors.Is(err, natsqueue.ErrLocked):
			h.c.note("%v; answers that are paid for already are counted as calls", err)
		default:
			return coordinator.Estimate{}, err
		}
	}
	m, err := h.models(journal)
	if err != nil {
		return coordinator.Estimate{}, err
	}
	coord, err := h.coordinator(m, nil)
	if err != nil {
		return coordinator.Estimate{}, err
	}
	sideCtx, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() { h.showDoing(sideCtx, coord) })
	defer side.Wait()
	defer stopSide()
	return coord.Plan(ctx)
}

// showDoing tells what a coordinator is busy with, until ctx ends: clustering a large corpus takes a while.
func (h *home) showDoing(ctx context.Context, coord *coordinator.Coordinator) {
	ticker := newTicker(h.c, "planning")
	defer ticker.stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if doing := coord.Doing(); doing != "" {
				ticker.set("%s", doing)
			}
		}
	}
}

// Collect removes what nobody needs. It takes the queue, whose lock keeps builds away meanwhile.
func (h *home) Collect(ctx context.Context, name string) (api.Collected, error) {
	if _, err := h.Record(ctx, name); err != nil {
		return api.Collected{}, err
	}
	if err := h.openQueue(); err != nil {
		return api.Collected{}, lockedHint(err)
	}
	return h.Service.Collect(ctx, name)
}

// builder does the work of builds for the service of a home.
type builder struct{ h *home }

// Run implements service.Builder.
func (b builder) Run(ctx context.Context, name string, req coordinator.Request, budget api.BuildRequest) (coordinator.Report, error) {
	h, cfg := *b.h.of(name), *b.h.cfg
	cfg.Corpus = name
	if budget.MaxTokens != nil {
		cfg.Build.MaxTokens = *budget.MaxTokens
	}
	if budget.MaxCost != nil {
		cfg.Build.MaxCost = *budget.MaxCost
	}
	h.cfg = &cfg
	if err := b.h.openQueue(); err != nil {
		return coordinator.Report{}, lockedHint(err)
	}
	h.conn = b.h.conn
	return h.drive(ctx, req)
}

// Coordinator implements service.Builder.
func (b builder) Coordinator(_ context.Context, name string) (*coordinator.Coordinator, error) {
	h := b.h.of(name)
	var journal llm.Journal
	if h.conn != nil {
		journal = h.conn.Journal()
	}
	m, err := h.models(journal)
	if err != nil {
		return nil, err
	}
	return h.coordinator(m, nil)
}

// Purge implements service.Builder.
func (b builder) Purge(ctx context.Context, name, build string) error {
	if err := b.h.openQueue(); err != nil {
		return lockedHint(err)
	}
	return errors.Join(b.h.conn.Queue().Purge(ctx, name, build), b.h.conn.Plans().DropPlans(ctx, name, build))
}

// lookEvery is how often a build in another process is looked at.
const lookEvery = 500 * time.Millisecond

// follow shows the progress of a build that runs in another process until it rests. rests is false if no build is seen
// running, or its process has gone: then this process may go on with it.
func (h *home) follow(ctx context.Context, locked *natsqueue.LockedError) (report coordinator.Report, rests bool, err error) {
	first, err := h.look(ctx)
	if err != nil || !first.alive {
		return coordinator.Report{}, false, ignoreNotFound(err)
	}
	h.c.progressNote("build %s runs in another process%s; following it, Ctrl-C only detaches", first.build, pidText(locked.PID))
	show := newDisplay(h.c, h.look)
	sideCtx, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() { show.run(sideCtx) })
	defer side.Wait()
	defer stopSide()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return report, false, failf(exitInterrupted, "aerie build attaches again; aerie status looks at it",
				"detached; build %s goes on in the other process%s", first.build, pidText(locked.PID))
		case <-tick.C:
		}
		state, err := h.db.Builds().Load(ctx, h.cfg.Corpus)
		switch {
		case err != nil && ctx.Err() == nil:
			return report, false, err
		case err != nil:
		case state.Build != first.build:
			return report, false, nil
		case state.Resting():
			return h.reportOf(ctx, state)
		default:
			if now, err := h.look(ctx); err == nil && !now.alive {
				return report, false, nil
			}
		}
	}
}

func (h *home) reportOf(ctx context.Context, state *levels.State) (coordinator.Report, bool, error) {
	m, err := h.models(nil)
	if err != nil {
		return coordinator.Report{}, false, err
	}
	coord, err := h.coordinator(m, nil)
	if err != nil {
		return coordinator.Report{}, false, err
	}
	return coord.ReportOf(state), true, nil
}

func pidText(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, levels.ErrNotFound) {
		return nil
	}
	return err
}
