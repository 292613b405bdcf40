package kernel

import (
	"math"
	"unsafe"
)

// Portable returns the loops in Go. They run everywhere and give the bits that the assembly gives.
func Portable() *Set {
	return &Set{Name: "go", MR: 6, NR: 16, tile: tileGo, tile64: tile64Go, screen: screenGo, axpy: axpyGo, products: productsGo}
}

// fma32 returns a*b + c rounded once to float32.
//
// math.FMA rounds to float64, and rounding that to float32 again differs from a single rounding in rare last bits.
// The product of two float32 is exact in float64; the sum's error (Knuth's TwoSum) tells whether it is inexact, and
// then the sum is rounded to odd instead of to even, which makes the second rounding come out right (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
func fma32(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b))
	z := float64(c)
	s := p + z
	t := s - p
	e := (p - (s - t)) + (z - t)
	if e != 0 {
		bits := math.Float64bits(s)
		if bits&1 == 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}

func tileGo(k int, a, b, c *float32, ldc int) {
	av, bv := unsafe.Slice(a, k*6), unsafe.Slice(b, k*16)
	cv := unsafe.Slice(c, 5*ldc+16)
	for i := range 6 {
		row := cv[i*ldc : i*ldc+16]
		for j := range row {
			var sum float32
			for t := range k {
				sum = fma32(av[t*6+i], bv[t*16+j], sum)
			}
			row[j] = sum
		}
	}
}

func tile64Go(k int, a, b, c *float64, ldc int) {
	av, bv := unsafe.Slice(a, k*MR64), unsafe.Slice(b, k*NR64)
	cv := unsafe.Slice(c, (MR64-1)*ldc+NR64)
	for i := range MR64 {
		row := cv[i*ldc : i*ldc+NR64]
		for j := range row {
			var sum float64
			for t := range k {
				sum = math.FMA(av[t*MR64+i], bv[t*NR64+j], sum)
			}
			row[j] = sum
		}
	}
}

func screenGo(rows int, c *float32, ldc int, rowLimit, colLimit *float32, out *uint64) int {
	cv := unsafe.Slice(c, (rows-1)*ldc+16)
	ri, cj, o := unsafe.Slice(rowLimit, rows), unsafe.Slice(colLimit, 16), unsafe.Slice(out, rows)
	n := 0
	for i := range rows {
		var byRow, byCol uint64
		for j, s := range cv[i*ldc : i*ldc+16] {
			d := 1 - s
			if d <= ri[i] {
				byRow |= 1 << j
			}
			if d <= cj[j] {
				byCol |= 1 << j
			}
		}
		if byRow|byCol != 0 {
			o[n] = uint64(i)<<32 | byCol<<16 | byRow
			n++
		}
	}
	return n
}

func axpyGo(n int, alpha float64, x, y *float64) {
	xv, yv := unsafe.Slice(x, n), unsafe.Slice(y, n)
	for i, v := range xv {
		yv[i] = math.FMA(alpha, v, yv[i])
	}
}
