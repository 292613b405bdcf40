package gmm

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
)

const (
	// Top is how many responsibilities of a row enter the sums.
	Top = 8
	// negligible is the log-ratio to a row's best component below which a component's share is 0 in float64.
	negligible = -37
	// blockRows is the number of rows of one partial sum, a multiple of the tile height.
	blockRows = 1020
)

// Member is a component's share of a row.
type Member struct {
	Component int32
	Posterior float64
}

// sums are what one expectation step leaves: for each component Σ r·φ (padded), and the weighted log-likelihood.
type sums struct {
	s             []float64
	logLikelihood float64
}

func (a *sums) add(b *sums) {
	for i, v := range b.s {
		a.s[i] += v
	}
	a.logLikelihood += b.logLikelihood
}

// tree adds up parts as a binary tree over their places; it uses up the parts.
func tree(parts []*sums) *sums {
	for len(parts) > 1 {
		half := (len(parts) + 1) / 2
		for i := range len(parts) / 2 {
			parts[2*i].add(parts[2*i+1])
			parts[i] = parts[2*i]
		}
		if len(parts)%2 == 1 {
			parts[half-1] = parts[len(parts)-1]
		}
		parts = parts[:half]
	}
	return parts[0]
}

// tile is one goroutine's memory for a pass over rows.
type tile struct {
	a       []float64 // φ of six rows, packed
	logs    []float64 // 6 x components
	phi     []float64 // φ of one row, padded
	members []Member
}

func newTile(k, dim int) *tile {
	return &tile{
		a:    make([]float64, features(dim)*kernel.MR64),
		logs: make([]float64, kernel.MR64*kernel.Panels(k, kernel.NR64)*kernel.NR64),
		phi:  make([]float64, padded(dim)),
	}
}

// each calls visit with the log-densities (times the component's weight) of each row of lo..hi.
func (m *Model) each(s *kernel.Set, t *tile, d Data, lo, hi int, visit func(row int, logs []float64)) {
	f := features(m.Dim)
	panels := kernel.Panels(m.K, kernel.NR64)
	ld := panels * kernel.NR64
	for at := lo; at < hi; at += kernel.MR64 {
		n := min(kernel.MR64, hi-at)
		for i := range n {
			phi(t.a[i:], kernel.MR64, d.row(at+i), m.shift)
		}
		for p := range panels {
			s.Tile64(f, t.a, m.w[p*f*kernel.NR64:], t.logs[p*kernel.NR64:], ld)
		}
		for i := range n {
			visit(at+i, t.logs[i*ld:i*ld+m.K])
		}
	}
}

// members turns a row's log-densities into its shares, the largest Top of them when there are more, ascending by
// component, and returns the row's log-likelihood. The shares of those kept add up to 1.
func members(logs []float64, dst []Member) ([]Member, float64) {
	best := math.Inf(-1)
	for _, v := range logs {
		best = max(best, v)
	}
	dst = dst[:0]
	var sum float64
	for c, v := range logs {
		if v-best > negligible {
			e := kernel.Exp(v - best)
			sum += e
			dst = append(dst, Member{int32(c), e})
		}
	}
	whole := sum
	if len(dst) > Top {
		dst = largest(dst)
		sum = 0
		for _, m := range dst {
			sum += m.Posterior
		}
	}
	for i := range dst {
		dst[i].Posterior /= sum
	}
	return dst, best + math.Log(whole)
}

// largest keeps the Top members with the largest shares, the lower component first among equals, in order of component.
func largest(list []Member) []Member {
	for len(list) > Top {
		least := 0
		for i, m := range list {
			if m.Posterior <= list[least].Posterior {
				least = i
			}
		}
		list = append(list[:least], list[least+1:]...)
	}
	return list
}

// expect runs an expectation step over all rows and returns the sums of the maximization step.
func (m *Model) expect(ctx context.Context, machine kernel.Machine, d Data) (*sums, error) {
	size := padded(m.Dim)
	blocks := (d.N + blockRows - 1) / blockRows
	parts := make([]*sums, blocks)
	tiles := make([]*tile, machine.Workers)
	err := parallel.For(ctx, machine.Workers, blocks, func(w, b int) {
		if tiles[w] == nil {
			tiles[w] = newTile(m.K, m.Dim)
		}
		t := tiles[w]
		part := &sums{s: make([]float64, m.K*size)}
		parts[b] = part
		m.each(machine.Set, t, d, b*blockRows, min((b+1)*blockRows, d.N), func(row int, logs []float64) {
			var ll float64
			t.members, ll = members(logs, t.members)
			weight := d.weight(row)
			part.logLikelihood += float64(weight * ll)
			phi(t.phi, 1, d.row(row), m.shift)
			for _, c := range t.members {
				at := int(c.Component) * size
				machine.Axpy(weight*c.Posterior, t.phi, part.s[at:at+size])
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return tree(parts), nil
}

// maximize sets weights, means and covariances from the sums: with N = Σr, μ = Σrx / N, Σ = Σrxxᵀ / N - μμᵀ + reg·I.
// Components without weight are dropped.
func (m *Model) maximize(s *sums, total, reg float64) {
	dim, size := m.Dim, padded(m.Dim)
	linear := dim * (dim + 1) / 2
	kept := 0
	for c := range m.K {
		sum := s.s[c*size : (c+1)*size]
		n := sum[linear+dim]
		if !(n > 1e-8) {
			continue
		}
		mean := m.Mean[kept*dim : (kept+1)*dim]
		cov := m.Cov[kept*dim*dim : (kept+1)*dim*dim]
		for i := range dim {
			mean[i] = sum[linear+i] / n
		}
		t := 0
		for i := range dim {
			for j := 0; j <= i; j++ {
				v := sum[t]/n - float64(mean[i]*mean[j])
				t++
				switch {
				case i == j:
					v = max(v, 0) + reg
				case m.Diagonal:
					v = 0
				}
				cov[i*dim+j], cov[j*dim+i] = v, v
			}
		}
		for i := range dim {
			mean[i] += m.shift[i]
		}
		m.Weight[kept] = n / total
		kept++
	}
	m.K = kept
	m.Weight, m.Mean, m.Cov = m.Weight[:kept], m.Mean[:kept*dim], m.Cov[:kept*dim*dim]
	m.prepare()
}

// Members calls visit with the shares of each row, ascending by component; the slice is only valid during the call.
// Rows come in any order, from any goroutine.
func (m *Model) Members(ctx context.Context, machine kernel.Machine, d Data, visit func(row int, shares []Member)) error {
	tiles := make([]*tile, machine.Workers)
	return parallel.Ranges(ctx, machine.Workers, d.N, blockRows, func(w, lo, hi int) {
		if tiles[w] == nil {
			tiles[w] = newTile(m.K, m.Dim)
		}
		t := tiles[w]
		m.each(machine.Set, t, d, lo, hi, func(row int, logs []float64) {
			t.members, _ = members(logs, t.members)
			visit(row, t.members)
		})
	})
}
