// Package parallel runs the independent parts of a loop on several goroutines. Parts write to their own outputs; sums
// over parts are the caller's, in a fixed order, so the number of workers never shows in a result.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// For calls part(worker, i) for each i in 0..n-1, on up to workers goroutines (the caller's among them), and returns
// when all have ended. worker is in 0..workers-1 and names the goroutine, for scratch memory. Parts start in order of i.
// It stops handing out parts when ctx is done and then returns its error.
func For(ctx context.Context, workers, n int, part func(worker, i int)) error {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			part(0, i)
		}
		return ctx.Err()
	}
	var next atomic.Int64
	run := func(worker int) {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			part(worker, i)
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { run(w) })
	}
	run(0)
	wg.Wait()
	return ctx.Err()
}

// Ranges calls part(worker, lo, hi) for consecutive ranges of 0..n-1 that are size long but for the last. The ranges
// depend on n and size only.
func Ranges(ctx context.Context, workers, n, size int, part func(worker, lo, hi int)) error {
	return For(ctx, workers, (n+size-1)/size, func(worker, i int) {
		part(worker, i*size, min((i+1)*size, n))
	})
}
