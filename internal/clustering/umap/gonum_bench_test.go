package umap

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// BenchmarkOrthonormal measures the basis of the axes made orthonormal, ours beside gonum's mat.QR.
func BenchmarkOrthonormal(b *testing.B) {
	const d, cols = 384, 16
	r := rand.New(rand.NewPCG(1, 2))
	flat := make([]float64, d*cols)
	for i := range flat {
		flat[i] = r.NormFloat64()
	}
	b.Run("ours", func(b *testing.B) {
		v := make([]float64, d*cols)
		for b.Loop() {
			copy(v, flat)
			orthonormalize(v, d, cols)
		}
	})
	b.Run("gonum", func(b *testing.B) {
		a := mat.NewDense(d, cols, nil)
		var qr mat.QR
		var q mat.Dense
		for b.Loop() {
			for j := range cols {
				for t := range d {
					a.Set(t, j, flat[j*d+t])
				}
			}
			qr.Factorize(a)
			q.Reset()
			qr.QTo(&q)
		}
	})
}

// BenchmarkGramEigen measures the largest eigenpairs of 200 rows' products: subspace iteration, of which mat.EigenSym solves
// the small problem, beside mat.EigenSym of the whole.
func BenchmarkGramEigen(b *testing.B) {
	const n, cols = 200, 16
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, n*384)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	var g mat.SymDense
	g.SymOuterK(1, mat.NewDense(n, 384, x))
	flat := make([]float64, n*n)
	for i := range n {
		for j := range n {
			flat[i*n+j] = g.At(i, j)
		}
	}
	b.Run("ours", func(b *testing.B) {
		basis, image := make([]float64, n*cols), make([]float64, n*cols)
		for b.Loop() {
			for i := range basis {
				basis[i] = r.Float64() - .5
			}
			for range rounds {
				orthonormalize(basis, n, cols)
				symmetric(image, flat, basis, n, cols)
				basis, image = image, basis
			}
			orthonormalize(basis, n, cols)
			symmetric(image, flat, basis, n, cols)
			ritz(basis, image, n, cols)
		}
	})
	b.Run("gonum", func(b *testing.B) {
		var e mat.EigenSym
		var v mat.Dense
		for b.Loop() {
			if !e.Factorize(&g, true) {
				b.Fatal("no")
			}
			v.Reset()
			e.VectorsTo(&v)
		}
	})
}
