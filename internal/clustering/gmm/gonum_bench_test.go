package gmm

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// BenchmarkInverse measures log-determinant and inverse of a covariance in ten dimensions, once for each component and
// step: ours, which wants no memory, and gonum's mat.Cholesky with its memory kept.
func BenchmarkInverse(b *testing.B) {
	const dim = 10
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 40*dim)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	var cov mat.SymDense
	cov.SymOuterK(1.0/40, mat.NewDense(40, dim, x).T())
	flat := make([]float64, dim*dim)
	for i := range dim {
		for j := range dim {
			flat[i*dim+j] = cov.At(i, j)
		}
	}
	b.Run("ours", func(b *testing.B) {
		m := &Model{Dim: dim}
		chol, inv, scratch := make([]float64, dim*dim), make([]float64, dim*dim), make([]float64, dim*dim)
		for b.Loop() {
			_ = m.factor(flat, chol)
			invert(inv, chol, scratch, dim)
		}
	})
	b.Run("gonum", func(b *testing.B) {
		var c mat.Cholesky
		inv := mat.NewSymDense(dim, nil)
		for b.Loop() {
			if !c.Factorize(&cov) {
				b.Fatal("not positive definite")
			}
			_ = c.LogDet()
			if err := c.InverseTo(inv); err != nil {
				b.Fatal(err)
			}
		}
	})
}
