package knn

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

func machine() kernel.Machine {
	return kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
}

func unit(x []float32, d int) kernel.Rows {
	scale := make([]float64, len(x)/d)
	for i := range scale {
		scale[i] = 1 / kernel.Norm(x[i*d:(i+1)*d])
	}
	return kernel.Rows{X: x, Dim: d, Scale: scale}
}

func noise(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func neighborsOf(t testing.TB, m kernel.Machine, rows kernel.Rows, k int) *Table {
	t.Helper()
	table, err := Exact(context.Background(), m, rows, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestExactAgreesWithFloat64(t *testing.T) {
	x := golden.Load[float32](t, "x_600x384_f32.npy")
	wantIndex, want := golden.Load[int32](t, "knn_idx_600x15_i32.npy"), golden.Load[float64](t, "knn_dist_600x15_f64.npy")
	for _, set := range kernel.All() {
		if set.Name == "go" && len(kernel.All()) > 1 {
			continue // slow, and the same bits; see the tests below
		}
		table := neighborsOf(t, kernel.Machine{Set: set, Workers: 2}, kernel.Rows{X: x, Dim: 384}, 15)
		index, distance := table.Flat()
		for at := range index {
			if math.Abs(float64(distance[at])-want[at]) > 1e-6 {
				t.Fatalf("%s: neighbor %d of row %d at %g, want %g", set.Name, at%15, at/15, distance[at], want[at])
			}
			if index[at] != wantIndex[at] {
				// Only neighbors that are closer to each other than float32 can tell may change places.
				row := want[at/15*15 : at/15*15+15]
				near := 0
				for _, d := range row {
					if math.Abs(d-want[at]) < 4e-7 {
						near++
					}
				}
				if near < 2 && at%15 != 14 {
					t.Errorf("%s: neighbor %d of row %d is %d, want %d", set.Name, at%15, at/15, index[at], wantIndex[at])
				}
			}
		}
	}
}

// plain finds neighbors by one fused chain a pair and a sort: what the tiles must equal bit for bit.
func plain(rows kernel.Rows, k int) ([]int32, []float32) {
	n, d := rows.Len(), rows.Dim
	x := make([]float32, n*d)
	for i := range n {
		rows.At(x[i*d:(i+1)*d], i)
	}
	k = min(k, n-1)
	var index []int32
	var distance []float32
	for i := range n {
		type pair struct {
			d float32
			j int32
		}
		var list []pair
		for j := range n {
			if j != i {
				list = append(list, pair{clamp(1 - golden.Dot(x[i*d:(i+1)*d], x[j*d:(j+1)*d])), int32(j)})
			}
		}
		slices.SortFunc(list, func(a, b pair) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.j, b.j)) })
		for _, p := range list[:k] {
			index, distance = append(index, p.j), append(distance, p.d)
		}
	}
	return index, distance
}

func TestExactEqualsThePlainWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.IntRange(1, 60).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "d")
		k := rapid.IntRange(1, 70).Draw(t, "k")
		x := noise(rapid.Uint64().Draw(t, "seed"), n*d)
		// Ties: coarse values, and copies.
		if rapid.Bool().Draw(t, "coarse") {
			for i := range x {
				x[i] = float32(math.Round(float64(x[i])))
				if i%d == 0 {
					x[i] = 1
				}
			}
		}
		rows := unit(x, d)
		index, distance := plain(rows, k)
		for _, set := range kernel.All() {
			table, err := Exact(context.Background(), kernel.Machine{Set: set, Workers: 3}, rows, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			gotIndex, gotDistance := table.Flat()
			if !slices.Equal(gotIndex, index) || !slices.Equal(gotDistance, distance) {
				t.Fatalf("%s: %v\n%v\nwant\n%v\n%v", set.Name, gotIndex, gotDistance, index, distance)
			}
		}
	})
}

// Several blocks, so that pairs of blocks meet in the table.
func TestExactIsTheSameForAnyWorkersAndSet(t *testing.T) {
	rows := unit(noise(4, 3000*16), 16)
	var want *Table
	for _, set := range kernel.All() {
		for _, workers := range []int{1, 2, 3, 7} {
			if set.Name == "go" && workers != 3 {
				continue
			}
			got := neighborsOf(t, kernel.Machine{Set: set, Workers: workers}, rows, 40)
			if want == nil {
				want = got
			}
			if diff := gocmp.Diff(want.keys, got.keys); diff != "" {
				t.Fatalf("%s, %d workers: neighbors differ", set.Name, workers)
			}
		}
	}
}

func TestFault09CosineRounding(t *testing.T) {
	// The matrix of umap issue 106's kind: rows along one direction, whose cosine rounds above 1, and equal rows.
	x := []float32{0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 0.7, 0.7, 0.7, 1, 1, 1, 1, 1, 1}
	index, distance := neighborsOf(t, machine(), unit(x, 3), 2).Flat()
	for at, d := range distance {
		if !(d >= 0 && d < 1e-6) {
			t.Errorf("neighbor %d of row %d at %g, want 0", index[at], at/2, d)
		}
	}
	opposite, _ := neighborsOf(t, machine(), unit([]float32{0.1, 0.3, -0.1, -0.3}, 2), 1).Neighbor(0, 0)
	if _, d := neighborsOf(t, machine(), unit([]float32{0.1, 0.3, -0.1, -0.3}, 2), 1).Neighbor(0, 0); opposite != 1 || !(d > 1.999 && d <= 2) {
		t.Errorf("the opposite row is %d at %g, want 1 at 2", opposite, d)
	}
}

func checkRows(t testing.TB, table *Table) {
	t.Helper()
	for i := range table.N {
		seen := map[int32]bool{int32(i): true}
		before := float32(-1)
		for p := range table.K {
			j, d := table.Neighbor(i, p)
			if j < 0 || int(j) >= table.N || seen[j] {
				t.Fatalf("row %d: neighbor %d is %d", i, p, j)
			}
			if d < before {
				t.Fatalf("row %d: neighbor %d at %g after %g", i, p, d, before)
			}
			seen[j], before = true, d
		}
	}
}

func TestFault13EveryRowHasDistinctNeighbors(t *testing.T) {
	signs := noise(1, 1000*60)
	for i, v := range signs {
		switch {
		case v > 1.2:
			signs[i] = 1
		case v < -1.2:
			signs[i] = -1
		default:
			signs[i] = 0
		}
	}
	for i := range 1000 {
		signs[i*60+i%60] = 1
	}
	checkRows(t, neighborsOf(t, machine(), unit(signs, 60), 15))
	uniform := noise(2, 100*100)
	for i, v := range uniform {
		uniform[i] = float32(math.Abs(float64(v)))
	}
	checkRows(t, neighborsOf(t, machine(), unit(uniform, 100), 15))
}

func TestFault31ManyNeighbors(t *testing.T) {
	rows := unit(noise(3, 400*6), 6)
	table := neighborsOf(t, machine(), rows, 65)
	if table.K != 65 {
		t.Errorf("%d neighbors, want 65", table.K)
	}
	checkRows(t, table)
}

func TestExactStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Exact(ctx, machine(), unit(noise(1, 100), 10), 3, nil); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// blobs returns rows around centers, as text has them.
func blobs(seed uint64, n, d, centers int, spread float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 6))
	c := noise(seed, centers*d)
	x := make([]float32, n*d)
	for i := range n {
		at := rng.IntN(centers) * d
		for j := range d {
			x[i*d+j] = c[at+j] + float32(spread*rng.NormFloat64())
		}
	}
	return x
}

func TestApproximateFindsNearlyAll(t *testing.T) {
	rows := unit(blobs(1, 6000, 24, 80, 0.8), 24)
	want := neighborsOf(t, machine(), rows, 15)
	got, r, err := Approximate(context.Background(), machine(), rows, 15, 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, got)
	// Every distance must be the exact one, since all methods compute it the same way.
	hits := 0
	for i := range got.N {
		exact := map[int32]float32{}
		for p := range want.K {
			j, d := want.Neighbor(i, p)
			exact[j] = d
		}
		for p := range got.K {
			j, d := got.Neighbor(i, p)
			if e, ok := exact[j]; ok {
				hits++
				if e != d {
					t.Fatalf("row %d: neighbor %d at %g, exactly %g", i, j, d, e)
				}
			}
		}
	}
	share := float64(hits) / float64(got.N*got.K)
	if share < 0.95 {
		t.Errorf("recall %.3f, want at least 0.95", share)
	}
	if math.Abs(r.Mean-share) > 0.02 {
		t.Errorf("recall of the sample %.3f, of all rows %.3f", r.Mean, share)
	}
}

func TestApproximateIsTheSameForAnyWorkersAndSet(t *testing.T) {
	rows := unit(blobs(2, 1500, 12, 40, 0.8), 12)
	var want *Table
	for _, set := range kernel.All() {
		for _, workers := range []int{1, 2, 3, 7} {
			got, _, err := Approximate(context.Background(), kernel.Machine{Set: set, Workers: workers}, rows, 10, 7, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if diff := gocmp.Diff(want.keys, got.keys); diff != "" {
				t.Fatalf("%s, %d workers: neighbors differ", set.Name, workers)
			}
		}
	}
}

func TestApproximateOfFewRows(t *testing.T) {
	for n := 1; n < 20; n++ {
		got, _, err := Approximate(context.Background(), machine(), unit(noise(uint64(n), n*4), 4), 15, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.K != min(15, n-1) {
			t.Errorf("%d rows: %d neighbors", n, got.K)
		}
		checkRows(t, got)
	}
}
