package umap

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

const (
	// sampleRows bounds the rows that the axes are found from; all rows are projected.
	sampleRows = 1 << 15
	// chunkRows is a part of a sum over rows: float32 inside, float64 from there on, in the order of the chunks.
	chunkRows = 512
	// rounds of subspace iteration. A start needs the axes' plane, not their last digits.
	rounds = 5
	// extra columns make the wanted ones converge.
	extra = 6
)

// Principal returns the rows' coordinates on their first dim principal axes, n x dim, row-major; axes beyond the rank
// are 0. An axis points where its largest loading is positive. The axes come from subspace iteration with the covariance
// (Halko, Martinsson and Tropp, "Finding structure with randomness", 2011, algorithm 4.4), of every ⌈n/32768⌉th row.
func Principal(ctx context.Context, m kernel.Machine, rows kernel.Rows, dim int, seed uint64) ([]float32, error) {
	n, d := rows.Len(), rows.Dim
	out := make([]float32, n*dim)
	if n < 2 || d == 0 {
		return out, ctx.Err()
	}
	if n <= gramRows {
		gram(m, rows, dim, seed, out)
		return out, ctx.Err()
	}
	p := newPrincipal(m, rows, min(dim+extra, max(d, dim)), seed)
	for range rounds {
		orthonormalize(p.basis, d, p.cols)
		if err := p.multiply(ctx); err != nil {
			return nil, err
		}
		copy(p.basis, p.image)
	}
	orthonormalize(p.basis, d, p.cols)
	if err := p.multiply(ctx); err != nil {
		return nil, err
	}
	p.rotate()
	return out, p.project(ctx, rows, dim, out)
}

// principal finds axes: basis and image = covariance · basis are d x cols, column-major.
type principal struct {
	machine      kernel.Machine
	rows         kernel.Rows // the sample
	cols         int
	mean         []float64
	basis, image []float64
	// partial is the chunks' products, features·MR x panels·NR each, and sums their columns' sums.
	partial [][]float32
	sums    []float64
	memory  []*scratchRows
}

// scratchRows is one goroutine's memory: packed rows, their products with the basis, packed features.
type scratchRows struct{ a, y, at []float32 }

func newPrincipal(m kernel.Machine, rows kernel.Rows, cols int, seed uint64) *principal {
	n, d := rows.Len(), rows.Dim
	if step := (n + sampleRows - 1) / sampleRows; step > 1 {
		var places []int32
		for i := 0; i < n; i += step {
			places = append(places, int32(i))
		}
		rows = rows.Subset(places)
	}
	p := &principal{machine: m, rows: rows, cols: cols, mean: make([]float64, d),
		basis: make([]float64, d*cols), image: make([]float64, d*cols)}
	for i := range p.basis {
		// A sum of four uniform numbers is as good as a normal one here.
		var s float64
		for j := range 4 {
			s += random.Float64(random.At(seed, uint64(4*i+j))) - 0.5
		}
		p.basis[i] = s
	}
	row := make([]float32, d)
	for i := range rows.Len() {
		rows.At(row, i)
		for t, v := range row {
			p.mean[t] += float64(v)
		}
	}
	for t := range p.mean {
		p.mean[t] /= float64(rows.Len())
	}
	return p
}

// multiply sets image to the covariance times basis: Σ (x-μ)(x-μ)ᵀ b = Xᵀ(Xb - μᵀb) - μ Σ(Xb - μᵀb).
func (p *principal) multiply(ctx context.Context) error {
	n, d, cols, nr := p.rows.Len(), p.rows.Dim, p.cols, p.machine.NR
	panels := kernel.Panels(cols, nr)
	b, shift := p.packBasis()
	mr := p.machine.MR
	features := kernel.Panels(d, mr)
	chunks := (n + chunkRows - 1) / chunkRows
	if p.partial == nil {
		p.partial, p.sums = make([][]float32, chunks), make([]float64, chunks*cols)
		p.memory = make([]*scratchRows, p.machine.Workers)
	}
	partial, sums := p.partial, p.sums
	clear(sums)
	err := parallel.For(ctx, p.machine.Workers, chunks, func(w, c int) {
		lo, hi := c*chunkRows, min((c+1)*chunkRows, n)
		height := kernel.Panels(hi-lo, mr) * mr
		if p.memory[w] == nil {
			full := kernel.Panels(min(chunkRows, n), mr) * mr
			p.memory[w] = &scratchRows{make([]float32, full*d), make([]float32, full*nr), make([]float32, full*features*mr)}
		}
		s := p.memory[w]
		p.rows.Pack(s.a, lo, hi, mr)
		transposePanels(s.at, s.a, hi-lo, d, mr)
		if partial[c] == nil {
			partial[c] = make([]float32, panels*features*mr*nr)
		}
		for q := range panels {
			p.machine.Strip(height/mr, d, s.a, b[q*d*nr:], s.y)
			for j := 0; j < nr && q*nr+j < cols; j++ {
				for i := range hi - lo {
					v := s.y[i*nr+j] - shift[q*nr+j]
					s.y[i*nr+j] = v
					sums[c*cols+q*nr+j] += float64(v)
				}
			}
			p.machine.Strip(features, hi-lo, s.at, s.y, partial[c][q*features*mr*nr:])
		}
	})
	if err != nil {
		return err
	}
	clear(p.image)
	for c := range chunks {
		for j := range cols {
			q, at := j/nr, j%nr
			block := partial[c][q*features*mr*nr:]
			column := p.image[j*d : (j+1)*d]
			for t := range column {
				column[t] += float64(block[t*nr+at]) - float64(p.mean[t]*sums[c*cols+j])
			}
		}
	}
	return nil
}

// packBasis returns the basis as packed panels and μᵀ·basis.
func (p *principal) packBasis() (packed, shift []float32) {
	d, nr := p.rows.Dim, p.machine.NR
	flat := make([]float32, len(p.basis))
	shift = make([]float32, kernel.Panels(p.cols, nr)*nr)
	for j := range p.cols {
		var s float64
		for t := range d {
			v := p.basis[j*d+t]
			flat[j*d+t] = float32(v)
			s += float64(p.mean[t] * v)
		}
		shift[j] = float32(s)
	}
	packed = make([]float32, len(shift)*d)
	kernel.Rows{X: flat, Dim: d}.Pack(packed, 0, p.cols, nr)
	return packed, shift
}

// transposePanels turns panels of rows (n rows, d deep, height mr) into panels of features (d features, n deep).
func transposePanels(dst, src []float32, n, d, mr int) {
	for f := 0; f < d; f += mr {
		panel := dst[f*n:]
		for i := range n {
			row := src[i/mr*mr*d+i%mr:]
			for l := range mr {
				v := float32(0)
				if f+l < d {
					v = row[(f+l)*mr]
				}
				panel[i*mr+l] = v
			}
		}
	}
}

// rotate turns the basis to the axes of the covariance inside its span, largest variance first, and fixes their signs.
func (p *principal) rotate() {
	d := p.rows.Dim
	ritz(p.basis, p.image, d, p.cols)
	p.basis, p.image = p.image, p.basis
	for j := range p.cols {
		axis := p.basis[j*d : (j+1)*d]
		if largest(axis) < 0 {
			for t := range axis {
				axis[t] = -axis[t]
			}
		}
	}
}

// ritz takes an orthonormal basis (n x cols, column-major) and image = A·basis of a symmetric A, and turns the basis to
// A's eigenvectors as far as it holds them, written to image. It returns their eigenvalues, falling.
func ritz(basis, image []float64, n, cols int) []float64 {
	t := mat.NewSymDense(cols, nil)
	for i := range cols {
		for j := range i + 1 {
			t.SetSym(i, j, (dot(basis[i*n:(i+1)*n], image[j*n:(j+1)*n])+dot(basis[j*n:(j+1)*n], image[i*n:(i+1)*n]))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(t, true) { // only of values that aren't finite, which the rows are
		panic("umap: no eigenvalues of a symmetric matrix")
	}
	rising := eigen.Values(nil)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	values := make([]float64, cols)
	clear(image)
	for to := range cols {
		from := cols - 1 - to
		values[to] = rising[from]
		turned := image[to*n : (to+1)*n]
		for j := range cols {
			w := vectors.At(j, from)
			for i, v := range basis[j*n : (j+1)*n] {
				turned[i] += float64(w * v)
			}
		}
	}
	return values
}

// largest returns the element of the largest magnitude, the first among equals.
func largest(axis []float64) float64 {
	l := 0.0
	for _, v := range axis {
		if math.Abs(v) > math.Abs(l) {
			l = v
		}
	}
	return l
}

// project writes the coordinates of all rows on the first dim axes.
func (p *principal) project(ctx context.Context, rows kernel.Rows, dim int, out []float32) error {
	n, d, nr, mr := rows.Len(), rows.Dim, p.machine.NR, p.machine.MR
	b, shift := p.packBasis()
	wanted := min(dim, p.cols, d)
	memory := make([][2][]float32, p.machine.Workers)
	return parallel.Ranges(ctx, p.machine.Workers, n, chunkRows, func(w, lo, hi int) {
		if memory[w][0] == nil {
			full := kernel.Panels(min(chunkRows, n), mr) * mr
			memory[w] = [2][]float32{make([]float32, full*d), make([]float32, full*nr)}
		}
		a, y := memory[w][0], memory[w][1]
		rows.Pack(a, lo, hi, mr)
		for q := 0; q*nr < wanted; q++ {
			p.machine.Strip(kernel.Panels(hi-lo, mr), d, a, b[q*d*nr:], y)
			for i := range hi - lo {
				for j := 0; j < nr && q*nr+j < wanted; j++ {
					out[(lo+i)*dim+q*nr+j] = y[i*nr+j] - shift[q*nr+j]
				}
			}
		}
	})
}

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += float64(v * y[i])
	}
	return s
}

// orthonormalize makes the columns of v (d x cols, column-major) orthonormal by Gram-Schmidt, done twice because once
// leaves nearly dependent columns askew. A column that depends on those before becomes 0.
func orthonormalize(v []float64, d, cols int) {
	for j := range cols {
		c := v[j*d : (j+1)*d]
		before := math.Sqrt(dot(c, c))
		for range 2 {
			for i := range j {
				u := v[i*d : (i+1)*d]
				s := dot(u, c)
				for t := range c {
					c[t] -= float64(s * u[t])
				}
			}
		}
		norm := math.Sqrt(dot(c, c))
		if norm <= 1e-12*before || norm == 0 {
			clear(c)
			continue
		}
		for t := range c {
			c[t] /= norm
		}
	}
}
