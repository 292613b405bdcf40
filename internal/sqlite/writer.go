package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// writer runs changes one after the other on the one connection that writes.
//
// There is no goroutine of its own: the first caller leads, and runs its change together with all that have
// arrived by then, in one transaction; whoever arrives meanwhile waits, and the first of these leads next. So
// eight workers that mark a barrier at the same time share one sync of the disk.
type writer struct {
	session *session
	timeout time.Duration

	mu      sync.Mutex
	leading bool
	waiting []*change
}

// maxBatch bounds how many changes share a transaction.
const maxBatch = 64

// change is one caller's part of a transaction.
type change struct {
	ctx context.Context
	fn  func(*session) error

	leads bool          // guarded by writer.mu: this caller's turn to lead has come
	turn  chan struct{} // closed when it leads, or when it is over
	err   error
	panic any
}

func newWriter(s *session, timeout time.Duration) *writer {
	return &writer{session: s, timeout: timeout}
}

func (w *writer) close() error { return w.session.close() }

// do runs fn in a transaction that holds the write lock, and returns when it is durable or has failed as a whole.
// fn may run in another caller's goroutine, together with others' changes, but never at the same time as they; it
// must not call do.
func (w *writer) do(ctx context.Context, fn func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &change{ctx: ctx, fn: fn, turn: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	if !w.leading {
		w.leading, c.leads = true, true
		close(c.turn)
	}
	w.mu.Unlock()

	select {
	case <-c.turn:
	case <-ctx.Done():
		if w.withdraw(c) {
			return ctx.Err()
		}
		<-c.turn
	}
	if c.leads {
		w.lead(c)
	}
	if c.panic != nil {
		panic(c.panic)
	}
	return plain(c.err)
}

// withdraw takes back a change that nobody has begun.
func (w *writer) withdraw(c *change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, c)
	if i < 0 || c.leads {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// lead runs a batch, which holds the leader's change, and hands on.
func (w *writer) lead(leader *change) {
	w.mu.Lock()
	n := min(len(w.waiting), maxBatch)
	batch := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	w.mu.Unlock()

	err := w.lock(leader.ctx)
	if err == nil {
		w.run(batch)
	} else {
		w.giveBack(leader, batch, err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.leading = len(w.waiting) > 0
	if w.leading {
		next := w.waiting[0]
		next.leads = true
		close(next.turn)
	}
}

// lock begins a transaction.
func (w *writer) lock(ctx context.Context) error {
	err := retryBusy(ctx, w.timeout, func() error { return w.session.exec("BEGIN IMMEDIATE") })
	if isBusy(err) {
		return fmt.Errorf("another process has been writing for %v without a pause: %w", w.timeout, err)
	}
	return err
}

// giveBack ends a batch that couldn't be begun: when only the leader's patience has ended, the others go on.
func (w *writer) giveBack(leader *change, batch []*change, err error) {
	if leader.ctx.Err() == nil {
		finish(batch, leader, err)
		return
	}
	leader.err = err
	others := slices.DeleteFunc(batch, func(c *change) bool { return c == leader })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(others, w.waiting...)
}

// run applies a batch in the transaction that is open, and ends it.
func (w *writer) run(batch []*change) {
	leader := batch[0]
	var applied []*change
	for i, c := range batch {
		if err := w.apply(c, len(batch) > 1); err != nil {
			// The transaction is gone, and with it what the others did.
			w.session.exec("ROLLBACK")
			finish(batch[i:], leader, err)
			finish(applied, leader, err)
			return
		}
		if c.err == nil && c.panic == nil {
			applied = append(applied, c)
		} else {
			finish([]*change{c}, leader, c.err)
		}
	}
	end := "COMMIT"
	if len(applied) == 0 {
		end = "ROLLBACK"
	}
	err := retryBusy(context.Background(), w.timeout, func() error { return w.session.exec(end) })
	if err != nil {
		w.session.exec("ROLLBACK")
	}
	finish(applied, leader, err)
}

// apply runs one change. Its own failure is kept in the change, and undone; an error that is returned says that
// the transaction can't go on.
func (w *writer) apply(c *change, shared bool) error {
	if c.err = c.ctx.Err(); c.err != nil {
		return nil
	}
	if !shared {
		c.call(w.session)
		return nil // a failed change alone leaves nothing to commit, and run rolls back
	}
	if err := w.session.exec("SAVEPOINT change"); err != nil {
		return err
	}
	c.call(w.session)
	if c.err != nil || c.panic != nil {
		if err := w.session.exec("ROLLBACK TO change"); err != nil {
			return errors.Join(c.err, err)
		}
	}
	return w.session.exec("RELEASE change")
}

// call keeps a panic for the goroutine that it belongs to.
func (c *change) call(s *session) {
	defer func() { c.panic = recover() }()
	c.err = c.fn(s)
}

// finish tells callers how their changes ended. The leader is not waiting.
func finish(batch []*change, leader *change, err error) {
	for _, c := range batch {
		c.err = err
		if c != leader {
			close(c.turn)
		}
	}
}

// retryBusy calls fn until it returns something other than "busy", ctx ends or the time is up.
func retryBusy(ctx context.Context, timeout time.Duration, fn func() error) error {
	deadline := time.Now().Add(timeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := fn()
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
