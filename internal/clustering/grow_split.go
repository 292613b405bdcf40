package clustering

import (
	"container/heap"
	"context"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
	"github.com/aerie-rag/aerie/internal/clustering/sphere"
)

// splitAll splits every cluster that has outgrown its place.
func (g *grower) splitAll(ctx context.Context) error {
	for waiting := g.live(); len(waiting) > 0; {
		var next []*set
		for _, c := range waiting {
			if !g.outgrown(c) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			parts, err := g.parts(ctx, c)
			if err != nil {
				return err
			}
			next = append(next, g.replace(c, parts)...)
		}
		waiting = next
	}
	return nil
}

func (g *grower) outgrown(c *set) bool {
	if c.rows < 2 {
		return false
	}
	if c.tokens > g.run.cfg.MaxClusterTokens {
		return true
	}
	p := g.kept[c.place]
	return p.changed && c.rows >= 4 && 2*c.tokens >= 3*max(p.formed, g.mean) && c.tokens > p.formed
}

// replace gives a cluster the part that its text has seen most of, and makes the others new ones.
func (g *grower) replace(c *set, parts [][]int32) []*set {
	stays, most := 0, -1
	seen := g.seenOf(c)
	for i, part := range parts {
		known := 0
		for _, a := range part {
			known += seen[a]
		}
		if known > most {
			stays, most = i, known
		}
	}
	p := &g.kept[c.place]
	from := p.slot
	if from < 0 {
		from = p.from
	}
	g.fill(c, parts[stays])
	p.formed, p.changed = c.tokens, true
	out := []*set{c}
	for i, part := range parts {
		if i != stays {
			fresh := g.open(part, place{slot: -1, from: from, changed: true})
			g.kept[fresh.place].formed = fresh.tokens
			out = append(out, fresh)
		}
	}
	return out
}

// seenOf returns how many tokens of each row a cluster's text has seen.
func (g *grower) seenOf(c *set) map[int32]int {
	slot := g.kept[c.place].slot
	if slot < 0 {
		return nil
	}
	s := &g.slots[slot]
	seen := make(map[int32]int, len(s.Members))
	for i, row := range s.Members {
		seen[int32(row)] = s.seen(g.run.in, i)
	}
	return seen
}

// parts splits a cluster, in two mostly. It always does, and no part is empty.
func (g *grower) parts(ctx context.Context, c *set) ([][]int32, error) {
	if len(c.atoms) >= swollen && c.tokens > g.run.cfg.MaxClusterTokens {
		return g.anew(ctx, c)
	}
	halves, err := g.run.bisect(ctx, c.atoms)
	if err != nil {
		return nil, err
	}
	if min(len(halves[0]), len(halves[1])) < min(2, len(c.atoms)/2) {
		return g.inOrder(c), nil
	}
	return halves, nil
}

func (g *grower) inOrder(c *set) [][]int32 {
	parts := cut(c.atoms, func(i int) int { return g.run.atoms[c.atoms[i]].tokens }, max(g.run.cfg.MaxClusterTokens, quotient(c.tokens, 2)), 2)
	for i := range parts {
		parts[i] = slices.Clone(parts[i])
	}
	return parts
}

// anew clusters the rows of one cluster by themselves; a row goes to the first of its new clusters.
func (g *grower) anew(ctx context.Context, c *set) ([][]int32, error) {
	r := &run{machine: g.run.machine, cfg: g.run.cfg, in: g.run.in, rows: g.run.rows, watch: newWatch(nil), least: 2, atoms: g.run.atoms}
	r.cfg.MaxClusters = 0
	root := group{atoms: slices.Clone(c.atoms), key: random.Key(r.cfg.Seed, keyGrow+uint64(c.place)<<16)}
	split, err := r.split(ctx, r.machine, root, false)
	if err != nil {
		return nil, err
	}
	parts := make([][]int32, 0, len(split))
	for _, s := range split {
		slices.Sort(s.atoms)
		parts = append(parts, s.atoms)
	}
	if len(parts) < 2 {
		return g.inOrder(c), nil
	}
	slices.SortFunc(parts, slices.Compare)
	return parts, nil
}

// bisect is 2-means on rows from the two least alike.
func (r *run) bisect(ctx context.Context, rows []int32) ([][]int32, error) {
	const rounds = 10
	d := r.in.D
	x := make([]float32, len(rows)*d)
	for i, a := range rows {
		r.rows.At(x[i*d:(i+1)*d], int(a))
	}
	at := func(i int) []float32 { return x[i*d : (i+1)*d] }
	a, b := leastAlike(x, d)
	two := sphere.Centers{X: append(slices.Clone(at(a)), at(b)...), K: 2, Dim: d}
	label, before, likeness := make([]int32, len(rows)), make([]int32, len(rows)), make([]float32, len(rows))
	sums := [2][]float64{make([]float64, d), make([]float64, d)}
	all := kernel.Rows{X: x, Dim: d}
	for round := range rounds {
		if err := two.Assign(ctx, r.machine.One(), all, label, likeness); err != nil {
			return nil, err
		}
		if round > 0 && slices.Equal(label, before) {
			break
		}
		copy(before, label)
		for k := range sums {
			clear(sums[k])
		}
		for i, l := range label {
			for t, v := range at(i) {
				sums[l][t] += float64(v)
			}
		}
		for k := range sums {
			sphere.Normalize(two.X[k*d:(k+1)*d], sums[k])
		}
	}
	halves := make([][]int32, 2)
	for i, l := range label {
		halves[l] = append(halves[l], rows[i])
	}
	return halves, nil
}

// leastAlike returns the pair of unit rows with the smallest product, the first among equals; of many rows one that is
// far from the first, and the one farthest from it.
func leastAlike(x []float32, d int) (int, int) {
	n := len(x) / d
	at := func(i int) []float32 { return x[i*d : (i+1)*d] }
	farthest := func(i int) int {
		far, least := i, math.Inf(1)
		for j := range n {
			if v := dot(at(i), at(j)); j != i && v < least {
				far, least = j, v
			}
		}
		return far
	}
	if n > 256 {
		a := farthest(0)
		b := farthest(a)
		return min(a, b), max(a, b)
	}
	a, b, least := 0, 1, math.Inf(1)
	for i := range n {
		for j := i + 1; j < n; j++ {
			if v := dot(at(i), at(j)); v < least {
				a, b, least = i, j, v
			}
		}
	}
	return a, b
}

// divideTo splits the largest clusters until there are least.
func (g *grower) divideTo(ctx context.Context, least int) error {
	queue := &bySize{}
	live := g.live()
	for _, c := range live {
		if c.rows > 1 {
			queue.sets = append(queue.sets, c)
		}
	}
	heap.Init(queue)
	for count := len(live); count < least && queue.Len() > 0; {
		c := heap.Pop(queue).(*set)
		parts, err := g.parts(ctx, c)
		if err != nil {
			return err
		}
		for _, part := range g.replace(c, parts) {
			if part.rows > 1 {
				heap.Push(queue, part)
			}
		}
		count += len(parts) - 1
	}
	return ctx.Err()
}
