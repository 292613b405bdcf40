package coordinator

import (
	"context"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Forgotten says what was left of texts that are gone, and is gone now too.
type Forgotten struct {
	Summaries int    // whose texts were taken out
	Answers   int    // of the journal, whose texts were taken out
	Cancelled string // the unfinished build that read the texts; "" if there was none
}

// Forget deletes leaves for good and takes what is left of them, and of all that were deleted before, out of summaries of any
// generation, journal, dead stream and the record of the newest build. remove deletes leaves through the store that it is given; it
// must hold the right to documents. An unfinished build, which was planned with them, is cancelled; levels.ErrHeld if one runs.
//
// Answers go for the whole corpus: nobody knows which of them rest on a text. Nodes that they made stay, so that only an unfinished
// build pays for some of them anew.
func (c *Coordinator) Forget(ctx context.Context, guard func(store.Store) store.Store, remove func(ctx context.Context, nodes store.Store) error) (Forgotten, error) {
	var out Forgotten
	r, err := c.acquire(ctx)
	if err != nil {
		return out, err
	}
	defer r.release()
	record, _, err := c.corpus(r.ctx)
	if err != nil {
		return out, err
	}
	if c.deps.Queue != nil {
		if out.Cancelled, err = r.clearTheWay(record); err != nil {
			return out, err
		}
		if err := r.forgetBuried(); err != nil {
			return out, err
		}
	}
	nodes := guard(r.nodes)
	if err := remove(r.ctx, nodes); err != nil {
		return out, err
	}
	if _, err := r.deleteDead(r.ctx, nodes, store.Leaves(), func(n *tree.Node) bool { return n.Died == tree.Deleted && !n.Superseded() }); err != nil {
		return out, err
	}
	if out.Summaries, err = c.empty(r.ctx, nodes, nil, func(*tree.Node) bool { return true }); err != nil {
		return out, err
	}
	if c.deps.Journal == nil {
		return out, nil
	}
	if out.Answers, err = c.deps.Journal.Erase(r.ctx, c.cfg.Corpus); err != nil {
		return out, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	return out, nil
}

// forgetBuried drops the buried tasks of the newest build, whose errors may quote what was to be summarized.
func (r *run) forgetBuried() error {
	if r.state == nil {
		return nil
	}
	if err := r.deps.Queue.Purge(r.ctx, r.cfg.Corpus, r.state.Build); err != nil {
		return fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	if len(r.state.Buried) == 0 {
		return nil
	}
	if _, err := r.state.Step(levels.BuriedListed{}); err != nil {
		return err
	}
	return r.save(r.ctx)
}
