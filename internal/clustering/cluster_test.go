package clustering

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
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
			if kernelNorm(x[i*d:(i+1)*d]) == 0 {
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
		cfg.MaxClusterTokens = rapid.SampledFrom([]int{1, 150, 1000, 3500, 1 << 40}).Draw(t, "cap")
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

func kernelNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}
