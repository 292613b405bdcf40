package gmm

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Options says how to fit.
type Options struct {
	Seed uint64
	// Steps is the most expectation steps.
	Steps int
	// Tolerance ends the fit when the mean log-likelihood grows by less.
	Tolerance float64
	// Floor is added to the variances.
	Floor    float64
	Diagonal bool
	// Lloyd is the most rounds of k-means that the start gets after k-means++.
	Lloyd int
}

// Reference returns scikit-learn's defaults: 100 steps, 1e-3, 1e-6, full covariances, k-means to the end.
func Reference(seed uint64) Options {
	return Options{Seed: seed, Steps: 100, Tolerance: 1e-3, Floor: 1e-6, Lloyd: 300}
}

// Fit fits a mixture of k components, at most one for each point, starting from k-means. Components that lose all points
// are dropped, so the model may have fewer. The only error is ctx's.
func Fit(ctx context.Context, machine kernel.Machine, d Data, k int, o Options) (*Model, error) {
	label, err := KMeans(ctx, machine, d, min(k, d.N), o.Seed, o.Lloyd)
	if err != nil {
		return nil, err
	}
	return FitFrom(ctx, machine, d, label, o)
}

// FitFrom is Fit from a given start: each point's component.
func FitFrom(ctx context.Context, machine kernel.Machine, d Data, label []int32, o Options) (*Model, error) {
	m := start(d, label, o)
	total := d.total()
	before := math.Inf(-1)
	for m.Steps < o.Steps {
		s, err := m.expect(ctx, machine, d)
		if err != nil {
			return nil, err
		}
		m.Steps++
		m.LogLikelihood = s.logLikelihood / total
		m.maximize(s, total, o.Floor)
		if math.Abs(m.LogLikelihood-before) < o.Tolerance {
			m.Converged = true
			break
		}
		before = m.LogLikelihood
	}
	return m, nil
}

// start returns the model of hard assignments.
func start(d Data, label []int32, o Options) *Model {
	k := 0
	for _, l := range label {
		k = max(k, int(l)+1)
	}
	m := &Model{K: k, Dim: d.Dim, Diagonal: o.Diagonal, Weight: make([]float64, k), Mean: make([]float64, k*d.Dim),
		Cov: make([]float64, k*d.Dim*d.Dim), shift: make([]float64, d.Dim)}
	total := d.total()
	for i := range d.N {
		for j, v := range d.row(i) {
			m.shift[j] += float64(d.weight(i) * v)
		}
	}
	for j := range m.shift {
		m.shift[j] /= total
	}
	size := padded(d.Dim)
	s := &sums{s: make([]float64, k*size)}
	f := make([]float64, size)
	for i := range d.N {
		phi(f, 1, d.row(i), m.shift)
		w := d.weight(i)
		to := s.s[int(label[i])*size : (int(label[i])+1)*size]
		for t, v := range f {
			to[t] += float64(w * v)
		}
	}
	m.maximize(s, total, o.Floor)
	return m
}
