package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/fence"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// collect removes what no reader can see any more, and the work of the build that has ended.
func (r *run) collect(ctx context.Context) error {
	if err := r.dropWork(ctx); err != nil {
		return err
	}
	_, err := r.gc(ctx)
	return err
}

// GC deletes the nodes that neither the current generation nor the kept one can see: dropped summaries, deleted leaves, and
// summaries of builds that were given up. Those of a build that can still go on stay. It holds the lease of builds, so that none
// begins meanwhile; the error is levels.ErrHeld if one runs. It returns how many nodes it removed.
func (c *Coordinator) GC(ctx context.Context) (int, error) {
	r, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer r.release()
	return r.gc(r.ctx)
}

func (r *run) gc(ctx context.Context) (int, error) {
	record, _, err := r.corpus(ctx)
	if err != nil {
		return 0, err
	}
	state, err := r.deps.Builds.Load(ctx, r.cfg.Corpus)
	if err != nil && !errors.Is(err, levels.ErrNotFound) {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	unfinished := state != nil && state.Resumable()
	if r.cfg.Keep == 0 && record.Kept() != nil {
		if err := r.changeRecord(func(record *levels.Corpus) error { record.GiveUp(); return nil }); err != nil {
			return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
		}
		record.GiveUp()
	}
	kept := record.Kept()
	summaries, err := r.deleteDead(ctx, r.nodes, store.Summaries(), func(n *tree.Node) bool {
		unborn := n.Born >= record.Next() && n.Died > n.Born
		seen := n.VisibleAt(record.Generation) || kept != nil && n.VisibleAt(kept.Generation)
		return !seen && !(unfinished && unborn)
	})
	if err != nil || unfinished {
		return summaries, err
	}
	leaves, err := r.gcLeaves(ctx, record)
	if err != nil || kept == nil {
		return summaries + leaves, err
	}
	// A tree is kept for its structure and for what is still there; texts that are gone from the corpus are gone from it too. Those that
	// went since the tree that readers see was planned go with the next build.
	_, err = r.empty(ctx, r.nodes, &record.Generation, func(n *tree.Node) bool { return !n.VisibleAt(record.Generation) })
	return summaries + leaves, err
}

// leafWait is how long gc waits for whoever changes documents.
const leafWait = 2 * time.Second

// gcLeaves deletes the leaves that were taken out of sight. An ingest may bring one back, so it needs the right to documents beside
// that to builds; while an ingest works they stay, for the next gc.
func (r *run) gcLeaves(ctx context.Context, record *levels.Corpus) (int, error) {
	any, err := r.deps.Store.Count(ctx, r.cfg.Corpus, store.Leaves())
	if err != nil {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	alive, err := r.deps.Store.Count(ctx, r.cfg.Corpus, store.Leaves().VisibleAt(0))
	if err != nil {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	if any == alive {
		return 0, nil
	}
	hold, err := fence.TakeWithin(ctx, leafWait, r.deps.Builds, fence.Config{
		Corpus: r.cfg.Corpus, Right: levels.RightDocuments, Holder: r.cfg.Holder + "/gc", TTL: r.cfg.LeaseTTL, Log: r.deps.Log,
	})
	if errors.Is(err, levels.ErrHeld) {
		r.deps.Log.Info("documents are being changed; deleted leaves stay out of sight until the next gc", "corpus", r.cfg.Corpus)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	removed := 0
	rested, err := r.rested(hold.Context(), record)
	if err == nil {
		removed, err = r.deleteDead(hold.Context(), hold.Store(r.nodes), store.Leaves(), func(n *tree.Node) bool {
			return n.Died == tree.Deleted && !(n.Superseded() && rested[n.ID])
		})
	}
	return removed, errors.Join(err, hold.Release())
}

// rested returns the leaves that summaries of the trees that readers see, or may go back to, rest on.
func (r *run) rested(ctx context.Context, record *levels.Corpus) (map[tree.ID]bool, error) {
	generations := []int{record.Generation}
	if kept := record.Kept(); kept != nil {
		generations = append(generations, kept.Generation)
	}
	rested := map[tree.ID]bool{}
	for _, generation := range generations {
		filter := store.Summaries().VisibleAt(generation)
		filter.MaxLevel = 1
		err := r.deps.Store.Each(ctx, r.cfg.Corpus, filter, store.Fields{}, func(n *tree.Node) error {
			for _, child := range n.Children {
				rested[child] = true
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
		}
	}
	return rested, nil
}

// deleteDead deletes the nodes that a filter selects and dead tells of.
func (r *run) deleteDead(ctx context.Context, nodes store.Store, filter store.Filter, dead func(*tree.Node) bool) (int, error) {
	var ids []tree.ID
	err := nodes.Each(ctx, r.cfg.Corpus, filter, store.Fields{}, func(n *tree.Node) error {
		if dead(n) {
			ids = append(ids, n.ID)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	}
	for chunk := range slices.Chunk(ids, page) {
		if err := nodes.Delete(ctx, r.cfg.Corpus, chunk); err != nil {
			return 0, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
		}
	}
	return len(ids), nil
}
