package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/worker"
)

// embedded names the embedded coordinator in its lease. It is the same for every process, because the lock on the queue's
// folder lets only one of them get as far: after a kill the next one need not wait until the lease has run out.
const embedded = "embedded"

// holder names this process in leases and reports.
func (h *home) holder() string {
	if h.places.Fleet {
		return daemon.Holder("aerie")
	}
	return embedded
}

// Run runs or resumes a build in this process, or follows one that runs in another.
func (h *home) Run(ctx context.Context, name string, s api.Start) (api.BuildReport, error) {
	if _, err := h.Record(ctx, name); err != nil {
		return api.BuildReport{}, err
	}
	trigger := cmp.Or(s.Trigger, "command")
	if s.Retry {
		trigger = "retry"
	}
	s = h.c.budget(s)
	return h.of(name).build(ctx, coordinator.Request{
		Force: s.Force, Full: s.Full, Restale: s.Settle, Trigger: trigger, Retry: s.Retry, RetryCause: s.Cause, MaxTokens: s.MaxTokens, MaxCost: s.MaxCost,
	})
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

// Detach implements builds: on a fleet's places, another coordinator goes on.
func (h *home) Detach(ctx context.Context, name string, s api.Start) (api.Build, error) {
	if !h.places.Fleet {
		return api.Build{}, usagef("leave it out, or name a coordinator with --server", "--detach has nobody to leave the build to: it runs in this process")
	}
	if _, err := h.Record(ctx, name); err != nil {
		return api.Build{}, err
	}
	o := h.of(name)
	if err := o.openQueue(ctx); err != nil {
		return api.Build{}, err
	}
	m, err := o.models(o.places.Journal())
	if err != nil {
		return api.Build{}, err
	}
	coord, err := o.coordinator(m)
	if err != nil {
		return api.Build{}, err
	}
	s = h.c.budget(s)
	report, err := coord.Build(ctx, coordinator.Request{
		Force: s.Force, Full: s.Full, Restale: s.Settle, Trigger: cmp.Or(s.Trigger, "command"), Retry: s.Retry, RetryCause: s.Cause, MaxTokens: s.MaxTokens, MaxCost: s.MaxCost, Detach: true,
	})
	if err != nil && !errors.Is(err, levels.ErrHeld) {
		return api.Build{}, err
	}
	if err == nil && report.Build == "" {
		return api.Build{Corpus: name, Resting: true, Report: &report}, nil
	}
	return h.Service.Newest(ctx, name, err != nil)
}

// openQueue opens the queue, and on a fleet makes what is missing there.
func (h *home) openQueue(ctx context.Context) error {
	if err := h.places.OpenQueue(); err != nil || !h.places.Fleet {
		return err
	}
	return h.places.Migrate(ctx)
}

func (h *home) build(ctx context.Context, req coordinator.Request) (api.BuildReport, error) {
	waiting := false
	for {
		err := h.openQueue(ctx)
		if err == nil {
			report, err := h.drive(ctx, req)
			if !errors.Is(err, levels.ErrHeld) {
				return report, err
			}
		}
		var locked *natsqueue.LockedError
		if err != nil && !errors.As(err, &locked) {
			return api.BuildReport{}, err
		}
		who := "another process"
		if locked != nil {
			who += pidText(locked.PID)
		}
		if !req.Retry {
			if report, rests, err := h.follow(ctx, who); rests || err != nil {
				return report, err
			}
		}
		if locked != nil && h.c.servedAt(locked.PID) != "" {
			return api.BuildReport{}, h.c.lockedHint(err)
		}
		if !waiting {
			waiting = true
			h.c.progressNote("%s works in %s; waiting for it to end", who, h.where())
		}
		select {
		case <-ctx.Done():
			return api.BuildReport{}, failf(exitInterrupted, "nothing was begun here", "interrupted while waiting for another process")
		case <-time.After(lookEvery):
		}
	}
}

// models returns what writes summaries and embeds them, within the configured budget.
func (h *home) models(journal journal.Journal) (*wire.Models, error) {
	return h.places.Models(h.counter, journal, wire.BudgetOf(h.cfg, wire.NoRequest))
}

// drive builds with a coordinator and a worker in this process. The error is levels.ErrHeld if another process of the fleet
// is at it.
func (h *home) drive(ctx context.Context, req coordinator.Request) (api.BuildReport, error) {
	m, err := h.models(h.places.Journal())
	if err != nil {
		return api.BuildReport{}, err
	}
	if _, err := h.places.EmbedderOf(ctx, m, h.cfg.Corpus); err != nil {
		return api.BuildReport{}, err
	}
	show := newDisplay(h.c, h.look)
	cfg := wire.CoordinatorConfig(h.cfg, h.cfg.Corpus, h.holder(), h.dir, m)
	coord, err := h.places.Coordinator(cfg, m, func(deps *coordinator.Deps) {
		deps.Events = show.event
		if h.traces != nil {
			deps.Observer = h.traces.Coordinator()
		}
	})
	if err != nil {
		return api.BuildReport{}, err
	}
	work, err := h.places.Worker(m, func(deps *worker.Deps) {
		deps.Marked = coord.Hint
		if h.traces != nil {
			deps.Observer = h.traces.Worker(h.cfg.Build.Slots, h.cfg.Build.TaskTimeout)
		}
	})
	if err != nil {
		return api.BuildReport{}, err
	}

	// The worker outlives ctx: it is stopped by Settle, which waits for the calls in hand, before the pause is recorded. It begins
	// with the build: tasks of one that rests would only be looked at and put back.
	detached := context.WithoutCancel(ctx)
	workCtx, stopWork := context.WithCancel(detached)
	sideCtx, stopSide := context.WithCancel(detached)
	var working, side sync.WaitGroup
	reporter := coordinator.Reporter{Coordinator: coord, Hand: func() (int, int, []string) {
		for _, hand := range work.Hand() {
			if hand.Corpus == h.cfg.Corpus {
				return hand.Running, hand.Level, m.Waiting()
			}
		}
		return 0, 0, m.Waiting()
	}}
	var once sync.Once
	began := req.Began
	req.Began = func(build string) {
		once.Do(func() {
			working.Go(func() { _ = work.Run(workCtx) }) // returns nil by its contract
			side.Go(func() { reporter.Run(sideCtx) })
			side.Go(func() { show.run(sideCtx) })
			id := daemon.Holder("aerie")
			side.Go(func() {
				wire.Tell(sideCtx, h.places.Members, h.c.log, func() levels.Member { return wire.WorkerMember(id, version, h.cfg, m, work) })
			})
			side.Go(func() {
				wire.Tell(sideCtx, h.places.Members, h.c.log, func() levels.Member {
					return levels.Member{ID: id, Role: levels.RoleCoordinator, Version: version, Recipe: m.Recipe}
				})
			})
		})
		if began != nil {
			began(build)
		}
	}
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
func (h *home) coordinator(m *wire.Models) (*coordinator.Coordinator, error) {
	return h.places.Coordinator(wire.CoordinatorConfig(h.cfg, h.cfg.Corpus, h.holder(), h.dir, m), m, nil)
}

// Plan says what a build would do. It needs the queue for the journal only: where there is none yet, or another process
// has it, paid answers count as calls.
func (h *home) Plan(ctx context.Context, name string, full bool) (api.Estimate, error) {
	if _, err := h.Record(ctx, name); err != nil {
		return api.Estimate{}, err
	}
	return h.of(name).plan(ctx, full)
}

func (h *home) plan(ctx context.Context, full bool) (api.Estimate, error) {
	var journal journal.Journal
	if h.places.HasQueue() {
		switch err := h.places.OpenQueue(); {
		case err == nil:
			journal = h.places.Journal()
		case errors.Is(err, natsqueue.ErrLocked):
			h.c.note("%v; answers that are paid for already are counted as calls", err)
		default:
			return api.Estimate{}, err
		}
	}
	m, err := h.models(journal)
	if err != nil {
		return api.Estimate{}, err
	}
	coord, err := h.coordinator(m)
	if err != nil {
		return api.Estimate{}, err
	}
	sideCtx, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() { h.showDoing(sideCtx, coord) })
	defer side.Wait()
	defer stopSide()
	return coord.Plan(ctx, full)
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
	if err := h.openQueue(ctx); err != nil {
		return api.Collected{}, h.c.lockedHint(err)
	}
	return h.Service.Collect(ctx, name)
}

// builder does the work of builds for the service of a home.
type builder struct{ h *home }

// Run implements service.Builder.
func (b builder) Run(ctx context.Context, name string, req coordinator.Request, budget api.BuildRequest) (api.BuildReport, error) {
	h, cfg := *b.h.of(name), *b.h.cfg
	cfg.Corpus = name
	bounds := wire.BudgetOf(&cfg, budget)
	cfg.Build.MaxTokens, cfg.Build.MaxCost = bounds.MaxTokens, bounds.MaxCost
	h.cfg = &cfg
	if err := b.h.openQueue(ctx); err != nil {
		return api.BuildReport{}, h.c.lockedHint(err)
	}
	return h.drive(ctx, req)
}

// Coordinator implements service.Builder.
func (b builder) Coordinator(_ context.Context, name string) (*coordinator.Coordinator, error) {
	h := b.h.of(name)
	var journal journal.Journal
	if h.places.Conn() != nil {
		journal = h.places.Journal()
	}
	m, err := h.models(journal)
	if err != nil {
		return nil, err
	}
	return h.coordinator(m)
}

// Purge implements service.Builder.
func (b builder) Purge(ctx context.Context, name, build string) error {
	if err := b.h.openQueue(ctx); err != nil {
		return b.h.c.lockedHint(err)
	}
	return errors.Join(b.h.places.Queue().Purge(ctx, name, build), b.h.places.Plans().DropPlans(ctx, name, build))
}

// lookEvery is how often a build in another process is looked at.
const lookEvery = 500 * time.Millisecond

// follow shows the progress of a build that runs in another process until it rests. rests is false if no build is seen
// running, or its process has gone: then this process may go on with it.
func (h *home) follow(ctx context.Context, who string) (report api.BuildReport, rests bool, err error) {
	first, err := h.look(ctx)
	if err != nil || !first.alive {
		return api.BuildReport{}, false, ignoreNotFound(err)
	}
	h.c.progressNote("build %s runs in %s; following it, Ctrl-C only detaches", first.build, who)
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
				"detached; build %s goes on in %s", first.build, who)
		case <-tick.C:
		}
		state, err := h.places.Builds.Load(ctx, h.cfg.Corpus)
		switch {
		case err != nil && ctx.Err() == nil:
			return report, false, err
		case err != nil:
		case state.Build != first.build:
			return report, false, nil
		case state.Resting():
			return h.reportOf(state)
		default:
			if now, err := h.look(ctx); err == nil && !now.alive {
				return report, false, nil
			}
		}
	}
}

func (h *home) reportOf(state *levels.State) (api.BuildReport, bool, error) {
	m, err := h.models(nil)
	if err != nil {
		return api.BuildReport{}, false, err
	}
	coord, err := h.coordinator(m)
	if err != nil {
		return api.BuildReport{}, false, err
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
