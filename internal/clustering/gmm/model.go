package gmm

import (
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Data is n points of dim coordinates, row-major, with a weight for each (nil: 1), such as how many copies it stands for.
type Data struct {
	X      []float64
	N, Dim int
	Weight []float64
}

func (d Data) row(i int) []float64 { return d.X[i*d.Dim : (i+1)*d.Dim] }

func (d Data) weight(i int) float64 {
	if d.Weight == nil {
		return 1
	}
	return d.Weight[i]
}

// total returns the sum of the weights.
func (d Data) total() float64 {
	if d.Weight == nil {
		return float64(d.N)
	}
	var s float64
	for _, w := range d.Weight {
		s += w
	}
	return s
}

// Model is a mixture of K Gaussians in Dim dimensions.
type Model struct {
	K, Dim int
	Weight []float64 // K
	Mean   []float64 // K x Dim
	Cov    []float64 // K x Dim x Dim
	// Diagonal says that the covariances have no other elements.
	Diagonal bool
	// LogLikelihood is the mean log-density of a point at the last expectation step.
	LogLikelihood float64
	// Steps is the number of expectation steps, and Converged says that the last one changed little.
	Steps     int
	Converged bool

	shift []float64 // subtracted from points before φ
	w     []float64 // packed panels of the columns of W
}

// features returns the length of φ: the products, the coordinates, 1.
func features(dim int) int { return dim*(dim+1)/2 + dim + 1 }

// padded returns the length of a row of sums, a multiple of 4.
func padded(dim int) int { return (features(dim) + 3) &^ 3 }

// phi writes φ(x - shift) to dst, which is features(dim) long with step elements between neighbors.
func phi(dst []float64, step int, x, shift []float64) {
	dim := len(x)
	linear := dim * (dim + 1) / 2 * step
	shift = shift[:dim]
	for i, v := range x {
		dst[linear+i*step] = v - shift[i]
	}
	at := 0
	for i := range dim {
		a := dst[linear+i*step]
		for j := linear; j <= linear+i*step; j += step {
			dst[at] = a * dst[j]
			at += step
		}
	}
	dst[linear+dim*step] = 1
}

// Parameters returns the number of free parameters.
func (m *Model) Parameters() int {
	covariance := m.Dim * (m.Dim + 1) / 2
	if m.Diagonal {
		covariance = m.Dim
	}
	return m.K*(1+m.Dim+covariance) - 1
}

// BIC returns the Bayesian information criterion for n points with the mean LogLikelihood; lower is better.
func (m *Model) BIC(n float64) float64 {
	return -2*m.LogLikelihood*n + float64(m.Parameters())*math.Log(n)
}

// prepare computes W from weights, means and covariances. With x = y - shift, for one component:
//
//	log w·N(x; μ, Σ) = log w - ½(dim·log 2π + log|Σ|) - ½(x-μ)ᵀP(x-μ),  P = Σ⁻¹
//
// so the column of W has -½P[i][i] for x[i]², -P[i][j] for x[i]x[j], (Pμ)[i] for x[i], and the rest for 1.
// A covariance that isn't positive definite gets a larger diagonal until it is.
func (m *Model) prepare() {
	dim, f := m.Dim, features(m.Dim)
	panels := kernel.Panels(m.K, kernel.NR64)
	if len(m.w) != panels*f*kernel.NR64 {
		m.w = make([]float64, panels*f*kernel.NR64)
	}
	chol, inv, scratch := make([]float64, dim*dim), make([]float64, dim*dim), make([]float64, dim*dim)
	mu, pm := make([]float64, dim), make([]float64, dim)
	for c := range panels * kernel.NR64 {
		col := m.w[c/kernel.NR64*f*kernel.NR64+c%kernel.NR64:]
		if c >= m.K {
			// No such component: log-density -∞, as a number that survives products with 0.
			for t := range f {
				col[t*kernel.NR64] = 0
			}
			col[(f-1)*kernel.NR64] = -math.MaxFloat64
			continue
		}
		logdet := m.factor(m.Cov[c*dim*dim:(c+1)*dim*dim], chol)
		invert(inv, chol, scratch, dim)
		for i := range mu {
			mu[i] = m.Mean[c*dim+i] - m.shift[i]
		}
		var quad float64
		for i := range pm {
			pm[i] = 0
			for j := range mu {
				pm[i] += float64(inv[i*dim+j] * mu[j])
			}
		}
		for i := range pm {
			quad += float64(pm[i] * mu[i])
		}
		t := 0
		for i := range dim {
			for j := 0; j <= i; j++ {
				v := -inv[i*dim+j]
				if i == j {
					v /= 2
				}
				col[t*kernel.NR64] = v
				t++
			}
		}
		for i := range dim {
			col[t*kernel.NR64] = pm[i]
			t++
		}
		col[t*kernel.NR64] = math.Log(m.Weight[c]) - (float64(float64(dim)*math.Log(2*math.Pi))+logdet+quad)/2
	}
}

// factor sets chol to the lower Cholesky factor of cov and returns log|cov|. It enlarges cov's diagonal where needed.
func (m *Model) factor(cov, chol []float64) float64 {
	dim := m.Dim
	var mean float64
	for i := range dim {
		mean += cov[i*dim+i]
	}
	more := max(math.Abs(mean)/float64(dim)*1e-10, 1e-12)
	for !cholesky(chol, cov, dim) {
		for i := range dim {
			cov[i*dim+i] += more
		}
		more *= 10
	}
	var s float64
	for i := range dim {
		s += math.Log(chol[i*dim+i])
	}
	return 2 * s
}

// cholesky sets l to the lower factor of the dim x dim matrix a and says whether a is positive definite.
func cholesky(l, a []float64, dim int) bool {
	for i := range dim {
		for j := 0; j <= i; j++ {
			s := a[i*dim+j]
			for k := range j {
				s -= float64(l[i*dim+k] * l[j*dim+k])
			}
			switch {
			case i != j:
				l[i*dim+j] = s / l[j*dim+j]
			case s > 0 && !math.IsInf(s, 1):
				l[i*dim+i] = math.Sqrt(s)
			default:
				return false
			}
		}
	}
	return true
}

// invert sets inv to (l·lᵀ)⁻¹ for a lower triangular l, and the lower triangle of t to l⁻¹.
func invert(inv, l, t []float64, dim int) {
	for j := range dim {
		t[j*dim+j] = 1 / l[j*dim+j]
		for i := j + 1; i < dim; i++ {
			var s float64
			for k := j; k < i; k++ {
				s -= float64(l[i*dim+k] * t[k*dim+j])
			}
			t[i*dim+j] = s / l[i*dim+i]
		}
	}
	for i := range dim {
		for j := 0; j <= i; j++ {
			var s float64
			for k := i; k < dim; k++ {
				s += float64(t[k*dim+i] * t[k*dim+j])
			}
			inv[i*dim+j], inv[j*dim+i] = s, s
		}
	}
}
