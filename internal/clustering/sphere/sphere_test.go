package sphere

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

func rows(seed uint64, n, d, centers int, spread float64) kernel.Rows {
	rng := rand.New(rand.NewPCG(seed, 8))
	c := make([]float64, centers*d)
	for i := range c {
		c[i] = rng.NormFloat64()
	}
	x, scale := make([]float32, n*d), make([]float64, n)
	for i := range n {
		for j := range d {
			x[i*d+j] = float32(c[i%centers*d+j] + spread*rng.NormFloat64())
		}
		scale[i] = 1 / kernel.Norm(x[i*d:(i+1)*d])
	}
	return kernel.Rows{X: x, Dim: d, Scale: scale}
}

func TestKMeansFindsTheBlobs(t *testing.T) {
	for _, set := range kernel.All() {
		r := rows(1, 700, 20, 7, 0.05)
		label, centers, err := KMeans(context.Background(), kernel.Machine{Set: set, Workers: 2}, r, nil, 7, 1, 20)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range label {
			if l != label[i%7] {
				t.Fatalf("%s: row %d is in cluster %d, row %d of the same blob in %d", set.Name, i, l, i%7, label[i%7])
			}
		}
		for c := range centers.K {
			if norm := kernel.Norm(centers.X[c*20 : (c+1)*20]); math.Abs(norm-1) > 1e-6 {
				t.Errorf("%s: center %d has length %g", set.Name, c, norm)
			}
		}
	}
}

// Each row must be with the center it is most like, the lower one among equals.
func TestAssignIsNearest(t *testing.T) {
	r := rows(2, 500, 9, 500, 0)
	c := &Centers{K: 37, Dim: 9, X: make([]float32, 37*9)}
	for i := range c.K {
		r.At(c.X[i*9:(i+1)*9], i/2*3) // each center twice
	}
	for _, set := range kernel.All() {
		label, likeness := make([]int32, 500), make([]float32, 500)
		if err := c.Assign(context.Background(), kernel.Machine{Set: set, Workers: 3}, r, label, likeness); err != nil {
			t.Fatal(err)
		}
		row := make([]float32, 9)
		for i := range 500 {
			r.At(row, i)
			best, at := float32(-2), 0
			for k := range c.K {
				if v := golden.Dot(row, c.X[k*9:(k+1)*9]); v > best {
					best, at = v, k
				}
			}
			if int(label[i]) != at || likeness[i] != best {
				t.Fatalf("%s: row %d goes to %d at %g, want %d at %g", set.Name, i, label[i], likeness[i], at, best)
			}
		}
	}
}

func TestKMeansIsTheSameForAnyWorkersAndSet(t *testing.T) {
	for _, k := range []int{3, plusPlus + 20} {
		r := rows(3, 900, 12, 30, 0.6)
		weight := make([]float64, 900)
		for i := range weight {
			weight[i] = float64(1 + i%3)
		}
		var want []int32
		for _, set := range kernel.All() {
			for _, workers := range []int{1, 2, 3, 7} {
				got, _, err := KMeans(context.Background(), kernel.Machine{Set: set, Workers: workers}, r, weight, k, 5, 10)
				if err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %d workers, %d clusters: %s", set.Name, workers, k, diff)
				}
			}
		}
	}
}

func TestNoClusterIsEmpty(t *testing.T) {
	r := rows(4, 300, 5, 4, 0.01)
	for _, k := range []int{2, 50, 120, 300, 400} {
		label, centers, err := KMeans(context.Background(), kernel.Machine{Set: kernel.Best(), Workers: 2}, r, nil, k, 5, 50)
		if err != nil {
			t.Fatal(err)
		}
		used := slices.Clone(label)
		slices.Sort(used)
		used = slices.Compact(used)
		// A few can stay empty in tight blobs when the rounds run out.
		if len(used) < min(k, 300)*8/10 || centers.K != min(k, 300) {
			t.Errorf("%d of %d clusters have rows", len(used), k)
		}
	}
	// Fewer distinct rows than clusters.
	same := kernel.Rows{X: []float32{1, 0, 1, 0, 1, 0, 1, 0}, Dim: 2}
	label, _, err := KMeans(context.Background(), kernel.Machine{Set: kernel.Best(), Workers: 1}, same, nil, 3, 1, 5)
	if err != nil || len(label) != 4 {
		t.Errorf("equal rows: %v, %v", label, err)
	}
}
