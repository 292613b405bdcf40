package umap

import (
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// gramRows is the most rows whose coordinates come from their products with each other. For few rows that is much less
// work than the axes, which are as long as the rows are wide.
const gramRows = 256

// gram writes the coordinates of few rows: with the centered matrix of products G = U·Λ·Uᵀ they are U·√Λ, and an axis is
// the sum of the rows with the weights of a column of U.
func gram(m kernel.Machine, rows kernel.Rows, dim int, seed uint64, out []float32) {
	n := rows.Len()
	cols := min(dim+extra, n)
	g := products(m, rows)
	center(g, n)
	basis, image := make([]float64, n*cols), make([]float64, n*cols)
	for i := range basis {
		basis[i] = random.Float64(random.At(seed, uint64(i))) - 0.5
	}
	for range rounds {
		orthonormalize(basis, n, cols)
		symmetric(image, g, basis, n, cols)
		basis, image = image, basis
	}
	orthonormalize(basis, n, cols)
	symmetric(image, g, basis, n, cols)
	values := ritz(basis, image, n, cols)
	axis, row := make([]float64, rows.Dim), make([]float32, rows.Dim)
	for j := range min(dim, cols) {
		u := image[j*n : (j+1)*n]
		if !(values[j] > 1e-7*values[0]) {
			break
		}
		clear(axis)
		for i, w := range u {
			rows.At(row, i)
			for t, v := range row {
				axis[t] += float64(w * float64(v))
			}
		}
		length := math.Sqrt(values[j])
		if largest(axis) < 0 {
			length = -length
		}
		for i, w := range u {
			out[i*dim+j] = float32(float64(w * length))
		}
	}
}

// products returns the n x n products of rows, by tiles.
func products(m kernel.Machine, rows kernel.Rows) []float64 {
	n, d := rows.Len(), rows.Dim
	as, bs := kernel.Panels(n, m.MR), kernel.Panels(n, m.NR)
	a, b := make([]float32, as*m.MR*d), make([]float32, m.NR*d)
	c := make([]float32, as*m.MR*m.NR)
	g := make([]float64, n*n)
	rows.Pack(a, 0, n, m.MR)
	for p := range bs {
		lo, hi := p*m.NR, min((p+1)*m.NR, n)
		rows.Pack(b, lo, hi, m.NR)
		m.Strip(as, d, a, b, c)
		for i := range n {
			for j := lo; j < hi; j++ {
				g[i*n+j] = float64(c[i*m.NR+j-lo])
			}
		}
	}
	return g
}

// center subtracts the means of rows and columns from a symmetric n x n matrix.
func center(g []float64, n int) {
	mean := make([]float64, n)
	var all float64
	for i := range n {
		for _, v := range g[i*n : (i+1)*n] {
			mean[i] += v
		}
		mean[i] /= float64(n)
		all += mean[i] / float64(n)
	}
	for i := range n {
		for j := range n {
			g[i*n+j] += all - mean[i] - mean[j]
		}
	}
}

// symmetric sets image to g·basis for a symmetric n x n g and n x cols matrices, column-major.
func symmetric(image, g, basis []float64, n, cols int) {
	for j := range cols {
		for i := range n {
			image[j*n+i] = dot(g[i*n:(i+1)*n], basis[j*n:(j+1)*n])
		}
	}
}
