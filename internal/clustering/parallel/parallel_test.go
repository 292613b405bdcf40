package parallel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForRunsEachPartOnce(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 5, 100} {
		for _, n := range []int{0, 1, 7, 1000} {
			runs := make([]atomic.Int32, n)
			var wrong atomic.Bool
			err := For(context.Background(), workers, n, func(worker, i int) {
				runs[i].Add(1)
				if worker < 0 || worker >= max(workers, 1) {
					wrong.Store(true)
				}
			})
			if err != nil || wrong.Load() {
				t.Fatalf("%d workers, %d parts: %v, worker out of range: %v", workers, n, err, wrong.Load())
			}
			for i := range runs {
				if runs[i].Load() != 1 {
					t.Fatalf("%d workers: part %d ran %d times", workers, i, runs[i].Load())
				}
			}
		}
	}
}

func TestForStopsWithItsContext(t *testing.T) {
	for _, workers := range []int{1, 4} {
		ctx, cancel := context.WithCancel(context.Background())
		var ran atomic.Int32
		err := For(ctx, workers, 1_000_000, func(int, int) {
			if ran.Add(1) == 10 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || ran.Load() > 10+int32(workers) {
			t.Errorf("%d workers: %v after %d parts", workers, err, ran.Load())
		}
	}
}

func TestRangesCoverAll(t *testing.T) {
	for n := range 50 {
		seen := make([]atomic.Int32, n)
		err := Ranges(context.Background(), 3, n, 7, func(_, lo, hi int) {
			if hi-lo > 7 || lo%7 != 0 || lo >= hi {
				t.Errorf("range %d..%d", lo, hi)
			}
			for i := lo; i < hi; i++ {
				seen[i].Add(1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if seen[i].Load() != 1 {
				t.Fatalf("%d rows: row %d seen %d times", n, i, seen[i].Load())
			}
		}
	}
}
