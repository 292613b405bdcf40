package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/synthetic"
	"github.com/aerie-rag/aerie/internal/npy"
)

// load reads real vectors, scales them to unit length and shuffles them by a fixed seed.
func load(path string) (kernel.Rows, error) {
	file, err := npy.Open(path)
	if err != nil {
		return kernel.Rows{}, err
	}
	defer file.Close()
	n, d := file.Len(), file.Width()
	if n < 16 {
		return kernel.Rows{}, fmt.Errorf("%s has %d rows, but 16 are needed to make more of", path, n)
	}
	x := make([]float32, n*d)
	for i, from := range rand.New(rand.NewPCG(1, 0)).Perm(n) {
		row := file.Row(x[i*d:(i+1)*d], from)
		norm := kernel.Norm(row)
		if norm == 0 {
			return kernel.Rows{}, fmt.Errorf("%s: row %d is zero", path, from)
		}
		for t := range row {
			row[t] = float32(float64(row[t]) / norm)
		}
	}
	return kernel.Rows{X: x, Dim: d}, nil
}

// write leaves n rows in a .npy file: the first real ones, or as many made from all of them.
func write(ctx context.Context, path string, real kernel.Rows, n int) (err error) {
	x := real.X
	if n <= real.Len() {
		x = x[:n*real.Dim]
	} else {
		m := kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
		if x, err = synthetic.Rows(ctx, m, real, n, 1); err != nil {
			return err
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	return errors.Join(npy.Write(buffered, n, real.Dim, x), buffered.Flush(), file.Close())
}
