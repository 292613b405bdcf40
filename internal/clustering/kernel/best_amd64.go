package kernel

import "golang.org/x/sys/cpu"

// Best returns the fastest loops this machine can run.
func Best() *Set {
	all := All()
	return all[len(all)-1]
}

// All returns every implementation this machine can run, the portable one first and the fastest last.
func All() []*Set {
	all := []*Set{Portable()}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all = append(all, avx2())
		if cpu.X86.HasAVX512F {
			wide := avx2()
			wide.Name, wide.MR, wide.NR, wide.tile = "avx512", 12, 32, tile12x32AVX512
			all = append(all, wide)
		}
	}
	return all
}

func avx2() *Set {
	return &Set{Name: "avx2", MR: 6, NR: 16, tile: tile6x16AVX2, tile64: tile6x8AVX2, screen: screenAVX2, axpy: axpyAVX2, products: productsAVX2,
		layoutLoops: layoutLoops{distances: distancesAVX2, attract: attractAVX2, repel: repelAVX2, pull: pullAVX2, step: stepAVX2}}
}

//go:noescape
func tile6x16AVX2(k int, a, b, c *float32, ldc int)

//go:noescape
func tile6x8AVX2(k int, a, b, c *float64, ldc int)

//go:noescape
func screenAVX2(rows int, c *float32, ldc int, rowLimit, colLimit *float32, out *uint64) int

//go:noescape
func axpyAVX2(n int, alpha float64, x, y *float64)

//go:noescape
func productsAVX2(n, dim int, dst, rows, x *float32)

//go:noescape
func distancesAVX2(n int, dst, y, points *float32, targets *int32)

//go:noescape
func attractAVX2(n int, x *float32, c *Curve)

//go:noescape
func repelAVX2(n int, x *float32, c *Curve)

//go:noescape
func pullAVX2(n int, grad, y, points *float32, targets *int32, factor *float32)

//go:noescape
func stepAVX2(n int, next, y, m, v, grad *float32, rate float32)

//go:noescape
func tile12x32AVX512(k int, a, b, c *float32, ldc int)
