package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// run is one holding of the lease.
type run struct {
	*Coordinator
	// ctx ends when the caller's does or the lease is lost. It lives as long as the call of Build that made it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	beat   sync.WaitGroup

	leaseMu sync.Mutex
	lease   levels.Lease

	state   *levels.State
	lineage *lineage
	past    *past // the tree before, once it is read; nil for a build in full
	req     Request
}

func (c *Coordinator) acquire(ctx context.Context) (*run, error) {
	record, _, err := c.corpus(ctx)
	if err != nil {
		return nil, err
	}
	// The record and the state outlive what gives out epochs, and know the newest that mattered.
	floor := record.Epoch
	state, err := c.deps.Builds.Load(ctx, c.cfg.Corpus)
	switch {
	case err == nil:
		floor = max(floor, state.Epoch)
	case !errors.Is(err, levels.ErrNotFound):
		return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	lease, err := c.deps.Builds.Acquire(ctx, c.cfg.Corpus, levels.RightBuild, c.cfg.Holder, c.cfg.LeaseTTL, floor)
	if err != nil {
		return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	r := &run{Coordinator: c, lease: lease}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.beat.Go(r.renew)
	c.deps.Observer.Lease(c.cfg.Corpus, LeaseTaken)
	return r, nil
}

// renew keeps the lease until ctx ends. A lease that can't be renewed in time ends ctx: whoever is fenced off must
// stop.
func (r *run) renew() {
	tick := time.NewTicker(r.cfg.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		lease, err := r.deps.Builds.Renew(r.ctx, r.currentLease(), r.cfg.LeaseTTL)
		switch {
		case err == nil:
			r.leaseMu.Lock()
			r.lease = lease
			r.leaseMu.Unlock()
		case r.ctx.Err() != nil:
		case errors.Is(err, levels.ErrFenced), time.Now().After(r.currentLease().Until):
			r.deps.Observer.Lease(r.cfg.Corpus, LeaseLost)
			r.cancel(fmt.Errorf("the lease is lost: %w", err))
		default:
			r.deps.Log.Warn("the lease was not renewed, trying again", "corpus", r.cfg.Corpus, "error", err)
		}
	}
}

func (r *run) currentLease() levels.Lease {
	r.leaseMu.Lock()
	defer r.leaseMu.Unlock()
	return r.lease
}

func (r *run) release() {
	r.cancel(nil)
	r.beat.Wait()
	defer r.deps.Observer.Lease(r.cfg.Corpus, LeaseReleased)
	ctx, cancel := settling(r.ctx)
	defer cancel()
	if err := r.deps.Builds.Release(ctx, r.currentLease()); err != nil {
		r.deps.Log.Warn("the lease was not released and will run out", "corpus", r.cfg.Corpus, "error", err)
	}
}

// settling returns a context for the last writes of a run whose own has ended.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
