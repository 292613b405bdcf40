package gmm

import (
	"context"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Plan is the numbers of components to try.
type Plan struct {
	ks []int
	// refine looks between the best and its neighbors; patience is how many values in a row may be worse (0: any).
	refine   bool
	patience int
}

// Every returns the plan first, first+1, …, last.
func Every(first, last int) Plan {
	var p Plan
	for k := first; k <= last; k++ {
		p.ks = append(p.ks, k)
	}
	return p
}

// Coarse returns the plan of first, then about half as many again each time, up to last, stopping after two rises, and
// then once more between the best and its neighbors.
func Coarse(first, last int) Plan {
	p := Plan{refine: true, patience: 3}
	for k := first; k < last; k = max(k+1, k*3/2) {
		p.ks = append(p.ks, k)
	}
	p.ks = append(p.ks, last)
	return p
}

// Search fits a mixture for each number of components of the plan and returns the one with the least BIC, the first among
// equals.
func Search(ctx context.Context, machine kernel.Machine, d Data, p Plan, options func(k int) Options) (*Model, error) {
	n := d.total()
	var best *Model
	bestAt, bestBIC, worse := 0, 0.0, 0
	try := func(k int) (bool, error) {
		m, err := Fit(ctx, machine, d, k, options(k))
		if err != nil {
			return false, err
		}
		bic := m.BIC(n)
		if best != nil && bic >= bestBIC {
			return false, nil
		}
		best, bestBIC = m, bic
		return true, nil
	}
	for i, k := range p.ks {
		better, err := try(k)
		if err != nil {
			return nil, err
		}
		if better {
			bestAt, worse = i, 0
		} else if worse++; p.patience > 0 && worse == p.patience {
			break
		}
	}
	if !p.refine {
		return best, nil
	}
	lo, hi := p.ks[max(bestAt-1, 0)], p.ks[min(bestAt+1, len(p.ks)-1)]
	at := p.ks[bestAt]
	for _, k := range []int{(lo + at) / 2, (at + hi + 1) / 2} {
		if k > lo && k < hi && k != at {
			if _, err := try(k); err != nil {
				return nil, err
			}
		}
	}
	return best, nil
}

// Variance returns the mean variance of the coordinates.
func (d Data) Variance() float64 {
	mean := make([]float64, d.Dim)
	for i := range d.N {
		for j, v := range d.row(i) {
			mean[j] += v
		}
	}
	var s float64
	for j := range mean {
		mean[j] /= float64(d.N)
	}
	for i := range d.N {
		s += squared(d.row(i), mean)
	}
	return s / float64(d.N*d.Dim)
}
