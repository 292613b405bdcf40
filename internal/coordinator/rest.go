package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/space"
)

// stopWish is a person's or a worker's request that the build come to rest.
type stopWish struct{ stop levels.Stop }

func (e *stopWish) Error() string { return e.stop.Sentence }

// stopOn brings the build to rest after an error: the caller's stop, a wish, or a failure. It returns the error if
// not even that could be recorded.
func (r *run) stopOn(cause error) error {
	stop := levels.Stop{Status: levels.Failed, Cause: levels.CauseError, Sentence: cause.Error()}
	var wish *stopWish
	switch {
	case errors.Is(cause, levels.ErrFenced):
		return cause // the state belongs to another
	case errors.As(cause, &wish):
		stop = wish.stop
	case space.Is(cause):
		stop = levels.Stop{Status: levels.Paused, Cause: levels.CauseFull, Sentence: space.Plain(cause).Error()}
	case r.ctx.Err() != nil:
		if lost := context.Cause(r.ctx); !errors.Is(lost, context.Canceled) && !errors.Is(lost, context.DeadlineExceeded) {
			return lost
		}
		if r.req.HandOver {
			return cause
		}
		stop = levels.Stop{Status: levels.Paused, Cause: levels.CauseInterrupted, Sentence: "interrupted"}
	}
	if r.req.Settle != nil {
		r.req.Settle()
	}
	ctx, cancel := settling(r.ctx)
	defer cancel()
	r.countAtRest(ctx)
	ready, err := r.state.Step(levels.Stopped{Stop: stop})
	if err != nil {
		return errors.Join(cause, err)
	}
	if err := r.save(ctx); err != nil {
		if space.Is(err) && !space.Is(cause) {
			return err // a wish for a stop says it in words alone
		}
		if stop.Cause == levels.CauseFull {
			return cause // there is no room for the record either; a build that nobody holds goes on like one that rests
		}
		return errors.Join(cause, err)
	}
	if ready.Announce != "" {
		r.say("%s", ready.Announce)
	}
	if r.state.Status == levels.Cancelled {
		err = r.dropWork(ctx)
	} else {
		err = r.makeWay(ctx)
	}
	if err != nil {
		r.deps.Log.Warn("tasks of a build that rests are still queued", "corpus", r.cfg.Corpus, "build", r.state.Build, "error", err)
	}
	return nil
}

// makeWay takes the tasks of builds that rest out of the queue if a build of another corpus runs. Workers give them back
// again and again, and each counts against the number of tasks in hand: many would leave no room for those that are wanted.
// Their plans publish them again when they go on. Where nothing runs they stay queued.
func (r *run) makeWay(ctx context.Context) error {
	names, err := r.deps.Corpora.List(ctx)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	running, resting := false, []*levels.State(nil)
	for _, name := range names {
		state, err := r.deps.Builds.Load(ctx, name)
		switch {
		case errors.Is(err, levels.ErrNotFound):
		case err != nil:
			return fmt.Errorf("coordinator: corpus %s: %w", name, err)
		case !state.Resting():
			running = true
		case state.Resumable():
			resting = append(resting, state)
		}
	}
	if !running {
		return nil
	}
	for _, state := range resting {
		if err := r.deps.Queue.Withdraw(ctx, state.Corpus, state.Build); err != nil {
			return fmt.Errorf("coordinator: build %s: %w", state.Build, err)
		}
	}
	return nil
}

// countAtRest reads the barrier once more, so that the record shows what workers finished last.
func (r *run) countAtRest(ctx context.Context) {
	ready := r.state.Next()
	if ready.Do != levels.AwaitLevel {
		return
	}
	if count, err := r.deps.Barrier.Count(ctx, r.of(ready.Level)); err == nil && !count.Complete() {
		_, _ = r.state.Step(levels.LevelCounted{Level: ready.Level, Count: count, Allowed: r.allowed(count.Total)})
	}
}

// abandon ends the newest build for good, if it could still go on. Nodes that it paid for stay, and serve the next
// build where that has the same clusters.
func (r *run) abandon(cause levels.Cause, why string) error {
	if r.state == nil || !r.state.Resumable() {
		return nil
	}
	if _, err := r.step(levels.Stopped{Stop: levels.Stop{Status: levels.Cancelled, Cause: cause, Sentence: why}}); err != nil {
		return err
	}
	return r.dropWork(r.ctx)
}

// ErrMoved: the build that was meant isn't the newest any more.
var ErrMoved = errors.New("another build has taken its place")

// Cancel ends a build for good at a person's wish, if it is the newest, rests and could go on. The error is levels.ErrHeld if it is running somewhere,
// and ErrMoved if a newer one is there.
func (c *Coordinator) Cancel(ctx context.Context, build string) error {
	r, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer r.release()
	r.state, err = c.deps.Builds.Load(ctx, c.cfg.Corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	if r.state.Build != build {
		return fmt.Errorf("coordinator: build %s: %w: %s", build, ErrMoved, r.state.Build)
	}
	return r.abandon(levels.CauseAsked, "asked for")
}

// dropWork removes what a build that is over leaves behind: tasks, barriers, plans.
func (r *run) dropWork(ctx context.Context) error {
	corpus, build := r.state.Corpus, r.state.Build
	err := r.fenced(ctx, func(ctx context.Context) error {
		if err := r.deps.Queue.Purge(ctx, corpus, build); err != nil {
			return err
		}
		if err := r.deps.Barrier.Drop(ctx, corpus, build); err != nil {
			return err
		}
		return r.deps.Plans.DropPlans(ctx, corpus, build)
	})
	if err != nil {
		return fmt.Errorf("coordinator: build %s: %w", build, err)
	}
	return nil
}
