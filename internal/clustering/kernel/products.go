package kernel

import "unsafe"

// Products sets dst[i] to the dot product of x with row i of rows, row-major and as wide as x, for each i of dst.
//
// The sum has 32 lanes, lane l over the elements l, l+32, …, each product rounded before it is added; elements beyond
// the width up to a multiple of 8 count as 0. Then lanes l, l+8, l+16 and l+24 become one of eight, (a+b) + (c+d), and
// these one sum, ((0+4) + (2+6)) + ((1+5) + (3+7)). It panics when rows is not len(dst)·len(x) long.
func (s *Set) Products(dst, rows, x []float32) {
	if len(rows) != len(dst)*len(x) {
		panic("kernel: products: bad lengths")
	}
	if len(rows) == 0 {
		clear(dst)
		return
	}
	s.products(len(dst), len(x), &dst[0], &rows[0], &x[0])
}

func productsGo(n, dim int, dst, rows, x *float32) {
	d, r, v := unsafe.Slice(dst, n), unsafe.Slice(rows, n*dim), unsafe.Slice(x, dim)
	for i := range d {
		row := r[i*dim : (i+1)*dim]
		a, b := lanes(row, v, 0), lanes(row, v, 8)
		c, e := lanes(row, v, 16), lanes(row, v, 24)
		for l := range a {
			a[l] = (a[l] + b[l]) + (c[l] + e[l])
		}
		d[i] = ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
	}
}

// lanes returns eight lanes of a product, those from first on.
func lanes(row, x []float32, first int) [8]float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	at := first
	for ; at+8 <= len(row); at += 32 {
		a, b := row[at:at+8:at+8], x[at:at+8:at+8]
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		s4 += float32(a[4] * b[4])
		s5 += float32(a[5] * b[5])
		s6 += float32(a[6] * b[6])
		s7 += float32(a[7] * b[7])
	}
	sum := [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	if at < len(row) { // the last, incomplete eight are these lanes'
		for l := range sum {
			p := float32(0)
			if at+l < len(row) {
				p = float32(row[at+l] * x[at+l])
			}
			sum[l] += p
		}
	}
	return sum
}
