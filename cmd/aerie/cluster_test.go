package main

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/npy"
)

// writeVectors writes n rows around k centers, from a seed.
func writeVectors(t *testing.T, path string, n, d, k int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	centers := make([]float32, k*d)
	for i := range centers {
		centers[i] = float32(r.NormFloat64())
	}
	x := make([]float32, n*d)
	for i := range n {
		for j := range d {
			x[i*d+j] = centers[i%k*d+j] + 0.2*float32(r.NormFloat64())
		}
	}
	if err := writeFile(path, func(w io.Writer) error { return npy.Write(w, n, d, x) }); err != nil {
		t.Fatal(err)
	}
}

type clusterLine struct {
	Cluster int   `json:"cluster"`
	Rows    []int `json:"rows"`
	Tokens  int   `json:"tokens"`
}

func TestCluster(t *testing.T) {
	fresh(t)
	const n, d = 300, 16
	writeVectors(t, "v.npy", n, d, 12)
	args := []string{"cluster", "v.npy", "--max-cluster-tokens", "2000", "--out", "c.jsonl", "--stages", "st", "-o", "json"}
	r := aerie(t, args...).want(t, exitDone)
	fields(t, decode[map[string]any](t, r), "n", "d", "clusters", "memberships", "mean_tokens", "largest_tokens", "stages[].name",
		"stages[].seconds", "seconds", "peak_rss_bytes", "hash")
	got := decode[clusterResult](t, r)
	if got.N != n || got.D != d || got.Clusters < 2 || got.Largest > 2000 || got.PeakRSSBytes <= 0 {
		t.Errorf("%+v", got)
	}

	b, err := os.ReadFile("c.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	members, seen := 0, map[int]bool{}
	for i, c := range lines[clusterLine](t, result{stdout: string(b)}) {
		if c.Cluster != i || !slices.IsSorted(c.Rows) || c.Tokens != 100*len(c.Rows) {
			t.Errorf("line %d: %+v", i, c)
		}
		members += len(c.Rows)
		for _, row := range c.Rows {
			seen[row] = true
		}
	}
	if members != got.Memberships || len(seen) != n {
		t.Errorf("%d memberships of %d rows in the file, %d reported", members, len(seen), got.Memberships)
	}
	for _, name := range []string{"knn_idx.npy", "knn_dist.npy", "layout.npy", "global.npy"} {
		if !exists(filepath.Join("st", name)) {
			t.Errorf("no %s", name)
		}
	}
	dist, err := npy.Open(filepath.Join("st", "knn_dist.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer dist.Close()
	if global, err := npy.ReadInts(filepath.Join("st", "global.npy")); err != nil || len(global) != n || dist.Len() != n {
		t.Errorf("%v: %d global components, %d rows of distances", err, len(global), dist.Len())
	}

	// The same seed gives the same, another doesn't; a count for each row counts.
	if same := decode[clusterResult](t, aerie(t, args...).want(t, exitDone)); same.Hash != got.Hash || !cmp.Equal(same.Hashes, got.Hashes) {
		t.Errorf("a second run gives %s, the first %s", same.Hash, got.Hash)
	}
	if other := decode[clusterResult](t, aerie(t, append(args, "--seed", "5")...).want(t, exitDone)); other.Hash == got.Hash {
		t.Error("another seed gives the same hash")
	}
	heavy := slices.Repeat([]int32{500}, n)
	if err := writeFile("tokens.npy", func(w io.Writer) error { return npy.WriteInt32(w, n, 0, heavy) }); err != nil {
		t.Fatal(err)
	}
	byFile := decode[clusterResult](t, aerie(t, append(args, "--tokens", "tokens.npy")...).want(t, exitDone))
	byNumber := decode[clusterResult](t, aerie(t, append(args, "--tokens", "500")...).want(t, exitDone))
	if byFile.Hash != byNumber.Hash || byFile.Largest > 2000 || byFile.Hash == got.Hash {
		t.Errorf("tokens from a file: %+v, as a number: %+v", byFile, byNumber)
	}
	for _, mode := range []string{"reference", "flat", "kmeans"} {
		if m := decode[clusterResult](t, aerie(t, append(args, "--mode", mode)...).want(t, exitDone)); m.Clusters < 2 {
			t.Errorf("mode %s: %+v", mode, m)
		}
	}
	if table := aerie(t, "cluster", "v.npy").want(t, exitDone).stdout; !strings.Contains(table, "peak memory") || !strings.Contains(table, "largest / mean") {
		t.Errorf("the table is\n%s", table)
	}
}

func TestClusterRefused(t *testing.T) {
	fresh(t)
	writeVectors(t, "v.npy", 20, 4, 2)
	if err := writeFile("three.npy", func(w io.Writer) error { return npy.WriteInt32(w, 3, 0, []int32{1, 2, 3}) }); err != nil {
		t.Fatal(err)
	}
	if err := writeFile("nan.npy", func(w io.Writer) error {
		x := slices.Repeat([]float32{1}, 80)
		x[41] /= 0 * x[41] // infinity, at row 10
		return npy.Write(w, 20, 4, x)
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"cluster nowhere.npy", exitFailed, "nowhere.npy"},
		{"cluster v.npy --tokens 0", exitUsage, "--tokens is 0"},
		{"cluster v.npy --tokens many", exitUsage, `--tokens is "many"`},
		{"cluster v.npy --tokens three.npy", exitUsage, "3 counts"},
		{"cluster nan.npy", exitFailed, "row 10"},
		{"cluster v.npy --memory-limit 1KiB", exitFailed, "limit"},
	} {
		if r := aerie(t, strings.Fields(c.args)...).want(t, c.code); !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%s: stdout %q, stderr %q; want %q", c.args, r.stdout, r.stderr, c.want)
		}
	}
	// Too few rows for a level are no error.
	writeVectors(t, "one.npy", 1, 4, 1)
	r := decode[clusterResult](t, aerie(t, "cluster", "one.npy", "-o", "json").want(t, exitDone))
	if r.Clusters != 0 || r.Stopped == "" {
		t.Errorf("%+v", r)
	}
}
