package synthetic

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/knn"
)

// As many rows as there are real ones must have neighbors about as near as the real ones have.
func TestRowsHaveTheRealSpread(t *testing.T) {
	ctx := context.Background()
	m := kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
	real := kernel.Rows{X: golden.Load[float32](t, "x_600x384_f32.npy"), Dim: 384}
	x, err := Rows(ctx, m, real, 600, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		if norm := kernel.Norm(x[i*384 : (i+1)*384]); math.Abs(norm-1) > 1e-6 {
			t.Fatalf("row %d has length %g", i, norm)
		}
	}
	mean := func(r kernel.Rows) float64 {
		table, err := knn.Exact(ctx, m, r, 15, nil)
		if err != nil {
			t.Fatal(err)
		}
		var s float64
		for i := range 600 {
			_, d := table.Neighbor(i, 14)
			s += float64(d) / 600
		}
		return s
	}
	got, want := mean(kernel.Rows{X: x, Dim: 384}), mean(real)
	if got < want*0.6 || got > want*1.4 {
		t.Errorf("mean distance of the 15th neighbor %.3f, of the real rows %.3f", got, want)
	}
	again, err := Rows(ctx, m.One(), real, 600, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x, again) {
		t.Error("the same seed gave other rows")
	}
}
