package clustering

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/synthetic"
)

// BenchmarkCluster clusters one level of rows made from the real ones in testdata.
func BenchmarkCluster(b *testing.B) {
	real := medical(b, 600)
	scale, err := scales(context.Background(), 1, real)
	if err != nil {
		b.Fatal(err)
	}
	m := kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
	for _, n := range []int{20, 100, 300, 1000, 3000, 10_000} {
		x, err := synthetic.Rows(context.Background(), m, kernel.Rows{X: real.X, Dim: real.D, Scale: scale}, n, 1)
		if err != nil {
			b.Fatal(err)
		}
		in := rowsOf(x, real.D, 100)
		for _, mode := range modes {
			cfg := DefaultConfig()
			cfg.Mode = mode
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mustCluster(b, cfg, in)
				}
			})
		}
	}
}

// BenchmarkGrow fits newcomers into the slots of a level: the time grows with the newcomers, and with the rows as one pass over them
// does. Slots are formed by k-means, which is quick, as large as those of a level.
func BenchmarkGrow(b *testing.B) {
	real := medical(b, 600)
	scale, err := scales(context.Background(), 1, real)
	if err != nil {
		b.Fatal(err)
	}
	m := kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
	cfg := DefaultConfig()
	for _, n := range []int{10_000, 40_000} {
		x, err := synthetic.Rows(context.Background(), m, kernel.Rows{X: real.X, Dim: real.D, Scale: scale}, n, 1)
		if err != nil {
			b.Fatal(err)
		}
		in := rowsOf(x, real.D, 100)
		for _, newcomers := range []int{n / 1000, n / 100, n / 10} {
			old := rowsOf(x[:(n-newcomers)*real.D], real.D, 100)
			means := DefaultConfig()
			means.Mode = KMeans
			before := mustCluster(b, means, old)
			slots := make([]Slot, len(before.Clusters))
			for i, rows := range before.Clusters {
				slots[i] = Slot{Members: rows, Formed: tokensOf(old, rows)}
			}
			b.Run(fmt.Sprintf("rows=%d/newcomers=%d", n, newcomers), func(b *testing.B) {
				for b.Loop() {
					if _, err := Grow(context.Background(), cfg, in, slots); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
