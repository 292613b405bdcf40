package kernel

import (
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// The product of 1024 x 384 and 384 x 1024, packing included, on one core.
const (
	benchRows  = 1024
	benchDepth = 384
)

func reportFlops(b *testing.B) {
	b.ReportMetric(2*benchRows*benchRows*benchDepth*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkProduct(b *testing.B) {
	x := Rows{X: fill(benchRows*benchDepth, 1), Dim: benchDepth}
	y := Rows{X: fill(benchRows*benchDepth, 2), Dim: benchDepth}
	for _, s := range All() {
		b.Run(s.Name, func(b *testing.B) {
			rows, cols := Panels(benchRows, s.MR), Panels(benchRows, s.NR)
			pa, pb := make([]float32, rows*s.MR*benchDepth), make([]float32, cols*s.NR*benchDepth)
			c := make([]float32, rows*s.MR*s.NR)
			for b.Loop() {
				x.Pack(pa, 0, benchRows, s.MR)
				y.Pack(pb, 0, benchRows, s.NR)
				for p := range cols {
					s.Strip(rows, benchDepth, pa, pb[p*benchDepth*s.NR:], c)
				}
			}
			reportFlops(b)
		})
	}
}

func BenchmarkGonum(b *testing.B) {
	x := blas32.General{Rows: benchRows, Cols: benchDepth, Stride: benchDepth, Data: fill(benchRows*benchDepth, 1)}
	y := blas32.General{Rows: benchRows, Cols: benchDepth, Stride: benchDepth, Data: fill(benchRows*benchDepth, 2)}
	c := blas32.General{Rows: benchRows, Cols: benchRows, Stride: benchRows, Data: make([]float32, benchRows*benchRows)}
	for b.Loop() {
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, y, 0, c)
	}
	reportFlops(b)
}
