package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// NoWayError says that there is no tree to go to.
type NoWayError struct {
	Corpus     string
	Generation int  // that readers see
	Forward    bool // what was asked for
	Other      int  // the generation that the other direction leads to; 0 if there is none
}

func (e *NoWayError) Error() string {
	switch {
	case e.Generation == 0:
		return fmt.Sprintf("corpus %s has no tree yet", e.Corpus)
	case e.Forward:
		return fmt.Sprintf("no rollback is in force in corpus %s, so generation %d is its newest tree", e.Corpus, e.Generation)
	case e.Other > 0:
		return fmt.Sprintf("corpus %s was rolled back from generation %d to %d already, and no older tree is kept", e.Corpus, e.Other, e.Generation)
	}
	return fmt.Sprintf("of corpus %s no tree before generation %d is kept", e.Corpus, e.Generation)
}

// Remedy says which commands work.
func (e *NoWayError) Remedy() string {
	switch {
	case e.Generation == 0:
		return "aerie build makes it"
	case e.Other > 0 && e.Forward:
		return fmt.Sprintf("aerie rollback goes back to generation %d", e.Other)
	case e.Other > 0:
		return fmt.Sprintf("aerie rollback --forward brings generation %d back", e.Other)
	}
	return "with build.keep 1, the default, the tree before is kept from the next build on"
}

// Rollback lets readers see the tree before the one that they see or, with forward, takes that back: in one step, without a call.
// An unfinished build is cancelled, since it grows from the tree that is left. The error is levels.ErrHeld if a build runs, and a
// *NoWayError if there is nothing to go to.
func (c *Coordinator) Rollback(ctx context.Context, forward bool) (api.Rolled, error) {
	r, err := c.acquire(ctx)
	if err != nil {
		return api.Rolled{}, err
	}
	defer r.release()
	record, _, err := c.corpus(r.ctx)
	if err != nil {
		return api.Rolled{}, err
	}
	out := api.Rolled{Corpus: c.cfg.Corpus, From: record.Generation}
	to, other := record.Before, record.Undone
	if forward {
		to, other = other, to
	}
	if to == nil {
		e := &NoWayError{Corpus: c.cfg.Corpus, Generation: record.Generation, Forward: forward}
		if other != nil {
			e.Other = other.Generation
		}
		return out, e
	}
	if c.deps.Queue == nil {
		return out, fmt.Errorf("coordinator: corpus %s: %w: it has the queue", c.cfg.Corpus, levels.ErrHeld)
	}
	if out.Summaries, err = r.countTree(to); err != nil {
		return out, err
	}
	if out.Cancelled, err = r.clearTheWay(record); err != nil {
		return out, err
	}
	err = r.changeRecord(func(record *levels.Corpus) error {
		if kept := record.Kept(); kept == nil || kept.Generation != to.Generation {
			return fmt.Errorf("generation %d is not kept any more", to.Generation)
		}
		if forward {
			record.Forward()
		} else {
			record.Rollback()
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	out.Generation = to.Generation
	r.say("readers of %s see generation %d, after %d", c.cfg.Corpus, out.Generation, out.From)
	return out, nil
}

// countTree counts the summaries of a kept tree; one that isn't whole is an error.
func (r *run) countTree(p *levels.Published) (int, error) {
	n, err := r.deps.Store.Count(r.ctx, r.cfg.Corpus, store.Summaries().VisibleAt(p.Generation))
	if err != nil {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	if p.Summaries > 0 && n != p.Summaries {
		return n, fmt.Errorf("coordinator: corpus %s: generation %d had %d summaries, and %d of them are here: it isn't whole any more",
			r.cfg.Corpus, p.Generation, p.Summaries, n)
	}
	return n, nil
}

// clearTheWay ends the newest build: one that was killed right after it had switched readers is finished, and one that is unfinished
// is cancelled and named.
func (r *run) clearTheWay(record *levels.Corpus) (cancelled string, err error) {
	r.state, err = r.deps.Builds.Load(r.ctx, r.cfg.Corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	case r.state.Status == levels.PublishingTree && r.state.Generation == record.Generation:
		if _, err := r.step(levels.TreePublished{}); err != nil {
			return "", err
		}
		return "", r.dropWork(r.ctx)
	case !r.state.Resumable():
		return "", nil
	}
	return r.state.Build, r.abandon(levels.CauseReplaced, fmt.Sprintf("readers were taken from generation %d to another", record.Generation))
}
