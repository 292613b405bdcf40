package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// past is the tree that a build grows from: what is needed of its summaries to find them a place in the next one. It is
// read from the store and never changed; what the build has made of it so far is in the plans of the levels below.
type past struct {
	corpus     string
	recipe     string
	generation int
	stale      float64 // share of unseen tokens above which a summary is made again
	slots      map[tree.ID]*slot
	levels     map[int][]*slot // in the store's order
	leaves     *leafNumbers
}

// slot is one summary of the tree before.
type slot struct {
	id, author     tree.ID // author is zero for a made one
	document       string
	children       []tree.ID
	unseen, formed int
	emptied        bool
	under          []int32 // the leaves below it, ascending
}

func (s *slot) writer() tree.ID {
	if s.author.IsZero() {
		return s.id
	}
	return s.author
}

// grows returns what the build grows from, nil for a build in full.
func (r *run) grows() (*past, error) {
	if r.state.From == 0 {
		return nil, nil
	}
	if r.past == nil {
		p, err := r.readPast(r.ctx, r.state.From, r.state.Stale)
		if err != nil {
			return nil, err
		}
		r.past = p
	}
	return r.past, nil
}

// readPast reads the summaries that readers of a generation see. They stay in the store until the next one is published and
// its build has ended.
func (c *Coordinator) readPast(ctx context.Context, generation int, stale float64) (*past, error) {
	p := &past{
		corpus: c.cfg.Corpus, recipe: c.cfg.Recipe, generation: generation, stale: stale, slots: map[tree.ID]*slot{}, levels: map[int][]*slot{},
		leaves: newLeafNumbers(),
	}
	err := c.deps.Store.Each(ctx, c.cfg.Corpus, store.Summaries().VisibleAt(generation), store.Fields{}, func(n *tree.Node) error {
		s := &slot{
			id: n.ID, author: n.Author, document: n.DocumentID, children: n.Children,
			unseen: n.Unseen, formed: n.Formed, emptied: n.Emptied(),
		}
		for _, child := range n.Children {
			if n.Level == 1 {
				s.under = append(s.under, p.leaves.number(child))
			} else if below := p.slots[child]; below != nil { // levels come in order
				s.under = append(s.under, below.under...)
			}
		}
		slices.Sort(s.under)
		s.under = slices.Compact(s.under)
		p.slots[n.ID] = s
		p.levels[n.Level] = append(p.levels[n.Level], s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("coordinator: reading the tree of generation %d: %w", generation, err)
	}
	return p, nil
}

// below is the level that a level is planned from, as it stands now.
type below struct {
	rows       *rows
	at         map[tree.ID]int       // a node's row
	successors map[tree.ID][]tree.ID // of the old nodes: what stands in their places now
	under      map[tree.ID][]int32   // the leaves below each node, by number
	unseen     map[tree.ID]int       // of each node
}

// newBelow is a level from its plan, which is nil for the leaves: each is its own successor.
func newBelow(in *rows, plan *levels.Plan, under map[tree.ID][]int32) *below {
	b := &below{rows: in, at: make(map[tree.ID]int, len(in.ids)), under: under}
	for i, id := range in.ids {
		b.at[id] = i
	}
	if plan == nil {
		return b
	}
	b.successors, b.unseen = map[tree.ID][]tree.ID{}, map[tree.ID]int{}
	for _, c := range plan.Clusters {
		b.unseen[c.ID] = c.Unseen
		for _, old := range []tree.ID{c.Slot, c.From} {
			if !old.IsZero() {
				b.successors[old] = append(b.successors[old], c.ID)
			}
		}
	}
	return b
}

// stands returns the rows that stand where an old node stood, and whether it is exactly one.
func (b *below) stands(old tree.ID) (rows []int, same bool) {
	if b.successors == nil {
		row, ok := b.at[old]
		if !ok {
			return nil, false
		}
		return []int{row}, true
	}
	for _, id := range b.successors[old] {
		if row, ok := b.at[id]; ok {
			rows = append(rows, row)
		}
	}
	return rows, len(rows) == 1
}

// slotsOf returns the slots of one tree at a level as clustering takes them: rows count from lo.
func (p *past) slotsOf(old []*slot, b *below, lo int) []clustering.Slot {
	out := make([]clustering.Slot, len(old))
	for i, s := range old {
		out[i].Formed = s.formed
		for _, child := range s.children {
			rows, same := b.stands(child)
			out[i].Changed = out[i].Changed || !same
			for _, row := range rows {
				out[i].Members = append(out[i].Members, row-lo)
			}
		}
		slices.Sort(out[i].Members)
		out[i].Members = slices.Compact(out[i].Members)
		for _, row := range out[i].Members {
			seen := common(b.under[b.rows.ids[lo+row]], s.under)
			out[i].Seen = append(out[i].Seen, p.leaves.sum(seen))
			if s.formed == 0 {
				out[i].Formed += b.rows.tokens[lo+row]
			}
		}
	}
	return out
}

// common returns what two ascending lists share; without returns what of the first isn't in the second.
func common(a, b []int32) []int32  { return select2(a, b, true) }
func without(a, b []int32) []int32 { return select2(a, b, false) }

func select2(a, b []int32, shared bool) []int32 {
	var out []int32
	for _, x := range a {
		for len(b) > 0 && b[0] < x {
			b = b[1:]
		}
		if (len(b) > 0 && b[0] == x) == shared {
			out = append(out, x)
		}
	}
	return out
}

// decide says what becomes of a cluster whose ID is that of a made one: whether its slot's node stays, its text is carried over, or a new one is made.
//
// A text is made again when anything that it was made from is gone from below it, be it deleted or moved, and the text isn't known to
// hold nothing of it; and when the share of the tokens below that it hasn't seen is above p.stale; with 0 nothing is carried.
func (p *past) decide(c *levels.Cluster, b *below, level int, clean map[tree.ID]bool) {
	under := union(b.under, c.Children)
	tokens := p.leaves.sum(under)
	made := 0
	for _, child := range c.Children {
		made += b.unseen[child]
	}
	c.Unseen = min(made, tokens)
	old, unseen, gone := p.carriable(c, under)
	if old == nil || gone && !clean[old.id] {
		return
	}
	c.Author, c.Unseen = old.writer(), unseen
	c.ID = tree.CarriedID(p.corpus, c.DocumentID, level, p.recipe, c.Author, c.Children)
}

// carriable returns the slot whose text a cluster may get as far as what it hasn't seen goes, how much that is, and whether anything is
// gone from below it; nil if there is none.
func (p *past) carriable(c *levels.Cluster, under []int32) (old *slot, unseen int, gone bool) {
	old = p.slots[c.Slot]
	if p.stale == 0 || old == nil || old.emptied || c.ID == old.writer() {
		return nil, 0, false
	}
	tokens := p.leaves.sum(under)
	unseen = min(old.unseen+p.leaves.sum(without(under, old.under)), tokens)
	if float64(unseen) > p.stale*float64(tokens) {
		return nil, 0, false
	}
	return old, unseen, len(without(old.under, under)) > 0
}

// keeps reports whether a cluster's summary is one of the tree before, as it is.
func (p *past) keeps(c *levels.Cluster) bool { return c.ID == c.Slot && !p.slots[c.Slot].emptied }

func union(under map[tree.ID][]int32, nodes []tree.ID) []int32 {
	var all []int32
	for _, n := range nodes {
		all = append(all, under[n]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// grown is the outcome of clustering a level, in full or by growth.
type grown struct {
	rows       []int // ascending
	slot, from tree.ID
	formed     int
}

// growSpan fits the rows lo to hi, one tree, into its slots.
func (c *Coordinator) growSpan(ctx context.Context, p *past, b *below, trees map[string][]*slot, level, lo, hi int, progress func(string, int, int)) ([]grown, string, error) {
	in := b.rows
	var old []*slot
	var slots []clustering.Slot
	if p != nil && lo < hi {
		old = trees[in.documents[lo]]
		slots = p.slotsOf(old, b, lo)
	}
	if hi-lo < c.cfg.MinChunks || !slices.ContainsFunc(slots, func(s clustering.Slot) bool { return len(s.Members) > 0 }) {
		groups, stopped, err := c.clusterSpan(ctx, level, in, lo, hi, progress)
		return formed(in, groups), stopped, err
	}
	cfg := c.cfg.Clustering
	cfg.Seed = mixSeed(cfg.Seed, level, in.documents[lo])
	cfg.Progress = progress
	result, err := c.deps.Grow(ctx, cfg, clustering.Input{X: in.vectors.rows(lo, hi), N: hi - lo, D: in.vectors.d, Tokens: in.tokens[lo:hi]}, slots)
	if err != nil {
		var row *clustering.RowError
		if errors.As(err, &row) {
			return nil, "", fmt.Errorf("coordinator: level %d: node %s: %w", level-1, in.ids[lo+row.Row], err)
		}
		return nil, "", fmt.Errorf("coordinator: growing level %d: %w", level, err)
	}
	out := make([]grown, len(result.Clusters))
	for i, g := range result.Clusters {
		for j := range g.Rows {
			g.Rows[j] += lo
		}
		out[i] = grown{rows: g.Rows, formed: g.Formed}
		if g.Slot >= 0 {
			out[i].slot = old[g.Slot].id
		}
		if g.From >= 0 {
			out[i].from = old[g.From].id
		}
	}
	return out, result.Stopped, nil
}

// formed is the outcome of clustering in full: everything is new.
func formed(in *rows, groups [][]int) []grown {
	out := make([]grown, len(groups))
	for i, rows := range groups {
		out[i].rows = rows
		for _, row := range rows {
			out[i].formed += in.tokens[row]
		}
	}
	return out
}

// coherence is the mean cosine of rows with the centers of their clusters.
func coherence(in *rows, groups []grown) float64 {
	d := in.vectors.d
	sum, total, n := make([]float64, d), 0.0, 0
	for _, g := range groups {
		clear(sum)
		for _, row := range g.rows {
			x := in.vectors.rows(row, row+1)
			norm := math.Sqrt(product(x, x))
			for t, v := range x {
				sum[t] += float64(v) / norm
			}
		}
		// The sum of unit rows times its own direction is the sum of their cosines with it.
		squares := 0.0
		for _, v := range sum {
			squares += v * v
		}
		total += math.Sqrt(squares)
		n += len(g.rows)
	}
	return total / float64(max(n, 1))
}

func product(x, y []float32) float64 {
	s := 0.0
	for i, v := range x {
		s += float64(v) * float64(y[i])
	}
	return s
}
