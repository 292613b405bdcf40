package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProductsOfAllSetsAgree(t *testing.T) {
	for _, s := range All() {
		for _, dim := range []int{1, 2, 7, 8, 9, 15, 16, 17, 24, 27, 31, 32, 33, 40, 63, 64, 100, 383, 384, 385, 1536} {
			for _, n := range []int{0, 1, 2, 5} {
				rows, x := fill(n*dim, uint64(dim)), fill(dim, 7)
				got, want := make([]float32, n), make([]float32, n)
				s.Products(got, rows, x)
				Portable().Products(want, rows, x)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %d rows of %d: %s", s.Name, n, dim, diff)
				}
				for i, v := range got {
					sum, size := 0.0, 0.0
					for j := range x {
						p := float64(rows[i*dim+j]) * float64(x[j])
						sum += p
						size += math.Abs(p)
					}
					if math.Abs(float64(v)-sum) > 1e-6*size {
						t.Fatalf("%s, %d rows of %d: product %d is %v, want %v", s.Name, n, dim, i, v, sum)
					}
				}
			}
		}
	}
}

// A row's product doesn't depend on what stands beside it, and nothing beside the rows is read: the vectors end where
// their memory does.
func TestProductsStandAlone(t *testing.T) {
	const dim = 45
	rows, x := fill(9*dim, 1), fill(dim, 2)
	for _, s := range All() {
		all := make([]float32, 9)
		s.Products(all, rows, x)
		for i := range all {
			one := []float32{0, 42}
			s.Products(one[:1], rows[i*dim:(i+1)*dim], x)
			if one[0] != all[i] || one[1] != 42 {
				t.Errorf("%s: row %d alone gives %v, among others %v", s.Name, i, one, all[i])
			}
		}
	}
}

func BenchmarkProducts(b *testing.B) {
	const rows, dim = 100_000, 384
	x, y, dst := fill(rows*dim, 1), fill(dim, 2), make([]float32, rows)
	for _, s := range []*Set{Portable(), Best()} {
		b.Run(fmt.Sprintf("%s/%dx%d", s.Name, rows, dim), func(b *testing.B) {
			b.SetBytes(rows * dim * 4)
			for b.Loop() {
				s.Products(dst, x, y)
			}
		})
	}
}
