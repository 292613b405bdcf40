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
		all = append(all, &Set{Name: "avx2", MR: 6, NR: 16, tile: tile6x16AVX2, tile64: tile6x8AVX2, screen: screenAVX2, axpy: axpyAVX2})
	}
	return all
}

//go:noescape
func tile6x16AVX2(k int, a, b, c *float32, ldc int)

//go:noescape
func tile6x8AVX2(k int, a, b, c *float64, ldc int)

//go:noescape
func screenAVX2(rows int, c *float32, ldc int, rowLimit, colLimit *float32, out *uint64) int

//go:noescape
func axpyAVX2(n int, alpha float64, x, y *float64)
