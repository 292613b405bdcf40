package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// late is why a task's context has ended: its time is over.
type late struct{ after time.Duration }

func (e *late) Error() string {
	return fmt.Sprintf("not done within %s (build.task_timeout)", e.after)
}

// bounded makes an attempt and returns soon after its context has ended, whatever the attempt calls: what doesn't come back is left
// behind without its places. It can do no harm then, since all that it may still write to goes by the context that has ended; only
// an answer that was paid for is kept.
func (w *Worker) bounded(ctx context.Context, d *delivery) (Outcome, error) {
	type result struct {
		outcome Outcome
		err     error
	}
	held := &holding{}
	defer held.drop()
	done := make(chan result, 1)
	go func() {
		outcome, err := w.attempt(ctx, d, held)
		done <- result{outcome, err}
	}()
	select {
	case r := <-done:
		return r.outcome, held.explain(ctx, r.err)
	case <-ctx.Done():
	}
	hard := time.NewTimer(w.cfg.HardEnd)
	defer hard.Stop()
	select {
	case r := <-done:
		return r.outcome, held.explain(ctx, r.err)
	case <-hard.C:
	}
	w.deps.Log.ErrorContext(ctx, "the work on a task doesn't end though it was cancelled, and is left behind", "task", d.task.ID, "build", d.task.Build,
		"after", w.cfg.HardEnd)
	return "", fmt.Errorf("%w, and the call doesn't end though it was cancelled", context.Cause(ctx))
}

// errQueued: a task's time was over before there was a slot for it, which isn't its fault.
var errQueued = errors.New("its time was over while it waited for other tasks in hand")

// holding is what one attempt has of the worker's places and slots.
type holding struct {
	mu      sync.Mutex
	of      map[*semaphore.Weighted]int64
	working bool // it has had a slot
	dropped bool
}

// explain adds to an error that the task's time is over, where that is why.
func (h *holding) explain(ctx context.Context, err error) error {
	var over *late
	if err == nil || !errors.As(context.Cause(ctx), &over) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.working {
		return errQueued
	}
	return fmt.Errorf("%w: %w", over, err)
}

// take waits for n of a semaphore. After drop it fails.
func (h *holding) take(ctx context.Context, s *semaphore.Weighted, n int64) error {
	if err := s.Acquire(ctx, n); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped {
		s.Release(n)
		return context.Cause(ctx)
	}
	if h.of == nil {
		h.of = map[*semaphore.Weighted]int64{}
	}
	h.of[s] += n
	return nil
}

// give returns all that is held of a semaphore.
func (h *holding) give(s *semaphore.Weighted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.of[s]; n > 0 {
		s.Release(n)
		delete(h.of, s)
	}
}

// takeSlot waits for the one slot in which the work is done.
func (h *holding) takeSlot(ctx context.Context, slots *semaphore.Weighted) error {
	if err := h.take(ctx, slots, 1); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.working = true
	return nil
}

// drop returns everything, for good.
func (h *holding) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped = true
	for s, n := range h.of {
		s.Release(n)
	}
	h.of = nil
}
