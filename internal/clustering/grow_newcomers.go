package clustering

import (
	"cmp"
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
	"github.com/aerie-rag/aerie/internal/clustering/sphere"
)

// thin takes rows out of their less similar places where further places cost more than a tenth of the tokens, which
// deletions can bring about.
func (g *grower) thin(ctx context.Context) {
	live := g.live()
	places := make(map[int32]int)
	total, placed := 0, 0
	for _, t := range g.run.in.Tokens {
		total += t
	}
	for _, c := range live {
		placed += c.tokens
		for _, a := range c.atoms {
			places[a]++
		}
	}
	housed := placed
	for a, n := range places {
		housed -= (n - 1) * g.run.atoms[a].tokens
	}
	if 10*(placed-housed) <= total {
		return
	}
	type further struct {
		atom     int32
		set      *set
		likeness float64
	}
	var list []further
	centers := g.centers(ctx, live)
	row := make([]float32, g.run.in.D)
	for i, c := range live {
		for _, a := range c.atoms {
			if places[a] > 1 {
				g.run.rows.At(row, int(a))
				list = append(list, further{a, c, dot(row, centers.at(i))})
			}
		}
	}
	slices.SortFunc(list, func(a, b further) int {
		return cmp.Or(cmp.Compare(a.likeness, b.likeness), cmp.Compare(a.atom, b.atom), cmp.Compare(a.set.place, b.set.place))
	})
	for _, f := range list {
		if 10*(placed-housed) <= total {
			return
		}
		if places[f.atom] == 1 || len(f.set.atoms) == 1 {
			continue
		}
		places[f.atom]--
		placed -= g.run.atoms[f.atom].tokens
		g.fill(f.set, slices.DeleteFunc(f.set.atoms, func(a int32) bool { return a == f.atom }))
		g.kept[f.set.place].changed = true
	}
}

// centers are the normalized sums of clusters' rows; a sum of 0 stays 0.
type centers struct {
	x []float32
	d int
}

func (c *centers) at(i int) []float32 { return c.x[i*c.d : (i+1)*c.d] }

func (g *grower) centers(ctx context.Context, of []*set) *centers {
	d := g.run.in.D
	out := &centers{x: make([]float32, len(of)*d), d: d}
	// ctx only ends the loop early; whoever waits for the outcome looks at it.
	_ = parallel.Ranges(ctx, g.run.machine.Workers, len(of), 64, func(_, lo, hi int) {
		sum, row := make([]float64, d), make([]float32, d)
		for i := lo; i < hi; i++ {
			g.run.sum(sum, row, of[i].atoms)
			sphere.Normalize(out.at(i), sum)
		}
	})
	return out
}

// sum sets dst to the sum of rows; row is scratch.
func (r *run) sum(dst []float64, row []float32, rows []int32) {
	clear(dst)
	for _, a := range rows {
		r.rows.At(row, int(a))
		for t, v := range row {
			dst[t] += float64(v)
		}
	}
}

// welcome finds a place for each newcomer.
func (g *grower) welcome(ctx context.Context) error {
	if len(g.newcomers) == 0 {
		return nil
	}
	live := g.live()
	before := g.centers(ctx, live)
	home, likeness, err := g.nearest(ctx, before, g.newcomers)
	if err != nil {
		return err
	}
	founded, err := g.found(ctx, likeness)
	if err != nil {
		return err
	}
	var fresh []*set
	settled := make(map[int32]bool)
	for _, rows := range founded {
		c := g.open(rows, place{slot: -1, from: -1})
		g.kept[c.place].formed = c.tokens
		fresh = append(fresh, c)
		for _, a := range rows {
			settled[a] = true
		}
	}
	near := g.centers(ctx, fresh)
	joining := make(map[int32][]int32)
	row := make([]float32, g.run.in.D)
	for i, a := range g.newcomers {
		if settled[a] {
			continue
		}
		at, best := live[home[i]].place, float64(likeness[i])
		g.run.rows.At(row, int(a))
		for f, c := range fresh {
			if v := dot(row, near.at(f)); v > best {
				at, best = c.place, v
			}
		}
		joining[at] = append(joining[at], a)
	}
	for _, c := range g.clusters {
		if more := joining[c.place]; len(more) > 0 {
			g.fill(c, append(slices.Clone(c.atoms), more...))
			g.kept[c.place].changed = true
		}
	}
	return ctx.Err()
}

// nearest returns the cluster with the center nearest to each row, the first among equals, and how near it is.
func (g *grower) nearest(ctx context.Context, c *centers, rows []int32) ([]int32, []float32, error) {
	home, likeness := make([]int32, len(rows)), make([]float32, len(rows))
	all := sphere.Centers{X: c.x, K: len(c.x) / c.d, Dim: c.d}
	err := all.Assign(ctx, g.run.machine, g.run.rows.Subset(rows), home, likeness)
	return home, likeness, err
}

// found returns the groups of newcomers that become clusters. likeness is how near each newcomer is to its nearest slot.
func (g *grower) found(ctx context.Context, likeness []float32) ([][]int32, error) {
	if len(g.newcomers) < crowd {
		return nil, nil
	}
	in := g.run.in
	alone := Input{N: len(g.newcomers), D: in.D, X: make([]float32, len(g.newcomers)*in.D), Tokens: make([]int, len(g.newcomers))}
	for i, a := range g.newcomers {
		copy(alone.X[i*in.D:(i+1)*in.D], in.X[int(a)*in.D:(int(a)+1)*in.D])
		alone.Tokens[i] = in.Tokens[a]
	}
	cfg := g.run.cfg
	cfg.TargetClusterSize, cfg.MaxClusters, cfg.Progress = 0, 0, nil
	cfg.Seed = random.Key(cfg.Seed, keyGrow)
	result, err := cluster(ctx, g.run.machine, cfg, alone)
	if err != nil {
		return nil, err
	}
	var out [][]int32
	for _, places := range result.Clusters {
		tokens, fit := 0, 0.0
		rows := make([]int32, len(places))
		for i, p := range places {
			rows[i] = g.newcomers[p]
			tokens += alone.Tokens[p]
			fit += float64(likeness[p])
		}
		if len(rows) >= 2 && 2*tokens >= g.mean && g.run.coherence(rows) > fit/float64(len(rows)) {
			out = append(out, rows)
		}
	}
	return out, nil
}

// keyGrow tells the seed of clustering newcomers from that of clustering all.
const keyGrow = 0x6772

// coherence is the mean cosine of each row with the center of the others.
func (r *run) coherence(rows []int32) float64 {
	d := r.in.D
	sum, row := make([]float64, d), make([]float32, d)
	others, center := make([]float64, d), make([]float32, d)
	r.sum(sum, row, rows)
	total := 0.0
	for _, a := range rows {
		r.rows.At(row, int(a))
		for t, v := range row {
			others[t] = sum[t] - float64(v)
		}
		clear(center)
		sphere.Normalize(center, others)
		total += dot(row, center)
	}
	return total / float64(len(rows))
}
