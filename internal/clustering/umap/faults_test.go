package umap

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/knn"
)

func TestFault01MoreNeighborsThanRows(t *testing.T) {
	for n := 1; n <= 6; n++ {
		rows := unit(noise(uint64(n), n*5), 5)
		nn, err := knn.Exact(context.Background(), machine(), rows, 15, nil)
		if err != nil {
			t.Fatal(err)
		}
		if nn.K != n-1 {
			t.Errorf("%d rows: %d neighbors, want %d", n, nn.K, n-1)
		}
	}
	project(t, machine(), unit(noise(1, 4*5), 5), 15, 2)
}

func TestFault05TwoPoints(t *testing.T) {
	rows := unit([]float32{1, 0, 1, 1}, 2)
	nn, err := knn.Exact(context.Background(), machine(), rows, 15, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Fuzzy(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[[2]int32]float64{{0, 1}: 1, {1, 0}: 1}, edges(g)); diff != "" {
		t.Error(diff)
	}
}

func TestFault06Components(t *testing.T) {
	// Two blobs far apart, no edge between them.
	const n, d = 60, 8
	x := noise(2, n*d)
	for i := range n {
		x[i*d+i/30] += 20
	}
	y := project(t, machine(), unit(x, d), 5, 6)
	for i := range n {
		same := 0
		for j := range nearestInLayout(y, 6, i, 5) {
			if int(j)/30 == i/30 {
				same++
			}
		}
		if same < 4 {
			t.Errorf("row %d has %d of 5 neighbors in its own blob", i, same)
		}
	}
}

func TestFault07LineKeepsItsOrder(t *testing.T) {
	// Points on a quarter of a circle: under cosine distance that is a line. umap-learn's folds came from its spectral
	// start; the first principal axis is the line itself.
	const n = 2000
	x := make([]float32, 2*n)
	for i := range n {
		a := math.Pi / 2 * float64(i) / n
		x[2*i], x[2*i+1] = float32(math.Cos(a)), float32(math.Sin(a))
	}
	y := project(t, machine(), unit(x, 2), 15, 2)
	// The means of consecutive twentieths: the nearest to each must be one that it borders on.
	const parts = 20
	var center [parts][2]float64
	for i := range n {
		for t := range 2 {
			center[i*parts/n][t] += float64(y[2*i+t]) * parts / n
		}
	}
	for p := range parts {
		best, at := math.Inf(1), -1
		for q := range parts {
			if d := math.Hypot(center[p][0]-center[q][0], center[p][1]-center[q][1]); q != p && d < best {
				best, at = d, q
			}
		}
		if at != p-1 && at != p+1 {
			t.Errorf("part %d of the line lies next to part %d", p, at)
		}
	}
}

func TestFault11PrunedNeighbor(t *testing.T) {
	// Row 0 has one neighbor and the rest of its places are cut: its scale must come from the one that is left.
	inf := float32(math.Inf(1))
	nn := table{k: 3, index: []int32{1, -1, -1, 0, 2, 3, 1, 3, 0, 2, 1, 0},
		distance: []float32{0.2, inf, inf, 0.2, 0.3, 0.4, 0.3, 0.35, 1, 0.35, 0.4, 1.2}}
	rho, sigma, err := Smooth(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sigma {
		if !(sigma[i] > 0) || math.IsInf(float64(sigma[i]), 0) || math.IsInf(float64(rho[i]), 0) {
			t.Errorf("row %d: rho %g, sigma %g", i, rho[i], sigma[i])
		}
	}
	g, err := Fuzzy(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	for e, w := range edges(g) {
		if !(w > 0 && w <= 1) {
			t.Errorf("edge %v weighs %g", e, w)
		}
	}
}

func TestFault12StrangersAreCut(t *testing.T) {
	// Mutually orthogonal rows have nothing in common: no edges.
	x := []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}
	nn, err := knn.Exact(context.Background(), machine(), unit(x, 3), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Fuzzy(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Col) != 0 {
		t.Errorf("orthogonal rows have edges: %v", edges(g))
	}
	y, err := Layout(context.Background(), machine(), g, make([]float32, 6), Options{Dim: 2, Epochs: 5, Curve: DefaultCurve()})
	if err != nil || len(y) != 6 {
		t.Errorf("layout of a graph without edges: %v, %v", y, err)
	}
}
