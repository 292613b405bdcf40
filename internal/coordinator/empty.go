package coordinator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// hollow is a summary that rests on text which is gone.
type hollow struct {
	id    tree.ID
	level int
}

// goneLeaves returns the leaves that summaries rest on and that are gone, not only replaced. Those that the tree of a generation rests
// on, if one is given, are taken to be there.
func (c *Coordinator) goneLeaves(ctx context.Context, built *int) (map[tree.ID]bool, error) {
	gone, there := map[tree.ID]bool{}, map[tree.ID]bool{}
	first := store.Summaries()
	first.MaxLevel = 1
	err := c.deps.Store.Each(ctx, c.cfg.Corpus, first, store.Fields{}, func(n *tree.Node) error {
		in := gone
		if built != nil && n.VisibleAt(*built) {
			in = there
		}
		for _, child := range n.Children {
			in[child] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for leaf := range there {
		delete(gone, leaf)
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(gone)), page) {
		read, err := c.deps.Store.Get(ctx, c.cfg.Corpus, ids, store.Fields{})
		if err != nil {
			return nil, err
		}
		for i := range read {
			if n := &read[i]; n.Died != tree.Deleted || n.Superseded() {
				delete(gone, n.ID)
			}
		}
	}
	return gone, nil
}

// hollows returns, by level, the summaries that rest on leaves which are gone and still have their texts, whatever their lives.
func (c *Coordinator) hollows(ctx context.Context, built *int) ([]hollow, error) {
	gone, err := c.goneLeaves(ctx, built)
	var found []hollow
	if err == nil && len(gone) > 0 {
		err = c.deps.Store.Each(ctx, c.cfg.Corpus, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
			if slices.ContainsFunc(n.Children, func(child tree.ID) bool { return gone[child] }) { // levels come in order
				gone[n.ID] = true
				if !n.Emptied() {
					found = append(found, hollow{n.ID, n.Level})
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	return found, nil
}

// empty takes text and vector out of the summaries that rest on leaves which are gone, of those that which selects, and returns how
// many these were. They stay in their trees: a build that grows one finds its slots, and a walk its way. built, if not nil, is a
// generation whose leaves needn't be looked for.
func (c *Coordinator) empty(ctx context.Context, nodes store.Store, built *int, which func(*tree.Node) bool) (int, error) {
	found, err := c.hollows(ctx, built)
	if err != nil {
		return 0, err
	}
	emptied := 0
	for len(found) > 0 {
		n := 0 // summaries of one level, so that their children have been seen to
		for n < min(len(found), page) && found[n].level == found[0].level {
			n++
		}
		some, err := c.emptyPage(ctx, nodes, found[:n], which)
		if err != nil {
			return emptied, fmt.Errorf("coordinator: corpus %s: taking texts out of summaries: %w", c.cfg.Corpus, err)
		}
		emptied += some
		found = found[n:]
	}
	return emptied, nil
}

func (c *Coordinator) emptyPage(ctx context.Context, nodes store.Store, hollows []hollow, which func(*tree.Node) bool) (int, error) {
	ids := make([]tree.ID, len(hollows))
	for i, h := range hollows {
		ids[i] = h.id
	}
	read, err := nodes.Get(ctx, c.cfg.Corpus, ids, store.Fields{Vector: true})
	if err != nil {
		return 0, err
	}
	read = slices.DeleteFunc(read, func(n tree.Node) bool { return !which(&n) })
	if len(read) == 0 {
		return 0, nil
	}
	for i := range read {
		n := &read[i]
		if n.Vector, err = c.meanOf(ctx, nodes, n.Children, len(n.Vector)); err != nil {
			return 0, err
		}
		n.Text, n.Recipe = "", tree.Emptied
	}
	return len(read), nodes.Put(ctx, c.cfg.Corpus, read)
}

// meanOf is the direction of the sum of the vectors of those nodes that are there; of none, any direction.
func (c *Coordinator) meanOf(ctx context.Context, nodes store.Store, ids []tree.ID, width int) ([]float32, error) {
	read, err := nodes.Get(ctx, c.cfg.Corpus, ids, store.Fields{Vector: true})
	if err != nil {
		return nil, err
	}
	sum := make([]float64, width)
	for i := range read {
		if read[i].Died == tree.Deleted {
			continue
		}
		for t, v := range read[i].Vector {
			sum[t] += float64(v)
		}
	}
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	out := make([]float32, width)
	if norm = math.Sqrt(norm); norm < 1e-9 {
		out[0] = 1
		return out, nil
	}
	for t, v := range sum {
		out[t] = float32(v / norm)
	}
	return out, nil
}
