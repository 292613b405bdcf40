package clustering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Each test here and in knn, umap and gmm re-enacts one public report about clustering libraries or trees built on them;
// the comment says where it was.

var modes = []Mode{Raptor, Reference, Flat, KMeans}

func forModes(t *testing.T, f func(t *testing.T, cfg Config)) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Mode = mode
			f(t, cfg)
		})
	}
}

func rowsOf(x []float32, d, tokens int) Input {
	return Input{X: x, N: len(x) / d, D: d, Tokens: same(len(x)/d, tokens)}
}

// medical returns the first n of the real rows.
func medical(t testing.TB, n int) Input {
	x := golden.LoadFrom[float32](t, "testdata/x_600x384_f32.npy")
	return rowsOf(x[:n*384], 384, 100)
}

// github.com/lmcinnes/umap/issues/266, github.com/parthsarthi03/raptor/issues/30, /pull/16, github.com/lmcinnes/umap/issues/53
func TestFault01And02And04FewRows(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for n := 0; n <= 30; n++ {
			r := mustCluster(t, cfg, rowsOf(blobs(uint64(n), n, 8, 3, 0.4), 8, 100))
			if got, want := len(r.Clusters) > 0, n >= 3; got != want {
				t.Errorf("%d rows: %d clusters, stopped: %q", n, len(r.Clusters), r.Stopped)
			}
			if 3 <= n && n <= 7 && cfg.TargetClusterSize == 0 && len(r.Clusters) != 2 {
				t.Errorf("%d rows: %d clusters, want 2", n, len(r.Clusters))
			}
		}
	})
}

// github.com/lmcinnes/umap/issues/201, github.com/haifengl/smile/issues/821
func TestFault03FewerRowsThanDimensions(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for n := 3; n <= 14; n++ {
			for _, dim := range []int{1, 2, 10, 100} {
				cfg.Dim = dim
				mustCluster(t, cfg, rowsOf(blobs(1, n, 8, 2, 1), 8, 100))
			}
		}
	})
}

// github.com/lmcinnes/umap/issues/564, /284: 100 copies beside 100 others.
func TestFault08DuplicatesScatter(t *testing.T) {
	x := blobs(1, 200, 16, 8, 0.5)
	for i := range 100 {
		copy(x[2*i*16:(2*i+1)*16], x[:16])
	}
	forModes(t, func(t *testing.T, cfg Config) {
		cfg.MaxClusterTokens = 1 << 20
		cfg.TargetClusterSize = 200
		r := mustCluster(t, cfg, rowsOf(slices.Clone(x), 16, 100))
		for _, c := range r.Clusters {
			copies := 0
			for _, row := range c {
				if row%2 == 0 {
					copies++
				}
			}
			if copies != 0 && copies != 100 {
				t.Errorf("a cluster has %d of 100 copies: %v", copies, c)
			}
		}
		if r.Layout != nil {
			for i := 2; i < 200; i += 2 {
				if !slices.Equal(r.Layout[i*r.LayoutDim:(i+1)*r.LayoutDim], r.Layout[:r.LayoutDim]) {
					t.Fatalf("copy %d lies elsewhere in the layout", i)
				}
			}
		}
		// The neighbors of a copy are other copies, at distance 0.
		if r.KNN != nil {
			for p := range r.KNN.K {
				if j, d := r.KNN.Index[p], r.KNN.Distance[p]; d != 0 || j%2 != 0 || p > 0 && j <= r.KNN.Index[p-1] {
					t.Errorf("neighbor %d of row 0 is %d at %g", p, j, d)
				}
			}
		}
	})
}

// github.com/lmcinnes/umap/issues/54, github.com/vlasky/sqlite-vec/issues/8: a zero row is refused by its place.
func TestFault10ZeroVector(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for fault, value := range map[string]float32{"all zero": 0, "not finite": float32(math.NaN()), "not  finite": float32(math.Inf(-1))} {
			in := rowsOf(blobs(1, 40, 8, 3, 1), 8, 100)
			for j := range 8 {
				in.X[33*8+j], in.X[17*8+j] = value, value
			}
			_, err := Cluster(context.Background(), cfg, in)
			var row *RowError
			if !errors.As(err, &row) {
				t.Fatalf("got %v, want a RowError", err)
			}
			if row.Row != 17 || row.Fault != strings.Replace(fault, "  ", " ", 1) {
				t.Errorf("got row %d %s, want row 17 %s", row.Row, row.Fault, fault)
			}
		}
	})
}

// github.com/lmcinnes/umap/issues/523: rows with nothing in common.
func TestFault12Strangers(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for _, n := range []int{3, 12, 40, 90} {
			x := make([]float32, n*n)
			for i := range n {
				x[i*n+i] = 1
			}
			mustCluster(t, cfg, rowsOf(x, n, 100))
		}
	})
	// A few strangers among rows that do have neighbors go to some cluster, and the others' clusters stay pure.
	const n, d = 120, 30
	x := make([]float32, n*d)
	blob := blobs(2, 110, 8, 2, 0.1)
	for i := range 110 {
		copy(x[i*d:], blob[i*8:(i+1)*8])
	}
	for i := 110; i < n; i++ {
		x[i*d+20+i-110] = 1
	}
	mustCluster(t, DefaultConfig(), rowsOf(x, d, 100))
}

// github.com/infiniflow/ragflow/pull/16633: 30 distinct summaries became 29, 28, …
func TestFault19Staircase(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for _, n := range []int{8, 30, 200} {
			x, d := blobs(3, n, 32, n, 0), 32
			tokens := 100
			levels := 0
			for {
				in := rowsOf(x, d, tokens)
				r := mustCluster(t, cfg, in)
				if len(r.Clusters) == 0 {
					break
				}
				next := make([]float32, len(r.Clusters)*d)
				for i, c := range r.Clusters {
					for _, row := range c {
						for j := range d {
							next[i*d+j] += x[row*d+j]
						}
					}
				}
				x = next
				levels++
			}
			// 0.7^k·n ≥ 2
			if most := int(math.Log(float64(n)/2)/math.Log(1/0.7)) + 1; levels > most || levels == 0 {
				t.Errorf("%d rows: %d levels", n, levels)
			}
		}
	})
}

// github.com/run-llama/llama_index/issues/11830, github.com/parthsarthi03/raptor/issues/81,
// github.com/graspologic-org/graspologic-native/issues/6: equal rows over the cap can't be split by any model.
func TestFault20UnsplittableOverTheCap(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		cfg.MaxClusterTokens = 1000
		x := make([]float32, 50*4)
		for i := range 50 {
			copy(x[i*4:], []float32{1, 2, 3, 4})
		}
		r := mustCluster(t, cfg, rowsOf(x, 4, 300))
		if len(r.Clusters) < 15000/1000 {
			t.Errorf("%d clusters", len(r.Clusters))
		}
		for _, c := range r.Clusters {
			if len(c) < 2 || len(c) > 3 {
				t.Errorf("a cluster of %d equal rows, want 2 or 3", len(c))
			}
		}
		// The same, under the cap: two halves.
		cfg.MaxClusterTokens = 1 << 20
		cfg.TargetClusterSize = 50
		r = mustCluster(t, cfg, rowsOf(x, 4, 300))
		if len(r.Clusters) != 2 || len(r.Clusters[0]) != 25 {
			t.Errorf("50 equal rows: %d clusters", len(r.Clusters))
		}
	})
}

// One row over the cap is a cluster by itself; the others go on.
func TestFault20OneRowOverTheCap(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		in := rowsOf(blobs(4, 40, 8, 4, 0.3), 8, 100)
		in.Tokens[7] = 4000
		r := mustCluster(t, cfg, in)
		if !slices.ContainsFunc(r.Clusters, func(c []int) bool { return slices.Equal(c, []int{7}) }) {
			t.Errorf("row 7 isn't a cluster by itself: %v", r.Clusters)
		}
	})
}

// github.com/infiniflow/ragflow/pull/16627: 93,000 chunks needed 30 GB.
func TestFault21MemoryIsEstimatedFirst(t *testing.T) {
	cfg := DefaultConfig()
	if need := estimate(cfg, 93_000, 1024, 2); need > 500<<20 {
		t.Errorf("93,000 rows need %d MiB, want less than 500", need>>20)
	}
	cfg.MemoryBytes = 1 << 20
	_, err := Cluster(context.Background(), cfg, rowsOf(blobs(1, 2000, 8, 3, 1), 8, 100))
	var refused *MemoryError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a MemoryError", err)
	}
	if refused.Rows != 2000 || refused.Dim != 8 || refused.Limit != 1<<20 || refused.Need <= refused.Limit {
		t.Errorf("got %+v", refused)
	}
}

// The estimate is an upper bound, and not a wild one.
func TestFault21EstimateIsHonest(t *testing.T) {
	const n, d = 2500, 32
	in := rowsOf(blobs(1, n, d, 100, 0.7), d, 100)
	for _, mode := range []Mode{Raptor, Reference, KMeans} {
		cfg := DefaultConfig()
		cfg.Mode = mode
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var peak uint64
		ctx, cancel := context.WithCancel(context.Background())
		cfg.Progress = func(stage string, _, _ int) {
			if mode == Reference && stage == "mixture" {
				cancel() // the peak is behind, a long search ahead
			}
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				peak = max(peak, now.HeapAlloc-before.HeapAlloc)
			}
		}
		old := setGC(10) // so that garbage hardly counts
		_, err := cluster(ctx, kernel.Machine{Set: kernel.Best(), Workers: 1}, cfg, in)
		setGC(old)
		cancel()
		if err != nil && mode != Reference {
			t.Fatal(err)
		}
		need := estimate(cfg, n, d, 1)
		if uint64(need) < peak*8/10 || uint64(need) > 20*peak {
			t.Errorf("%s: estimated %d KiB, used %d KiB", mode, need>>10, peak>>10)
		}
	}
}

// github.com/parthsarthi03/raptor: rows were found again by value, so a duplicate was claimed twice.
func TestFault22RowsByIndex(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		in := rowsOf(blobs(5, 60, 8, 4, 0.3), 8, 100)
		copy(in.X[59*8:], in.X[3*8:4*8])
		r := mustCluster(t, cfg, in)
		for _, c := range r.Clusters {
			if slices.Contains(c, 3) != slices.Contains(c, 59) {
				t.Errorf("a cluster has one of two equal rows: %v", c)
			}
		}
	})
}

// The same file: a row below the threshold in every component was lost.
func TestFault23BelowTheThresholdEverywhere(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		for _, threshold := range []float64{1e-9, 0.1, 0.5, 0.999999} {
			cfg.Threshold = threshold
			mustCluster(t, cfg, rowsOf(blobs(6, 300, 6, 2, 3), 6, 100)) // noise: nothing is clear
		}
	})
}

// github.com/lmcinnes/umap/issues/853 and others: results changed with the number of threads. Assembly and Go, too.
func TestFault24SameForAnyWorkersAndSet(t *testing.T) {
	in := medical(t, 260)
	in.Tokens[5], in.Tokens[77] = 1200, 0
	forModes(t, func(t *testing.T, cfg Config) {
		var want Result
		for _, set := range kernel.All() {
			for _, workers := range []int{1, 2, 3, 7} {
				if set.Name == "go" && (workers != 3 || cfg.Mode == Reference) {
					continue // emulated fused operations are slow
				}
				got, err := cluster(context.Background(), kernel.Machine{Set: set, Workers: workers}, cfg, in)
				if err != nil {
					t.Fatal(err)
				}
				got.Stages = nil
				if want.Clusters == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %d workers: %s", set.Name, workers, diff)
				}
			}
		}
	})
}

// github.com/lmcinnes/umap/issues/1108: two runs in one process differed, because of a global random state.
func TestFault26NoStateBetweenRuns(t *testing.T) {
	in := medical(t, 150)
	forModes(t, func(t *testing.T, cfg Config) {
		first := mustCluster(t, cfg, in)
		other := cfg
		other.Seed++
		mustCluster(t, other, in)
		again := mustCluster(t, cfg, in)
		first.Stages, again.Stages = nil, nil
		if diff := cmp.Diff(first, again); diff != "" {
			t.Error(diff)
		}
	})
}

// github.com/lmcinnes/umap/issues/760: the order of columns changes the last bits of sums and so may change clusters. That
// is as documented; the rules hold all the same.
func TestFault27OrderOfColumns(t *testing.T) {
	in := medical(t, 200)
	turned := slices.Clone(in.X)
	p := rand.New(rand.NewPCG(1, 1)).Perm(384)
	for i := range turned {
		turned[i] = in.X[i/384*384+p[i%384]]
	}
	a, b := mustCluster(t, DefaultConfig(), in), mustCluster(t, DefaultConfig(), rowsOf(turned, 384, 100))
	if x, y := len(a.Clusters), len(b.Clusters); x > y*3/2 || y > x*3/2 {
		t.Errorf("%d clusters, with columns in another order %d", x, y)
	}
}

// github.com/lmcinnes/umap/issues/384, /350: a later call changed an earlier result, or the input.
func TestFault28NothingIsChanged(t *testing.T) {
	in := medical(t, 120)
	x, tokens := slices.Clone(in.X), slices.Clone(in.Tokens)
	r := mustCluster(t, DefaultConfig(), in)
	layout := slices.Clone(r.Layout)
	mustCluster(t, DefaultConfig(), in)
	if !slices.Equal(x, in.X) || !slices.Equal(tokens, in.Tokens) {
		t.Error("the input was changed")
	}
	if !slices.Equal(layout, r.Layout) {
		t.Error("an earlier result was changed")
	}
}

// github.com/lmcinnes/umap/issues/1280: with duplicates left out, indexes meant other rows.
func TestFault29OneNumbering(t *testing.T) {
	in := medical(t, 100)
	x := append(slices.Clone(in.X[:384]), in.X...) // rows 0 and 1 are equal, every other row moves up by one
	r := mustCluster(t, DefaultConfig(), rowsOf(x, 384, 100))
	plain := mustCluster(t, DefaultConfig(), in)
	for i := 1; i < 100; i++ {
		for p := range 5 {
			j, want := r.KNN.Index[(i+1)*r.KNN.K+p], plain.KNN.Index[i*plain.KNN.K+p]
			if want == 0 {
				break // the doubled row takes two places from here on
			}
			if j != want+1 {
				t.Errorf("neighbor %d of row %d is %d, want %d", p, i+1, j, want+1)
			}
		}
	}
	if len(r.Global) != 101 || len(r.Layout) != 101*r.LayoutDim {
		t.Errorf("%d components, %d coordinates for 101 rows", len(r.Global), len(r.Layout))
	}
}

// github.com/lmcinnes/umap/issues/741: near copies landed elsewhere.
func TestFault30NearCopies(t *testing.T) {
	const n, d = 150, 384
	base := medical(t, n).X
	rng := rand.New(rand.NewPCG(3, 3))
	x := append(slices.Clone(base), base...)
	for i := n * d; i < 2*n*d; i++ {
		x[i] += float32(1e-3 * rng.NormFloat64() / math.Sqrt(d) * 20)
	}
	for _, mode := range []Mode{Raptor, Flat, KMeans} {
		cfg := DefaultConfig()
		cfg.Mode = mode
		cfg.TargetClusterSize = 10
		r := mustCluster(t, cfg, rowsOf(x, d, 100))
		together := 0
		for i := range n {
			if slices.ContainsFunc(r.Clusters, func(c []int) bool { return slices.Contains(c, i) && slices.Contains(c, n+i) }) {
				together++
			}
		}
		if together < n*95/100 {
			t.Errorf("%s: %d of %d near copies are in one cluster", mode, together, n)
		}
	}
}

// github.com/lmcinnes/umap/issues/535: memory grew with each call.
func TestFault30MemoryStaysFlat(t *testing.T) {
	in := medical(t, 60)
	cfg := DefaultConfig()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	mustCluster(t, cfg, in)
	before := used()
	for range 200 {
		mustCluster(t, cfg, in)
	}
	if after := used(); after > before+1<<20 {
		t.Errorf("200 calls left %d KiB", (after-before)>>10)
	}
}

// A fully identical set got a layout of pure noise: here it gets none.
func TestFault32IdenticalSet(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		x := make([]float32, 20*3)
		for i := range x {
			x[i] = 0.5
		}
		r := mustCluster(t, cfg, rowsOf(x, 3, 100))
		if r.Layout != nil || r.KNN != nil {
			t.Error("identical rows were laid out")
		}
		if cfg.target() == 0 && len(r.Clusters) != 2 {
			t.Errorf("%d clusters, want 2", len(r.Clusters))
		}
	})
}

// Near duplicates and outliers: a dense ball, and single rows far from everything.
func TestOutliersAndNearDuplicates(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		in := rowsOf(blobs(8, 200, 20, 1, 1e-4), 20, 100)
		rng := rand.New(rand.NewPCG(4, 4))
		for _, i := range []int{0, 50, 199} {
			for j := range 20 {
				in.X[i*20+j] = float32(rng.NormFloat64())
			}
		}
		r := mustCluster(t, cfg, in)
		if cfg.Mode != Reference {
			for _, c := range r.Clusters {
				if len(c) == 1 {
					t.Errorf("row %d is a cluster by itself", c[0])
				}
			}
		}
	})
}

func TestExtremeValues(t *testing.T) {
	forModes(t, func(t *testing.T, cfg Config) {
		in := rowsOf(blobs(9, 50, 6, 4, 0.3), 6, 100)
		want := mustCluster(t, cfg, in)
		for i := range in.X {
			// Lengths don't matter, however large or small; powers of two change no bit of the unit rows.
			in.X[i] *= float32(math.Exp2(float64(i/6%2*200 - 100)))
		}
		got := mustCluster(t, cfg, in)
		if diff := cmp.Diff(want.Clusters, got.Clusters); diff != "" {
			t.Error(diff)
		}
	})
}

func ExampleCluster() {
	// Six rows in two directions.
	x := []float32{1, 0, 0, 1, 0.9, 0.1, 0.1, 0.9, 0.95, 0, 0, 1.2}
	r, err := Cluster(context.Background(), DefaultConfig(), Input{X: x, N: 6, D: 2, Tokens: []int{90, 100, 110, 95, 100, 105}})
	fmt.Println(r.Clusters, err)
	// Output: [[0 2 4] [1 3 5]] <nil>
}
