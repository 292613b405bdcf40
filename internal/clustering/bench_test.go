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
