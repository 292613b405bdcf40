package kernel

import "math"

// Rows is a view of n vectors of Dim floats. Vectors are read through Index and multiplied by Scale as they are used,
// so that a subset or a normalized matrix never exists as a copy.
type Rows struct {
	X   []float32 // row-major, Dim wide
	Dim int
	// Scale has a factor for each row of X, usually 1 / norm; nil means 1.
	Scale []float64
	// Index lists the rows of X in the view; nil means all, in order.
	Index []int32
}

// Len returns the number of rows.
func (r Rows) Len() int {
	if r.Index != nil {
		return len(r.Index)
	}
	if r.Dim == 0 {
		return 0
	}
	return len(r.X) / r.Dim
}

// Subset returns the view of the rows of r at the given places.
func (r Rows) Subset(places []int32) Rows {
	index := places
	if r.Index != nil {
		index = make([]int32, len(places))
		for i, p := range places {
			index[i] = r.Index[p]
		}
	}
	return Rows{X: r.X, Dim: r.Dim, Scale: r.Scale, Index: index}
}

// raw returns row i as stored and its factor.
func (r Rows) raw(i int) ([]float32, float64) {
	if r.Index != nil {
		i = int(r.Index[i])
	}
	s := 1.0
	if r.Scale != nil {
		s = r.Scale[i]
	}
	return r.X[i*r.Dim : (i+1)*r.Dim : (i+1)*r.Dim], s
}

// At writes row i, scaled, into dst, which must be Dim long.
func (r Rows) At(dst []float32, i int) {
	x, s := r.raw(i)
	for t, v := range x {
		dst[t] = float32(float64(v) * s)
	}
}

// Panels returns how many panels of the given height hold n rows.
func Panels(n, height int) int { return (n + height - 1) / height }

// Pack writes rows lo..hi into panels of the given height: element t of the row at place i of a panel stands at
// t·height + i. Missing rows of the last panel are zero. dst must hold Panels(hi-lo, height)·height·Dim floats.
func (r Rows) Pack(dst []float32, lo, hi, height int) {
	size := r.Dim * height
	for p := 0; lo < hi; p++ {
		panel := dst[p*size : (p+1)*size]
		n := min(height, hi-lo)
		for i := range n {
			x, s := r.raw(lo + i)
			at := i
			for _, v := range x {
				panel[at] = float32(float64(v) * s)
				at += height
			}
		}
		for i := n; i < height; i++ {
			for at := i; at < size; at += height {
				panel[at] = 0
			}
		}
		lo += n
	}
}

// Norm returns the Euclidean norm of x, summed in float64.
func Norm(x []float32) float64 {
	// Four chains, so that the additions overlap; their order is fixed.
	var s [4]float64
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		for l := range s {
			v := float64(x[i+l])
			s[l] += float64(v * v)
		}
	}
	for _, v := range x[n:] {
		s[0] += float64(float64(v) * float64(v))
	}
	return math.Sqrt((s[0] + s[1]) + (s[2] + s[3]))
}
