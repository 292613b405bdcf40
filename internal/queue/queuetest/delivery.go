package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
)

// delivery implements queue.Delivery for Memory.
type delivery struct {
	memory  *Memory
	entry   *entry
	holder  int
	settled bool // guarded by memory.mu
}

// Task implements queue.Delivery.
func (d *delivery) Task() queue.Task { return clone(&d.entry.task) }

// Extend implements queue.Delivery.
func (d *delivery) Extend(ctx context.Context) error {
	return d.act(ctx, "extend", func(now time.Time) error {
		if !d.holdsLocked(now) {
			return queue.ErrLost
		}
		d.memory.holdLocked(d.entry, now.Add(d.memory.lease))
		return nil
	})
}

// Done implements queue.Delivery. That of an expired holder counts, as it does on JetStream.
func (d *delivery) Done(ctx context.Context) error {
	return d.act(ctx, "done", func(time.Time) error {
		d.settled = true
		d.removeLocked()
		return nil
	})
}

// Retry implements queue.Delivery.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.act(ctx, "retry", func(now time.Time) error {
		d.settled = true
		if !d.holdsLocked(now) {
			return queue.ErrLost
		}
		if after <= 0 {
			d.memory.queueLocked(d.entry)
			return nil
		}
		d.entry.holder++
		d.memory.holdLocked(d.entry, now.Add(after))
		// A sleeping receiver may be waiting for a later moment than this one.
		d.memory.wakeLocked()
		return nil
	})
}

// Bury implements queue.Delivery.
func (d *delivery) Bury(ctx context.Context, cause, message string) error {
	return d.act(ctx, "bury", func(now time.Time) error {
		d.settled = true
		if !d.holdsLocked(now) {
			return queue.ErrLost
		}
		task := clone(&d.entry.task)
		task.Headers = nil
		d.memory.dead[keyOf(&task)] = queue.Buried{Task: task, Cause: cause, Error: message, At: now.UTC()}
		d.removeLocked()
		return nil
	})
}

func (d *delivery) act(ctx context.Context, what string, f func(now time.Time) error) error {
	err := ctx.Err()
	if err == nil {
		d.memory.mu.Lock()
		defer d.memory.mu.Unlock()
		if d.settled {
			err = queue.ErrSettled
		} else {
			err = f(d.memory.clock.Now())
		}
	}
	if err != nil {
		return fmt.Errorf("queuetest: %s task %s: %w", what, d.entry.task.ID, err)
	}
	return nil
}

// holdsLocked reports whether this delivery still has the lease.
func (d *delivery) holdsLocked(now time.Time) bool {
	e := d.entry
	return !e.gone && !e.waiting && e.holder == d.holder && e.due.After(now)
}

func (d *delivery) removeLocked() {
	if d.entry.gone {
		return
	}
	d.entry.gone = true
	delete(d.memory.tasks, keyOf(&d.entry.task))
}
