package clustering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

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
// FAULTS: OSU-NLP-Group/HippoRAG 142; microsoft/graphrag 889.
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
// FAULTS: lmcinnes/umap 525, 1081.
func TestFault24SameForAnyWorkersAndSet(t *testing.T) {
	// Narrow rows: emulating fused operations in Go is slow. The pinned hashes cover real ones.
	in := rowsOf(blobs(7, 180, 20, 12, 0.7), 20, 100)
	in.Tokens[5], in.Tokens[77] = 1200, 0
	forModes(t, func(t *testing.T, cfg Config) {
		var want Result
		for _, set := range kernel.All() {
			for _, workers := range []int{1, 2, 3, 7} {
				if set.Name == "go" && workers != 3 {
					continue
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
	for range 60 {
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
