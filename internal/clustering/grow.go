package clustering

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Slot is a cluster of the tree before, and its place in the next.
type Slot struct {
	// Members are the rows that stand now where its members stood, ascending; none when all of them are gone.
	Members []int
	// Seen holds, for each member, how many of its tokens the slot's text was made from, at least 0; nil means all.
	Seen []int
	// Formed is the number of tokens that it had when it came to be, alone or by a split; 0 means unknown, and then what
	// of its members was seen stands for it.
	Formed int
	// Changed says that Members aren't one for one those that it had. Only then, or when a newcomer joins it, can it have
	// outgrown its place or be too small for it.
	Changed bool
}

// Grown is one cluster of a level that has grown.
type Grown struct {
	Rows []int // ascending
	// Slot is the slot whose place it keeps, -1 for a new one.
	Slot int
	// From is the slot that a new cluster was split from, -1 if it was made of newcomers.
	From int
	// Formed is the Formed of the slot in the next growth.
	Formed int
}

// Merger says which slot another one was merged into: the index of each, Into -1 for a new cluster.
type Merger struct{ Slot, Into int }

// Growth is one level after it has grown.
type Growth struct {
	// Clusters stand in the order of Result.Clusters, and keep the rules of [Cluster]. Empty when the level should not be built.
	Clusters []Grown
	// Merged lists the slots that have rows but no cluster of their own any more, by Slot.
	Merged []Merger
	// Stopped says why there are no clusters; empty otherwise.
	Stopped string
	Stages  []Stage
}

const (
	// crowd is the number of newcomers from which they are clustered by themselves.
	crowd = 12
	// swollen is the number of rows from which a cluster over the cap is clustered anew instead of being halved.
	swollen = 512
)

// GrowFunc is the signature of [Grow], for callers that want another in tests.
type GrowFunc func(ctx context.Context, cfg Config, in Input, slots []Slot) (Growth, error)

// Grow fits the rows of a level into the slots of the tree before, so that a change moves what it touches and nothing else.
//
//   - Rows in no slot are newcomers. Twelve or more are clustered by themselves; a group of them becomes a cluster if it has
//     half the mean tokens of the slots and its rows are more like each other than like their nearest slots. Every other one
//     joins the nearest center. Centers are those before the step.
//   - A slot is split while it is over the cap, or once if it has four rows and 1.5 times its tokens when it was formed, or of
//     the mean slot, whichever is more: by 2-means from the two rows least alike. The half that its text has seen more of
//     keeps its place.
//   - A slot that is left with a single row is merged into the most similar one with room, and so are the smallest while
//     there are more than 0.7·N, or cfg.MaxClusters. There are never fewer than two.
//
// For every result with clusters the rules of [Cluster] hold, and for slots that are the outcome of Cluster or Grow over the
// same rows it returns them as they are. Without any slot that has rows it is Cluster. What it depends on are its arguments
// only, not the number of cores. Its time is that of one pass over the rows, of newcomers times slots, and of clustering the
// newcomers. Errors: those of Cluster, and slots that aren't ascending rows of the input.
func Grow(ctx context.Context, cfg Config, in Input, slots []Slot) (Growth, error) {
	return grow(ctx, kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}, cfg, in, slots)
}

// grow is Grow on a given machine.
func grow(ctx context.Context, m kernel.Machine, cfg Config, in Input, slots []Slot) (Growth, error) {
	if err := checkSlots(in, slots); err != nil {
		return Growth{}, err
	}
	if !slices.ContainsFunc(slots, func(s Slot) bool { return len(s.Members) > 0 }) {
		return formed(ctx, m, cfg, in)
	}
	if err := cfg.Validate(); err != nil {
		return Growth{}, err
	}
	r := &run{machine: m, cfg: cfg, in: in, watch: newWatch(cfg.Progress)}
	done := r.watch.stage("check")
	scale, err := scales(ctx, m.Workers, in)
	done()
	if err != nil {
		return Growth{}, err
	}
	r.rows = kernel.Rows{X: in.X, Dim: in.D, Scale: scale}
	r.least = cfg.least(in.N)
	if why := hopeless(in, cfg.MaxClusterTokens, r.least); why != "" {
		return Growth{Stopped: why, Stages: r.watch.stages}, nil
	}
	g := newGrower(r, slots)
	if err := g.grow(ctx); err != nil {
		return Growth{}, err
	}
	out := g.result()
	out.Stages = r.watch.stages
	return out, nil
}

// formed is a level that the tree before lacks.
func formed(ctx context.Context, m kernel.Machine, cfg Config, in Input) (Growth, error) {
	r, err := cluster(ctx, m, cfg, in)
	if err != nil {
		return Growth{}, err
	}
	out := Growth{Stopped: r.Stopped, Stages: r.Stages}
	for _, rows := range r.Clusters {
		out.Clusters = append(out.Clusters, Grown{Rows: rows, Slot: -1, From: -1, Formed: tokensOf(in, rows)})
	}
	return out, nil
}

func tokensOf(in Input, rows []int) int {
	t := 0
	for _, r := range rows {
		t += in.Tokens[r]
	}
	return t
}

func checkSlots(in Input, slots []Slot) error {
	for i, s := range slots {
		if s.Seen != nil && len(s.Seen) != len(s.Members) {
			return fmt.Errorf("clustering: slot %d has %d members and %d counts of what was seen of them", i, len(s.Members), len(s.Seen))
		}
		for j, row := range s.Members {
			if row < 0 || row >= in.N || j > 0 && s.Members[j-1] >= row {
				return fmt.Errorf("clustering: the members of slot %d aren't ascending rows of %d", i, in.N)
			}
		}
	}
	return nil
}

// grower is the slots while they grow. Its atoms are the single rows.
type grower struct {
	*shape
	slots []Slot
	kept  []place // of each cluster of shape
	// mean is the mean tokens of the slots before anything joins them.
	mean      int
	newcomers []int32 // rows in no slot
}

// place is what a cluster has beside its rows.
type place struct {
	slot, from, formed int
	changed            bool
}

func newGrower(r *run, slots []Slot) *grower {
	in := r.in
	r.atoms = make([]atom, in.N)
	single := make([]int32, in.N)
	for i := range r.atoms {
		single[i] = int32(i)
		r.atoms[i] = atom{rows: single[i : i+1 : i+1], tokens: in.Tokens[i]}
	}
	g := &grower{shape: &shape{run: r, homes: make([]int32, in.N)}, slots: slots}
	housed := make([]bool, in.N)
	total := 0
	for i, s := range slots {
		if len(s.Members) == 0 {
			continue
		}
		rows := make([]int32, len(s.Members))
		known := 0
		for j, row := range s.Members {
			rows[j], housed[row] = int32(row), true
			known += s.seen(in, j)
		}
		formed := s.Formed
		if formed == 0 {
			formed = known
		}
		total += g.open(rows, place{slot: i, from: -1, formed: formed, changed: s.Changed}).tokens
	}
	g.mean = quotient(total, len(g.clusters))
	for i, h := range housed {
		if !h {
			g.newcomers = append(g.newcomers, int32(i))
		}
	}
	return g
}

// seen returns how many tokens of a member the slot's text was made from.
func (s *Slot) seen(in Input, member int) int {
	if s.Seen == nil {
		return in.Tokens[s.Members[member]]
	}
	return s.Seen[member]
}

// open makes a cluster.
func (g *grower) open(rows []int32, p place) *set {
	c := g.add(rows)
	g.kept = append(g.kept, p)
	return c
}

// grow takes the steps one after the other.
func (g *grower) grow(ctx context.Context) error {
	done := g.run.watch.stage("newcomers")
	g.unite()
	g.thin(ctx)
	err := g.welcome(ctx)
	done()
	if err != nil {
		return err
	}
	done = g.run.watch.stage("split")
	err = g.splitAll(ctx)
	done()
	if err != nil {
		return err
	}
	defer g.run.watch.stage("merge")()
	return g.settle(ctx)
}

// settle merges what is too small or too much, and splits where there are too few.
func (g *grower) settle(ctx context.Context) error {
	r, n := g.run, g.run.in.N
	g.unite()
	count := len(g.live())
	left := func(c *set) bool { return c.rows == 1 && g.kept[c.place].changed }
	if r.cfg.Mode != Reference {
		if err := g.merge(ctx, &count, 2, left); err != nil {
			return err
		}
	}
	if most := r.cfg.MaxClusters; most > 0 {
		if err := g.merge(ctx, &count, max(most, r.least), nil); err != nil {
			return err
		}
	}
	if err := g.merge(ctx, &count, max(2, 7*n/10), nil); err != nil {
		return err
	}
	if err := g.divideTo(ctx, r.least); err != nil {
		return err
	}
	g.unite()
	if count = len(g.live()); !shrinks(count, n) || count < 2 {
		g.stopped = notShrinking(n, count)
	}
	return nil
}

// unite merges clusters with the same rows into the first of them, a kept slot before a new one.
func (g *grower) unite() {
	live := g.live()
	slices.SortFunc(live, func(a, b *set) int {
		if c := slices.Compare(a.atoms, b.atoms); c != 0 {
			return c
		}
		return int(a.place - b.place)
	})
	for i := 1; i < len(live); i++ {
		if a := live[i-1]; slices.Equal(a.atoms, live[i].atoms) {
			live[i].gone, live[i].into = true, a
			live[i] = a
		}
	}
}

// result returns the clusters in order.
func (g *grower) result() Growth {
	out := Growth{Stopped: g.stopped}
	if out.Stopped != "" {
		return out
	}
	fed := make([]bool, len(g.clusters)) // others were merged into it
	for _, c := range g.clusters {
		if c.gone {
			fed[c.into.place] = true
		}
	}
	for _, c := range g.clusters {
		p := g.kept[c.place]
		if c.gone {
			if p.slot >= 0 {
				out.Merged = append(out.Merged, Merger{Slot: p.slot, Into: g.kept[g.final(c.place).place].slot})
			}
			continue
		}
		rows := make([]int, len(c.atoms))
		for i, a := range c.atoms {
			rows[i] = int(a)
		}
		// What was merged into it belongs to it from the start: else the next growth would split it again.
		if p.slot < 0 || fed[c.place] {
			p.formed = max(p.formed, c.tokens)
		}
		out.Clusters = append(out.Clusters, Grown{Rows: rows, Slot: p.slot, From: p.from, Formed: p.formed})
	}
	slices.SortFunc(out.Clusters, func(a, b Grown) int { return slices.Compare(a.Rows, b.Rows) })
	return out
}
