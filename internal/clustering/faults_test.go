package clustering

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
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
// FAULTS: infiniflow/ragflow 17614.
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
