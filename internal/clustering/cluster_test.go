package clustering

import (
	"errors"
	"runtime/debug"
	"strings"
	"sync"

	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// blobs returns n rows of d numbers around centers on the unit sphere.
func blobs(seed uint64, n, d, centers int, spread float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := make([]float64, centers*d)
	for i := range c {
		c[i] = rng.NormFloat64()
	}
	x := make([]float32, n*d)
	for i := range n {
		at := rng.IntN(centers) * d
		for j := range d {
			x[i*d+j] = float32(c[at+j] + spread*rng.NormFloat64())
		}
	}
	return x
}

func same(n, tokens int) []int {
	t := make([]int, n)
	for i := range t {
		t[i] = tokens
	}
	return t
}

// check returns what is wrong with a result, by the rules in the comment of [Cluster].
func check(cfg Config, in Input, r Result) error {
	if len(r.Clusters) == 0 {
		if r.Stopped == "" {
			return fmt.Errorf("no clusters and no reason")
		}
		return nil
	}
	if r.Stopped != "" {
		return fmt.Errorf("clusters, but stopped: %s", r.Stopped)
	}
	if !slices.IsSortedFunc(r.Clusters, slices.Compare) {
		return fmt.Errorf("clusters out of order")
	}
	n, count := in.N, len(r.Clusters)
	if count < 2 || 10*count > 7*n {
		return fmt.Errorf("%d clusters of %d rows", count, n)
	}
	if t := cfg.target(); t > 0 && count < (n+t-1)/t {
		return fmt.Errorf("%d clusters of %d rows, target size %d", count, n, t)
	}
	homes := make([]int, n)
	total, placed := 0, 0
	for _, t := range in.Tokens {
		total += t
	}
	for i, c := range r.Clusters {
		if i > 0 && slices.Equal(c, r.Clusters[i-1]) {
			return fmt.Errorf("clusters %d and %d are equal: %v", i-1, i, c)
		}
		tokens := 0
		for j, row := range c {
			if j > 0 && c[j-1] >= row {
				return fmt.Errorf("cluster %d isn't ascending: %v", i, c)
			}
			homes[row]++
			tokens += in.Tokens[row]
		}
		placed += tokens
		if tokens > cfg.MaxClusterTokens && len(c) > 1 {
			return fmt.Errorf("cluster %d of %d rows has %d tokens, cap %d", i, len(c), tokens, cfg.MaxClusterTokens)
		}
		if len(c) == 0 {
			return fmt.Errorf("cluster %d is empty", i)
		}
	}
	for row, h := range homes {
		if h == 0 {
			return fmt.Errorf("row %d is in no cluster", row)
		}
	}
	if 10*(placed-total) > total {
		return fmt.Errorf("%d tokens placed of %d", placed, total)
	}
	return nil
}

func mustCluster(t testing.TB, cfg Config, in Input) Result {
	t.Helper()
	r, err := Cluster(context.Background(), cfg, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(cfg, in, r); err != nil {
		t.Fatalf("%+v, %d rows of %d: %v", cfg, in.N, in.D, err)
	}
	return r
}

// FAULTS: infiniflow/ragflow 12176; microsoft/graphrag 2348, 1391.
func TestClusterKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 160).Draw(t, "n")
		d := rapid.IntRange(1, 24).Draw(t, "d")
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 3))
		x := blobs(seed, n, d, rapid.IntRange(1, 12).Draw(t, "centers"), rapid.SampledFrom([]float64{0, 1e-4, 0.3, 3}).Draw(t, "spread"))
		for range rapid.SampledFrom([]int{0, 0, 3, n, 4 * n}).Draw(t, "copies") {
			if n > 1 {
				a, b := rng.IntN(n), rng.IntN(n)
				copy(x[a*d:(a+1)*d], x[b*d:(b+1)*d])
			}
		}
		for i := range n {
			if kernel.Norm(x[i*d:(i+1)*d]) == 0 {
				x[i*d] = 1
			}
		}
		tokens := make([]int, n)
		mean := rapid.SampledFrom([]int{0, 1, 100, 3000}).Draw(t, "tokens")
		for i := range tokens {
			tokens[i] = rng.IntN(2*mean + 1)
		}
		cfg := DefaultConfig()
		cfg.Mode = rapid.SampledFrom([]Mode{Raptor, Reference, Flat, KMeans}).Draw(t, "mode")
		cfg.Dim = rapid.SampledFrom([]int{1, 2, 10, 30}).Draw(t, "dim")
		cfg.MaxClusterTokens = rapid.SampledFrom([]int{1, 150, 1000, 3500, math.MaxInt}).Draw(t, "cap")
		cfg.TargetClusterSize = rapid.SampledFrom([]int{0, 0, 2, 7, 50}).Draw(t, "target")
		cfg.MaxClusters = rapid.SampledFrom([]int{0, 0, 2, 20}).Draw(t, "max")
		cfg.Threshold = rapid.SampledFrom([]float64{0.1, 1e-6, 0.9}).Draw(t, "threshold")
		in := Input{X: x, N: n, D: d, Tokens: tokens}
		r, err := Cluster(context.Background(), cfg, in)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(cfg, in, r); err != nil {
			t.Fatal(err)
		}
	})
}

func setGC(percent int) int { return debug.SetGCPercent(percent) }

func TestValidateNamesTheKey(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                                      func(c *Config) {},
		`clustering.mode is "ward"`:             func(c *Config) { c.Mode = "ward" },
		"clustering.threshold is 0":             func(c *Config) { c.Threshold = 0 },
		"clustering.threshold is 1":             func(c *Config) { c.Threshold = 1 },
		"clustering.threshold is NaN":           func(c *Config) { c.Threshold = math.NaN() },
		"clustering.reduced_dimensionality":     func(c *Config) { c.Dim = 0 },
		"clustering.max_cluster_tokens is":      func(c *Config) { c.MaxClusterTokens = 0 },
		"clustering.target_cluster_size is 1;":  func(c *Config) { c.TargetClusterSize = 1 },
		"clustering.target_cluster_size is -2;": func(c *Config) { c.TargetClusterSize = -2 },
		"clustering.max_clusters is 1;":         func(c *Config) { c.MaxClusters = 1 },
		"clustering.max_clusters is -1;":        func(c *Config) { c.MaxClusters = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		if want == "" {
			if err != nil {
				t.Errorf("defaults: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "must be") {
			t.Errorf("got %v, want %q and what is allowed", err, want)
		}
		if _, err := Cluster(context.Background(), cfg, Input{D: 1}); err == nil {
			t.Errorf("%s: clustered all the same", want)
		}
	}
}

func TestShapeOfTheInput(t *testing.T) {
	for name, in := range map[string]Input{
		"numbers": {X: make([]float32, 7), N: 2, D: 4, Tokens: []int{1, 1}},
		"width":   {N: 0, D: 0},
		"tokens":  {X: []float32{1, 1}, N: 2, D: 1, Tokens: []int{1}},
		"row 1":   {X: []float32{1, 1}, N: 2, D: 1, Tokens: []int{1, -1}},
	} {
		if _, err := Cluster(context.Background(), DefaultConfig(), in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestStoppedSaysWhy(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxClusterTokens = 150
	r := mustCluster(t, cfg, rowsOf(blobs(1, 12, 4, 3, 0.2), 4, 100))
	if want := "would not shrink: 12 nodes give 12 clusters under the token cap"; r.Stopped != want {
		t.Errorf("got %q, want %q", r.Stopped, want)
	}
	// Ten rows that fit nowhere and two that fit together: eleven clusters.
	in := rowsOf(blobs(1, 12, 4, 3, 0.2), 4, 100)
	in.Tokens[3], in.Tokens[9] = 70, 70
	if r := mustCluster(t, cfg, in); !strings.HasPrefix(r.Stopped, "would not shrink: 12 nodes give") {
		t.Errorf("got %q", r.Stopped)
	}
	for _, n := range []int{0, 1, 2} {
		if r := mustCluster(t, DefaultConfig(), rowsOf(blobs(1, n, 4, 1, 1), 4, 1)); r.Stopped == "" {
			t.Errorf("%d rows: no reason", n)
		}
	}
}

func TestNumberOfClustersIsBounded(t *testing.T) {
	in := medical(t, 400)
	forModes(t, func(t *testing.T, cfg Config) {
		cfg.MaxClusterTokens = 1 << 30
		for _, most := range []int{2, 3, 10, 40} {
			cfg.MaxClusters, cfg.TargetClusterSize = most, 400
			if r := mustCluster(t, cfg, in); len(r.Clusters) > most {
				t.Errorf("%d clusters, at most %d asked for", len(r.Clusters), most)
			}
		}
		// It yields to the target size and to the cap.
		cfg.MaxClusters, cfg.TargetClusterSize = 2, 10
		if r := mustCluster(t, cfg, in); len(r.Clusters) < 40 {
			t.Errorf("%d clusters of 400 rows, target size 10", len(r.Clusters))
		}
		cfg.TargetClusterSize, cfg.MaxClusterTokens = 400, 1000
		if r := mustCluster(t, cfg, in); len(r.Clusters) < 40 {
			t.Errorf("%d clusters of 40,000 tokens, cap 1,000", len(r.Clusters))
		}
	})
}

// The reference makes 370 to 418 clusters of these rows' whole document, 6.3 to 7.1 rows each, with a mean cosine of a row
// to its cluster's center of .837 to .846.
func TestClustersAreLikeTheReferences(t *testing.T) {
	in := medical(t, 600)
	for _, mode := range []Mode{Raptor, Reference} {
		cfg := DefaultConfig()
		cfg.Mode = mode
		r := mustCluster(t, cfg, in)
		if size := 600 / float64(len(r.Clusters)); size < 4 || size > 10 {
			t.Errorf("%s: %.1f rows in a cluster", mode, size)
		}
		var coherence float64
		members := 0
		for _, c := range r.Clusters {
			sum := make([]float64, in.D)
			for _, row := range c {
				norm := kernel.Norm(in.X[row*in.D : (row+1)*in.D])
				for j := range sum {
					sum[j] += float64(in.X[row*in.D+j]) / norm
				}
			}
			var s float64
			for _, v := range sum {
				s += v * v
			}
			coherence += math.Sqrt(s)
			members += len(c)
		}
		if coherence /= float64(members); coherence < 0.8 {
			t.Errorf("%s: coherence %.3f", mode, coherence)
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	in := medical(t, 300)
	cfg := DefaultConfig()
	seen := map[string]bool{}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	cfg.Progress = func(stage string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if done < 0 || done > total || total < 1 {
			t.Errorf("%s: %d of %d", stage, done, total)
		}
		seen[stage] = true
		if stage == "layout" && done == 20 {
			cancel()
		}
	}
	if _, err := Cluster(ctx, cfg, in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for _, stage := range []string{"check", "neighbors", "graph", "start", "layout"} {
		if !seen[stage] {
			t.Errorf("no progress of %s", stage)
		}
	}
	if seen["mixture"] {
		t.Error("the run went on after its context was done")
	}
}

func TestStagesAreTimed(t *testing.T) {
	r := mustCluster(t, DefaultConfig(), medical(t, 300))
	var names []string
	for _, s := range r.Stages {
		names = append(names, s.Name)
	}
	want := []string{"check", "neighbors", "graph", "start", "layout", "mixture", "local", "shape"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestCutIsEvenAndUnderTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(t, "tokens")
		limit := rapid.IntRange(1, 120).Draw(t, "limit")
		least := rapid.IntRange(1, 10).Draw(t, "least")
		parts := cut(tokens, func(i int) int { return tokens[i] }, limit, least)
		if len(parts) < min(least, len(tokens)) {
			t.Fatalf("%d parts of %d, want %d", len(parts), len(tokens), least)
		}
		var whole []int
		for _, p := range parts {
			sum := 0
			for _, v := range p {
				sum += v
			}
			if len(p) == 0 || sum > limit && len(p) > 1 {
				t.Fatalf("part %v, limit %d", p, limit)
			}
			whole = append(whole, p...)
		}
		if diff := cmp.Diff(tokens, whole); diff != "" {
			t.Fatal(diff)
		}
	})
	for n, want := range map[int][]int{50: {25, 25}, 7: {4, 3}, 2: {1, 1}} {
		var sizes []int
		for _, p := range cut(make([]struct{}, n), func(int) int { return 1 }, n, 2) {
			sizes = append(sizes, len(p))
		}
		slices.Sort(sizes)
		slices.Reverse(sizes)
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("%d rows in two: %s", n, diff)
		}
	}
}

func FuzzCluster(f *testing.F) {
	f.Add(uint64(1), uint16(40), uint8(6), uint8(0), uint16(100), uint16(3500), uint8(0), uint8(0))
	f.Add(uint64(2), uint16(90), uint8(3), uint8(1), uint16(1000), uint16(999), uint8(7), uint8(3))
	f.Add(uint64(3), uint16(200), uint8(9), uint8(3), uint16(10), uint16(50), uint8(2), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, d, mode uint8, tokens, limit uint16, target, most uint8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		in := rowsOf(blobs(seed, int(n)%300, int(d)%20+1, rng.IntN(9)+1, math.Exp(rng.NormFloat64()*3-1)), int(d)%20+1, 0)
		for i := range in.Tokens {
			in.Tokens[i] = rng.IntN(int(tokens) + 1)
			if i > 0 && rng.IntN(4) == 0 {
				copy(in.X[i*in.D:(i+1)*in.D], in.X[rng.IntN(i)*in.D:])
			}
		}
		cfg := DefaultConfig()
		cfg.Mode, cfg.MaxClusterTokens = modes[int(mode)%4], int(limit)+1
		if target > 1 {
			cfg.TargetClusterSize = int(target)
		}
		if most > 1 {
			cfg.MaxClusters = int(most)
		}
		r, err := Cluster(context.Background(), cfg, in)
		var row *RowError
		if errors.As(err, &row) {
			return // a drawn row can be all zero
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := check(cfg, in, r); err != nil {
			t.Fatal(err)
		}
	})
}

// More components than are fitted at once.
func TestManyComponentsAreNested(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode, cfg.TargetClusterSize = Flat, 4
	if least := cfg.least(600); least <= wholeMixture {
		t.Fatalf("%d components don't test it", least)
	}
	if r := mustCluster(t, cfg, medical(t, 600)); len(r.Clusters) > 250 {
		t.Errorf("%d clusters, 150 asked for", len(r.Clusters))
	}
}
