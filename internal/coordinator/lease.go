package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/fence"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
)

// run is one holding of the lease.
type run struct {
	*Coordinator
	// ctx ends when the caller's does or the lease is lost. It lives as long as the call that made it.
	ctx  context.Context
	hold *fence.Hold
	// nodes is the store, with writes only while the lease is held.
	nodes store.Store

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
	hold, err := fence.Take(ctx, c.deps.Builds, fence.Config{
		Corpus: c.cfg.Corpus, Right: levels.RightBuild, Holder: c.cfg.Holder, TTL: c.cfg.LeaseTTL, Floor: floor, Log: c.deps.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	c.deps.Observer.Lease(c.cfg.Corpus, LeaseTaken)
	return &run{Coordinator: c, ctx: hold.Context(), hold: hold, nodes: hold.Store(c.deps.Store)}, nil
}

// Alone calls change while no build of the corpus can run nor begin; levels.ErrHeld if one runs. nodes is the store, with writes
// only while that is so.
func (c *Coordinator) Alone(ctx context.Context, change func(ctx context.Context, nodes store.Store) error) error {
	r, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer r.release()
	return change(r.ctx, r.nodes)
}

func (r *run) release() {
	if r.hold.Lost() != nil {
		r.deps.Observer.Lease(r.cfg.Corpus, LeaseLost)
	}
	defer r.deps.Observer.Lease(r.cfg.Corpus, LeaseReleased)
	if err := r.hold.Release(); err != nil && !space.Is(err) { // that is told elsewhere
		r.deps.Log.Warn("the lease was not released and will run out", "corpus", r.cfg.Corpus, "error", err)
	}
}

// fenced makes one change that only the holder of the lease may make.
func (r *run) fenced(ctx context.Context, change func(ctx context.Context) error) error {
	return r.hold.Do(ctx, change)
}

// settling returns a context for the last writes of a run whose own has ended.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
