package main

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// The product that is timed: side x depth by depth x side, packing included.
const (
	side  = 1024
	depth = 384
)

type speed struct {
	name   string
	gflops float64
}

// kernelSpeeds times each set that this processor has, and gonum last, on one core. The contestants take turns, so that what
// disturbs the machine disturbs all of them, and the best round of each counts.
func kernelSpeeds() []speed {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	x, y := random(1), random(2)
	type contestant struct {
		name string
		run  func()
	}
	var all []contestant
	for _, s := range kernel.All() {
		all = append(all, contestant{s.Name, product(s, x, y)})
	}
	a := blas32.General{Rows: side, Cols: depth, Stride: depth, Data: x}
	b := blas32.General{Rows: side, Cols: depth, Stride: depth, Data: y}
	c := blas32.General{Rows: side, Cols: side, Stride: side, Data: make([]float32, side*side)}
	all = append(all, contestant{"gonum", func() { blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c) }})

	const rounds = 20
	best := make([]time.Duration, len(all))
	for range rounds {
		for i, one := range all {
			start := time.Now()
			one.run()
			if took := time.Since(start); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	speeds := make([]speed, len(all))
	for i, one := range all {
		speeds[i] = speed{one.name, 2 * side * side * depth / best[i].Seconds() / 1e9}
	}
	return speeds
}

// product returns the work of one product by a set.
func product(s *kernel.Set, x, y []float32) func() {
	from, to := kernel.Rows{X: x, Dim: depth}, kernel.Rows{X: y, Dim: depth}
	rows, cols := kernel.Panels(side, s.MR), kernel.Panels(side, s.NR)
	pa, pb := make([]float32, rows*s.MR*depth), make([]float32, cols*s.NR*depth)
	c := make([]float32, rows*s.MR*s.NR)
	return func() {
		from.Pack(pa, 0, side, s.MR)
		to.Pack(pb, 0, side, s.NR)
		for p := range cols {
			s.Strip(rows, depth, pa, pb[p*depth*s.NR:], c)
		}
	}
}

func random(seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, side*depth)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return slices.Clip(x)
}
