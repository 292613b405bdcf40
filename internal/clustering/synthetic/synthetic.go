// Package synthetic makes many rows from few real ones, to measure clustering at sizes for which there are no vectors at
// hand.
//
// Plain noise would be a lie: its neighbors are all about as far away, so no graph, list or mixture has anything to find.
// A row here is drawn around a real row x with the spread that the real rows have there: with d_j the differences to x's
// 15 nearest rows, g and h normal numbers,
//
//	y = x + Σ_j g_j·d_j / √15 + ½·r·h / √dim,  r = the mean length of d_j,
//
// scaled to unit length. The sum has the local covariance of the real rows; the second term keeps the rows from lying in
// the 15 dimensions that it spans. Real rows come first to last, over and over, so each is used equally often; then the
// rows are put in an order of their own, since real levels aren't sorted either.
package synthetic

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/knn"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// neighbors is how many differences a row is drawn from.
const neighbors = 15

// Rows returns n unit rows, row-major and as wide as the real ones, which must have unit length and be at least 16. They
// depend on real, n and seed only. The only error is ctx's.
func Rows(ctx context.Context, m kernel.Machine, real kernel.Rows, n int, seed uint64) ([]float32, error) {
	table, err := knn.Exact(ctx, m, real, neighbors, nil)
	if err != nil {
		return nil, err
	}
	d := real.Dim
	out := make([]float32, n*d)
	place := permutation(n, random.Key(seed, 0))
	err = parallel.Ranges(ctx, m.Workers, n, 256, func(_, lo, hi int) {
		x, near := make([]float32, d), make([]float32, d)
		y := make([]float64, d)
		for i := lo; i < hi; i++ {
			from := i % real.Len()
			draw := normals(random.Key(seed, uint64(i)+1))
			real.At(x, from)
			for t, v := range x {
				y[t] = float64(v)
			}
			var r float64
			for p := range neighbors {
				j, dist := table.Neighbor(from, p)
				real.At(near, int(j))
				g := draw() / math.Sqrt(neighbors)
				for t := range y {
					y[t] += g * float64(near[t]-x[t])
				}
				r += math.Sqrt(2*float64(dist)) / neighbors
			}
			var norm float64
			for t := range y {
				y[t] += r / 2 * draw() / math.Sqrt(float64(d))
				norm += y[t] * y[t]
			}
			norm = math.Sqrt(norm)
			to := out[int(place[i])*d:]
			for t := range y {
				to[t] = float32(y[t] / norm)
			}
		}
	})
	return out, err
}

// permutation shuffles 0..n-1 (Fisher and Yates).
func permutation(n int, key uint64) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
		j := random.Below(random.At(key, uint64(i)), i+1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// normals returns a sequence of normal numbers (Box and Muller).
func normals(key uint64) func() float64 {
	var at uint64
	return func() float64 {
		u := 1 - random.Float64(random.At(key, at))
		v := random.Float64(random.At(key, at+1))
		at += 2
		return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	}
}
