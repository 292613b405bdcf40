package clustering

import (
	"context"

	"github.com/aerie-rag/aerie/internal/clustering/gmm"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// wholeMixture is the most components that are fitted at once. The work of a step is rows times components, so the
// thousands of components of a large flat level are fitted in two steps instead.
const wholeMixture = 128

// nested fits about k components in two steps on the same coordinates: √k components, and in the rows of each its part
// of the k. A row's shares are those of the second step.
func (s *stage) nested(ctx context.Context, at gmm.Data, k int) ([][]share, int, error) {
	seed := random.Key(s.group.key, keyMixture)
	coarse, err := gmm.Fit(ctx, s.machine, at, isqrt(k)+1, fitting(at, seed))
	if err != nil {
		return nil, 0, err
	}
	home := make([]int32, at.N)
	err = coarse.Members(ctx, s.machine, at, func(row int, members []gmm.Member) {
		home[row] = joined(members, 1)[0].component
	})
	if err != nil {
		return nil, 0, err
	}
	places := make([][]int32, coarse.K)
	for i, c := range home {
		places[c] = append(places[c], int32(i))
	}
	models := make([]*gmm.Model, coarse.K)
	errs := make([]error, coarse.K)
	out := make([][]share, at.N)
	err = parallel.For(ctx, s.machine.Workers, coarse.K, func(_, c int) {
		if len(places[c]) == 0 {
			return
		}
		part := pick(at, places[c])
		models[c], errs[c] = gmm.Fit(ctx, s.machine.One(), part, quotient(k*part.N, at.N),
			fitting(part, random.Key(seed, uint64(c)+1)))
		if errs[c] == nil {
			errs[c] = models[c].Members(ctx, s.machine.One(), part, func(row int, members []gmm.Member) {
				out[places[c][row]] = joined(members, s.run.cfg.Threshold)
			})
		}
	})
	if err != nil {
		return nil, 0, err
	}
	total := 0
	for c, m := range models {
		if errs[c] != nil {
			return nil, 0, errs[c]
		}
		for _, i := range places[c] {
			for j := range out[i] {
				out[i][j].component += int32(total)
			}
		}
		if m != nil {
			total += m.K
		}
	}
	return out, total, nil
}

// pick returns some of the points.
func pick(at gmm.Data, places []int32) gmm.Data {
	out := gmm.Data{Dim: at.Dim, N: len(places), X: make([]float64, 0, len(places)*at.Dim)}
	for _, i := range places {
		out.X = append(out.X, at.X[int(i)*at.Dim:(int(i)+1)*at.Dim]...)
		if at.Weight != nil {
			out.Weight = append(out.Weight, at.Weight[i])
		}
	}
	return out
}
