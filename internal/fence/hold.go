package fence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/space"
)

// DefaultTTL is how long a lease lasts unless it is renewed.
const DefaultTTL = 15 * time.Second

// Config says what to hold.
type Config struct {
	Corpus string
	Right  levels.Right
	// Holder names this process in the lease. Two holds at the same time must have different names.
	Holder string
	// TTL is how long the lease lasts unless it is renewed, which happens every third of it. 0 means DefaultTTL.
	TTL time.Duration
	// Floor is an epoch that the lease's must be above.
	Floor int64
	// Log is told of renewals that fail; nil for nobody.
	Log *slog.Logger
}

// LostError says that a right was lost before the work was done. It is a levels.ErrFenced.
type LostError struct {
	Corpus string
	Right  levels.Right
	Cause  error // nil: its time ran out
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("corpus %s: the right to change its %s was lost", e.Corpus, words[e.Right])
	if e.Cause == nil {
		return s + ": it could not be renewed in time"
	}
	return s + ": " + e.Cause.Error()
}

// words say for people what a right is to.
var words = map[levels.Right]string{levels.RightBuild: "tree", levels.RightDocuments: "documents"}

// Is makes it a levels.ErrFenced.
func (e *LostError) Is(target error) bool { return target == levels.ErrFenced }

func (e *LostError) Unwrap() error { return e.Cause }

// Hold is a right that is kept until Release. Its methods may be called from many goroutines.
type Hold struct {
	cfg    Config
	leases levels.Leases
	// work ends when the caller's context does or the right is lost; held only when it is lost or released. Both live as long as
	// the hold, which is a stretch of the caller's work.
	work, held       context.Context
	stopWork, unhold context.CancelCauseFunc
	beat             sync.WaitGroup

	mu    sync.Mutex // guards what follows
	lease levels.Lease
	doubt bool // the outcome of the last write isn't known
}

// Take takes a right; levels.ErrHeld if another holds it. Release it.
func Take(ctx context.Context, leases levels.Leases, cfg Config) (*Hold, error) {
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	lease, err := leases.Acquire(ctx, cfg.Corpus, cfg.Right, cfg.Holder, cfg.TTL, cfg.Floor)
	if err != nil {
		return nil, err
	}
	h := &Hold{cfg: cfg, leases: leases, lease: lease}
	h.held, h.unhold = context.WithCancelCause(context.WithoutCancel(ctx))
	h.work, h.stopWork = context.WithCancelCause(ctx)
	h.beat.Go(h.keep)
	return h, nil
}

// TakeWithin is Take that waits for another holder's end, for so long at most.
func TakeWithin(ctx context.Context, wait time.Duration, leases levels.Leases, cfg Config) (*Hold, error) {
	late := time.After(wait)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		h, err := Take(ctx, leases, cfg)
		if !errors.Is(err, levels.ErrHeld) {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, err
		case <-time.After(pause):
		}
	}
}

// Context is that of the work: it ends when the one that was given to Take does, and when the right is lost; its cause is then a
// *LostError.
func (h *Hold) Context() context.Context { return h.work }

// Lease returns the lease as it was last renewed.
func (h *Hold) Lease() levels.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// Lost returns the *LostError if the right was lost, or nil.
func (h *Hold) Lost() error {
	var lost *LostError
	if errors.As(context.Cause(h.held), &lost) {
		return lost
	}
	return nil
}

// end is when this process may not begin, nor go on with, a change any more.
func (h *Hold) end() time.Time { return h.Lease().Until.Add(-h.cfg.TTL / 6) }

// keep renews the lease until it is released or lost.
func (h *Hold) keep() {
	next := h.cfg.TTL / 3
	var full error // why the last renewal failed, if that is for want of room
	failing := false
	for {
		timer := time.NewTimer(min(next, time.Until(h.end())))
		select {
		case <-h.held.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if !time.Now().Before(h.end()) {
			h.lose(full)
			return
		}
		ctx, cancel := context.WithDeadline(h.held, h.end())
		lease, err := h.leases.Renew(ctx, h.Lease(), h.cfg.TTL)
		cancel()
		switch next = h.cfg.TTL / 3; {
		case err == nil:
			h.mu.Lock()
			h.lease = lease
			h.mu.Unlock()
			full, failing = nil, false
		case h.held.Err() != nil:
			return
		case errors.Is(err, levels.ErrFenced):
			h.lose(err)
			return
		default:
			if !failing {
				h.cfg.Log.Warn("a lease was not renewed, trying again", "corpus", h.cfg.Corpus, "right", h.cfg.Right, "error", err)
			}
			failing = true
			if space.Is(err) {
				full = err // which says more than that the time ran out
			}
			next = h.cfg.TTL / 30
		}
	}
}

func (h *Hold) lose(cause error) {
	lost := &LostError{Corpus: h.cfg.Corpus, Right: h.cfg.Right, Cause: cause}
	h.unhold(lost)
	h.stopWork(lost)
}

func (h *Hold) doubtful(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt = yes
}

// errReleased ends the contexts of a hold that was released.
var errReleased = errors.New("released")

// Release gives the right up and waits until nothing renews it any more. A lease that can't be given up runs out, and so does one
// under which a write may still be on its way.
func (h *Hold) Release() error {
	lost := h.Lost()
	h.unhold(errReleased)
	h.stopWork(errReleased)
	h.beat.Wait()
	h.mu.Lock()
	doubt := h.doubt
	h.mu.Unlock()
	if lost != nil || doubt {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.work), 10*time.Second)
	defer cancel()
	return h.leases.Release(ctx, h.Lease())
}

// Do makes one change, if the right still stands; else it returns a *LostError. The change's context ends when the right is lost,
// not when Context does, so that a last change can be made after an interrupt. It carries the lease.
func (h *Hold) Do(ctx context.Context, change func(ctx context.Context) error) error {
	if !time.Now().Before(h.end()) { // the process was paused, and the timer has not fired yet
		h.lose(nil)
	}
	if err := h.Lost(); err != nil {
		return err
	}
	lease := h.Lease()
	if err := h.leases.Check(ctx, lease); err != nil {
		if errors.Is(err, levels.ErrFenced) {
			h.lose(err)
			return h.Lost()
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(levels.WithLease(ctx, lease))
	defer cancel(nil)
	defer context.AfterFunc(h.held, func() { cancel(context.Cause(h.held)) })()
	err := change(ctx)
	if err != nil {
		if lost := h.Lost(); lost != nil {
			return lost
		}
		if errors.Is(err, levels.ErrFenced) {
			h.lose(err)
			return h.Lost()
		}
	}
	return err
}
