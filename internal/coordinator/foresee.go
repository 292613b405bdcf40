package coordinator

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// estimateGrowth goes through the levels as a build that grows would. Level 1 is exact. Above, a summary that would be made
// stands for the time being where the one before it stands, or amid its children, so that the levels are an estimate only as
// far as new texts move.
func (c *Coordinator) estimateGrowth(ctx context.Context, record *levels.Corpus, in *rows, e *api.Estimate) error {
	p, err := c.readPast(ctx, record.Generation, c.cfg.Stale)
	if err != nil {
		return err
	}
	anew := &anew{same: c.sameAsFull(record)}
	defer func() {
		c.sum(e)
		e.Incremental, e.Full = whole(e), anew.sum(c.cfg.Price)
	}()
	p.leaves.know(in.ids, in.tokens)
	line := newLineage(in.ids, p.leaves)
	var plan *levels.Plan
	for level := 1; c.cfg.MaxDepth == 0 || level <= c.cfg.MaxDepth; level++ {
		from := newBelow(in, plan, line.leaves)
		groups, stopped, err := c.cluster(ctx, level, from, p)
		if err != nil {
			return err
		}
		if len(groups) == 0 {
			e.StoppedBecause = stopped
			return nil
		}
		clusters, err := c.clusters(ctx, level, from, groups, p)
		if err != nil {
			return err
		}
		next := &levels.Plan{Level: level, NodesIn: len(in.ids), Clusters: clusters}
		at, err := c.estimateLevel(ctx, p, next, e.Levels)
		if err != nil {
			return err
		}
		e.Levels = append(e.Levels, at)
		if err := anew.add(ctx, c, next); err != nil {
			return err
		}
		above, err := c.standIns(ctx, next, from)
		if err != nil {
			return err
		}
		defer above.close()
		in, plan, line = above, next, line.climb(next)
	}
	return nil
}

// estimateLevel says what a plan needs: exactly for level 1, and above by what level 1 needs for a token.
func (c *Coordinator) estimateLevel(ctx context.Context, p *past, plan *levels.Plan, below []api.LevelEstimate) (api.LevelEstimate, error) {
	out := api.LevelEstimate{Level: plan.Level, NodesIn: plan.NodesIn, Clusters: len(plan.Clusters), Estimate: plan.Level > 1}
	var rest []levels.Cluster
	for _, cl := range plan.Clusters {
		out.LargestClusterTokens = max(out.LargestClusterTokens, cl.Tokens)
		switch {
		case p.keeps(&cl):
			out.Reused++
		case carries(&cl):
			out.Carried++
		default:
			rest = append(rest, cl)
		}
	}
	if plan.Level == 1 {
		for clusters := range slices.Chunk(rest, page/10) {
			usage, err := c.foresee(ctx, clusters)
			if err != nil {
				return out, err
			}
			out.Usage = out.Usage.Add(usage)
		}
		return out, nil
	}
	first := below[0]
	out.Calls = len(rest)
	out.OutputTokens = len(rest) * max(first.OutputTokens/max(first.Calls, 1), 1)
	for _, cl := range rest {
		out.InputTokens += cl.Tokens
	}
	return out, nil
}

// standIns are the rows of a level whose summaries don't all exist.
func (c *Coordinator) standIns(ctx context.Context, plan *levels.Plan, from *below) (*rows, error) {
	d := from.rows.vectors.d
	out := &rows{}
	var err error
	if out.vectors, err = newMatrix(len(plan.Clusters), d, c.cfg.TempDir); err != nil {
		return nil, err
	}
	for clusters := range slices.Chunk(plan.Clusters, page) {
		var ids []tree.ID
		for _, cl := range clusters {
			if !cl.Slot.IsZero() {
				ids = append(ids, cl.Slot)
			}
		}
		nodes, err := c.deps.Store.Get(ctx, c.cfg.Corpus, ids, store.Fields{Vector: true})
		if err != nil {
			out.close()
			return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
		}
		slots, tokens := make(map[tree.ID]*tree.Node, len(nodes)), 0
		for i := range nodes {
			slots[nodes[i].ID] = &nodes[i]
			tokens += nodes[i].Tokens
		}
		for _, cl := range clusters {
			n := tree.Node{ID: cl.ID}
			if old := slots[cl.Slot]; old != nil {
				n.Vector, n.Tokens = old.Vector, old.Tokens
			} else {
				n.Vector, n.Tokens = from.center(cl.Children), tokens/max(len(nodes), 1)
			}
			if err := out.add(&n, cl.DocumentID); err != nil {
				out.close()
				return nil, err
			}
		}
	}
	if err := out.seal(); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// center is the direction of the sum of nodes' vectors; where that is 0, of the first.
func (b *below) center(nodes []tree.ID) []float32 {
	d := b.rows.vectors.d
	sum := make([]float64, d)
	for _, id := range nodes {
		row := b.at[id]
		for t, v := range b.rows.vectors.rows(row, row+1) {
			sum[t] += float64(v)
		}
	}
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	first := b.at[nodes[0]]
	out := slices.Clone(b.rows.vectors.rows(first, first+1))
	if norm = math.Sqrt(norm); norm > 1e-9 {
		for t, v := range sum {
			out[t] = float32(v / norm)
		}
	}
	return out
}
