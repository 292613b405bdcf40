package umap

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
)

// Graph is a symmetric weighted graph over N vertices as compressed rows: the edges of vertex i are
// Col[Offset[i]:Offset[i+1]], ascending, with Weight in (0, 1] beside.
type Graph struct {
	N      int
	Offset []int
	Col    []int32
	Weight []float32
}

// Neighbors is what [Fuzzy] needs of a table of nearest neighbors: n rows of k places, ascending by distance, with an
// index of -1 where there is none.
type Neighbors interface {
	Size() (n, k int)
	Neighbor(i, place int) (index int32, distance float32)
}

// Strangers is the cosine distance from which two rows have nothing in common. Edges that long are cut: rows without
// anything in common would otherwise all be tied to whichever row comes first.
const Strangers = 1 - 1e-6

// Smooth returns ρ, the distance to the nearest neighbor that isn't at 0, and σ, which makes the memberships of a row sum
// to log2(k+1), for each row; the row itself counts as the first of its k+1 neighbors. Both follow umap-learn's
// smooth_knn_dist with local_connectivity 1: bisection to 1e-5 in at most 64 steps, and σ at least a thousandth of the
// row's mean distance, or, for rows with ρ = 0, of all rows' mean.
func Smooth(ctx context.Context, m kernel.Machine, nn Neighbors) (rho, sigma []float32, err error) {
	n, k := nn.Size()
	rho, sigma = make([]float32, n), make([]float32, n)
	sums := make([]float64, n)
	err = parallel.Ranges(ctx, m.Workers, n, 512, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			for p := range k {
				if _, d := nn.Neighbor(i, p); d < Strangers {
					sums[i] += float64(d)
				}
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	var mean float64
	for _, s := range sums {
		mean += s
	}
	mean /= float64(n * (k + 1))
	err = parallel.Ranges(ctx, m.Workers, n, 512, func(_, lo, hi int) {
		dist := make([]float64, 0, k)
		for i := lo; i < hi; i++ {
			dist = dist[:0]
			for p := range k {
				if _, d := nn.Neighbor(i, p); d < Strangers {
					dist = append(dist, float64(d))
				}
			}
			r, s := smooth(dist, math.Log2(float64(k+1)), mean)
			rho[i], sigma[i] = float32(r), float32(s)
		}
	})
	return rho, sigma, err
}

func smooth(dist []float64, target, mean float64) (rho, sigma float64) {
	var sum float64
	for _, d := range dist {
		sum += d
		if rho == 0 && d > 0 {
			rho = d
		}
	}
	lo, hi, mid := 0.0, math.Inf(1), 1.0
	for range 64 {
		var p float64
		for _, d := range dist {
			if d > rho {
				p += kernel.Exp(-(d - rho) / mid)
			} else {
				p++
			}
		}
		if math.Abs(p-target) < 1e-5 {
			break
		}
		if p > target {
			hi = mid
			mid = (lo + hi) / 2
		} else {
			lo = mid
			if math.IsInf(hi, 1) {
				mid *= 2
			} else {
				mid = (lo + hi) / 2
			}
		}
	}
	floor := mean
	if rho > 0 {
		floor = sum / float64(len(dist)+1)
	}
	return rho, max(mid, 1e-3*floor)
}

// Fuzzy returns the fuzzy union of the rows' neighborhoods: the directed membership of a neighbor at distance d is
// exp(-max(0, d-ρ)/σ), and an edge with memberships a and b in its two directions weighs a + b - a·b. Neighbors at the
// distance [Strangers] or beyond are no edges, so a vertex can end up without any.
func Fuzzy(ctx context.Context, m kernel.Machine, nn Neighbors) (*Graph, error) {
	rho, sigma, err := Smooth(ctx, m, nn)
	if err != nil {
		return nil, err
	}
	n, _ := nn.Size()
	out, err := directed(ctx, m, nn, rho, sigma)
	if err != nil {
		return nil, err
	}
	in := out.transpose()
	g := &Graph{N: n, Offset: make([]int, n+1)}
	err = parallel.Ranges(ctx, m.Workers, n, 512, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			g.Offset[i+1] = union(out, in, i, nil, nil)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range n {
		g.Offset[i+1] += g.Offset[i]
	}
	g.Col, g.Weight = make([]int32, g.Offset[n]), make([]float32, g.Offset[n])
	err = parallel.Ranges(ctx, m.Workers, n, 512, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			union(out, in, i, g.Col[g.Offset[i]:], g.Weight[g.Offset[i]:])
		}
	})
	return g, err
}

// directed returns the memberships of each row's neighbors, columns ascending.
func directed(ctx context.Context, m kernel.Machine, nn Neighbors, rho, sigma []float32) (*Graph, error) {
	n, k := nn.Size()
	g := &Graph{N: n, Offset: make([]int, n+1)}
	for i := range n {
		c := 0
		for p := range k {
			if j, d := nn.Neighbor(i, p); j >= 0 && d < Strangers {
				c++
			}
		}
		g.Offset[i+1] = g.Offset[i] + c
	}
	g.Col, g.Weight = make([]int32, g.Offset[n]), make([]float32, g.Offset[n])
	type edge struct {
		col    int32
		weight float32
	}
	err := parallel.Ranges(ctx, m.Workers, n, 512, func(_, lo, hi int) {
		row := make([]edge, 0, k)
		for i := lo; i < hi; i++ {
			row = row[:0]
			for p := range k {
				j, d := nn.Neighbor(i, p)
				if j < 0 || d >= Strangers {
					continue
				}
				w := float32(1)
				if d > rho[i] && sigma[i] > 0 {
					w = float32(kernel.Exp(-(float64(d) - float64(rho[i])) / float64(sigma[i])))
				}
				row = append(row, edge{j, w})
			}
			slices.SortFunc(row, func(a, b edge) int { return cmp.Compare(a.col, b.col) })
			for at, e := range row {
				g.Col[g.Offset[i]+at], g.Weight[g.Offset[i]+at] = e.col, e.weight
			}
		}
	})
	return g, err
}

// transpose returns the graph with its edges turned round, by counting.
func (g *Graph) transpose() *Graph {
	t := &Graph{N: g.N, Offset: make([]int, g.N+1), Col: make([]int32, len(g.Col)), Weight: make([]float32, len(g.Col))}
	for _, c := range g.Col {
		t.Offset[c+1]++
	}
	for i := range g.N {
		t.Offset[i+1] += t.Offset[i]
	}
	next := slices.Clone(t.Offset)
	for i := range g.N {
		for e := g.Offset[i]; e < g.Offset[i+1]; e++ {
			at := next[g.Col[e]]
			next[g.Col[e]]++
			t.Col[at], t.Weight[at] = int32(i), g.Weight[e]
		}
	}
	return t
}

// union merges row i of both graphs into col and weight, unless they are nil, and returns its length. Edges that weigh
// nothing are left out.
func union(out, in *Graph, i int, col []int32, weight []float32) int {
	a, aEnd, b, bEnd, n := out.Offset[i], out.Offset[i+1], in.Offset[i], in.Offset[i+1], 0
	for a < aEnd || b < bEnd {
		var c int32
		var w float32
		switch {
		case b == bEnd || a < aEnd && out.Col[a] < in.Col[b]:
			c, w = out.Col[a], out.Weight[a]
			a++
		case a == aEnd || in.Col[b] < out.Col[a]:
			c, w = in.Col[b], in.Weight[b]
			b++
		default:
			x, y := out.Weight[a], in.Weight[b]
			c, w = out.Col[a], float32(x+y)-float32(x*y)
			a, b = a+1, b+1
		}
		if w <= 0 {
			continue
		}
		if col != nil {
			col[n], weight[n] = c, w
		}
		n++
	}
	return n
}
