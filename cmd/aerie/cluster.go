package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/npy"
)

// clusterOptions are the flags of aerie cluster that are no config keys.
type clusterOptions struct {
	tokens, out, stages string
}

// clusterResult is the JSON of aerie cluster.
type clusterResult struct {
	N           int     `json:"n"`
	D           int     `json:"d"`
	Clusters    int     `json:"clusters"`
	Memberships int     `json:"memberships"`
	MeanTokens  float64 `json:"mean_tokens"`
	Largest     int     `json:"largest_tokens"`
	// Recall is the share of the true nearest neighbors that were found: 1 up to some 100,000 rows, where all pairs are compared.
	Recall       float64        `json:"recall"`
	Stages       []clusterStage `json:"stages"`
	Seconds      float64        `json:"seconds"`
	PeakRSSBytes int64          `json:"peak_rss_bytes"`
	// Hash is that of all parts, Hashes has one for each: two runs agree bit for bit if these do.
	Hash    string            `json:"hash"`
	Hashes  map[string]string `json:"hashes"`
	Stopped string            `json:"stopped,omitempty"`
}

type clusterStage struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// PeakRSSBytes is the most memory that was resident during the stage; 0 where the system doesn't tell.
	PeakRSSBytes int64 `json:"peak_rss_bytes"`
}

func (c *cli) clusterCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:     "cluster VECTORS.npy",
		Short:   "Cluster any vectors as one level would be, without a corpus",
		Example: "  aerie cluster vectors.npy --tokens tokens.npy --out clusters.jsonl\n  aerie cluster vectors.npy --mode reference --seed 1 --output json",
		Long: "Clusters the rows of a .npy file (float16, float32 or float64) as one level of a tree, and prints the time and\n" +
			"memory of each stage and the table of sizes.",
		Args: one("one file, VECTORS.npy"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.cluster(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.tokens, "tokens", "100", "tokens of each row: a number for all, or a .npy file with a count for each")
	cmd.Flags().StringVar(&o.out, "out", "", "write one cluster a line to this .jsonl file")
	cmd.Flags().StringVar(&o.stages, "stages", "", "write knn_idx.npy, knn_dist.npy, layout.npy and global.npy to this folder")
	keyflag.Add(cmd.Flags(), c.flags, clusterKeys, clusterShown...)
	return cmd
}

func (c *cli) cluster(ctx context.Context, path string, o clusterOptions) error {
	if err := c.load(); err != nil {
		return err
	}
	file, err := npy.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, err := clusterInput(file, o.tokens)
	if err != nil {
		return err
	}
	cfg := wire.ClusteringConfig(c.cfg)
	meter := newMemoryMeter()
	cfg.Progress = meter.progress
	start := time.Now()
	found, err := clustering.Cluster(ctx, cfg, in)
	if err != nil {
		var short *clustering.MemoryError
		if errors.As(err, &short) {
			return failf(exitFailed, "give it more with --memory-limit, or fewer vectors", "%w", err)
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	meter.stop()
	result := summarizeClusters(found, in, meter)
	result.Seconds = time.Since(start).Seconds()
	if o.out != "" {
		if err := writeFile(o.out, func(w io.Writer) error { return writeClusters(w, found.Clusters, in.Tokens) }); err != nil {
			return err
		}
	}
	if o.stages != "" {
		if err := writeStages(o.stages, found, in.N); err != nil {
			return err
		}
	}
	return c.print(result, func(w io.Writer) { showClusters(w, result, found, in, cfg.MaxClusterTokens) })
}

// clusterInput reads the vectors, in place where the file holds float32, and the tokens.
func clusterInput(file *npy.File, tokens string) (clustering.Input, error) {
	in := clustering.Input{N: file.Len(), D: file.Width()}
	x, mapped := file.Float32()
	if !mapped {
		x = file.Rows(nil, 0, file.Len())
	}
	in.X = x
	if n, err := strconv.Atoi(tokens); err == nil {
		if n < 1 {
			return in, usagef("", "--tokens is %d; it must be at least 1, or a .npy file", n)
		}
		in.Tokens = slices.Repeat([]int{n}, in.N)
		return in, nil
	}
	counts, err := npy.ReadInts(tokens)
	if errors.Is(err, fs.ErrNotExist) {
		return in, usagef("", "--tokens is %q; it must be a number of at least 1, or a .npy file that is there", tokens)
	}
	if err != nil {
		return in, err
	}
	if len(counts) != in.N {
		return in, usagef("", "--tokens has %d counts in %s, but %s has %d rows; one for each row is needed",
			len(counts), tokens, file.Path(), in.N)
	}
	for i, n := range counts {
		if n < 0 {
			return in, usagef("", "--tokens has %d at index %d of %s; a count is 0 or more", n, i, tokens)
		}
	}
	in.Tokens = counts
	return in, nil
}

func tokensOf(rows, tokens []int) int {
	sum := 0
	for _, r := range rows {
		sum += tokens[r]
	}
	return sum
}

func summarizeClusters(found clustering.Result, in clustering.Input, meter *memoryMeter) clusterResult {
	r := clusterResult{
		N: in.N, D: in.D, Clusters: len(found.Clusters), Stages: []clusterStage{}, PeakRSSBytes: meter.peak(),
		Recall: found.Recall, Hashes: hashParts(found), Stopped: found.Stopped,
	}
	total := 0
	for _, rows := range found.Clusters {
		t := tokensOf(rows, in.Tokens)
		r.Memberships += len(rows)
		r.Largest = max(r.Largest, t)
		total += t
	}
	r.MeanTokens = float64(total) / float64(max(len(found.Clusters), 1))
	for _, s := range found.Stages {
		r.Stages = append(r.Stages, clusterStage{Name: s.Name, Seconds: s.Seconds, PeakRSSBytes: meter.of(s.Name)})
	}
	all := sha256.New()
	for _, part := range []string{"knn_idx", "knn_dist", "layout", "global", "clusters"} {
		fmt.Fprintln(all, part, r.Hashes[part])
	}
	r.Hash = hex.EncodeToString(all.Sum(nil))
	return r
}

// hashParts hashes each part of a result: little-endian 32-bit numbers, a cluster as its size and its rows.
func hashParts(found clustering.Result) map[string]string {
	hashes := map[string]string{}
	add := func(name string, fill func(put func(uint32))) {
		h := sha256.New()
		fill(func(v uint32) { putUint32(h, v) })
		hashes[name] = hex.EncodeToString(h.Sum(nil))
	}
	if found.KNN != nil {
		add("knn_idx", func(put func(uint32)) {
			for _, v := range found.KNN.Index {
				put(uint32(v))
			}
		})
		add("knn_dist", func(put func(uint32)) {
			for _, v := range found.KNN.Distance {
				put(math.Float32bits(v))
			}
		})
	}
	if found.Layout != nil {
		add("layout", func(put func(uint32)) {
			for _, v := range found.Layout {
				put(math.Float32bits(v))
			}
		})
	}
	if found.Global != nil {
		add("global", func(put func(uint32)) {
			for _, v := range found.Global {
				put(uint32(v))
			}
		})
	}
	add("clusters", func(put func(uint32)) {
		for _, rows := range found.Clusters {
			put(uint32(len(rows)))
			for _, r := range rows {
				put(uint32(r))
			}
		}
	})
	return hashes
}

func putUint32(h hash.Hash, v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	h.Write(b[:])
}

// writeClusters writes one cluster a line, in the order of the plan.
func writeClusters(w io.Writer, clusters [][]int, tokens []int) error {
	e := json.NewEncoder(w)
	for i, rows := range clusters {
		if err := e.Encode(struct {
			Cluster int   `json:"cluster"`
			Rows    []int `json:"rows"`
			Tokens  int   `json:"tokens"`
		}{i, rows, tokensOf(rows, tokens)}); err != nil {
			return err
		}
	}
	return nil
}

// writeStages leaves what the global stage found, for checks and plots. A level that needs no global stage has none.
func writeStages(folder string, found clustering.Result, n int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	write := func(name string, fill func(io.Writer) error) error {
		return writeFile(filepath.Join(folder, name), fill)
	}
	var errs []error
	if k := found.KNN; k != nil {
		errs = append(errs,
			write("knn_idx.npy", func(w io.Writer) error { return npy.WriteInt32(w, n, k.K, k.Index) }),
			write("knn_dist.npy", func(w io.Writer) error { return npy.Write(w, n, k.K, k.Distance) }))
	}
	if found.Layout != nil {
		errs = append(errs, write("layout.npy", func(w io.Writer) error { return npy.Write(w, n, found.LayoutDim, found.Layout) }))
	}
	if found.Global != nil {
		errs = append(errs, write("global.npy", func(w io.Writer) error { return npy.WriteInt32(w, n, 0, found.Global) }))
	}
	return errors.Join(errs...)
}

// writeFile writes a file in one piece or not at all.
func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	b := bufio.NewWriterSize(f, 1<<16)
	err = errors.Join(fill(b), b.Flush(), f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func showClusters(w io.Writer, r clusterResult, found clustering.Result, in clustering.Input, limit int) {
	rows := [][]string{{"stage", "seconds", "peak memory"}}
	for _, s := range r.Stages {
		rows = append(rows, []string{s.Name, fmt.Sprintf("%.2f", s.Seconds), megabytes(s.PeakRSSBytes)})
	}
	rows = append(rows, []string{"all", fmt.Sprintf("%.2f", r.Seconds), megabytes(r.PeakRSSBytes)})
	table(w, rows)
	fmt.Fprintln(w)
	if r.Clusters == 0 {
		fmt.Fprintf(w, "no clusters of %s: %s\n", plural(r.N, "row", "rows"), r.Stopped)
		return
	}
	sizes, tokens := make([]int, 0, r.Clusters), make([]int, 0, r.Clusters)
	for _, rows := range found.Clusters {
		sizes = append(sizes, len(rows))
		tokens = append(tokens, tokensOf(rows, in.Tokens))
	}
	table(w, [][]string{{"of a cluster", "mean", "smallest", "median", "largest", "largest / mean"}, spread("rows", sizes), spread("tokens", tokens)})
	fmt.Fprintln(w)
	table(w, histogram(sizes))
	fmt.Fprintln(w)
	pairs(w,
		"rows", fmt.Sprintf("%s x %d", count(r.N), r.D),
		"clusters", count(r.Clusters),
		"memberships", fmt.Sprintf("%s (%.1f %% more than rows)", count(r.Memberships), 100*float64(r.Memberships-r.N)/float64(r.N)),
		"fill", fmt.Sprintf("%.1f %% of %s tokens", 100*r.MeanTokens/float64(limit), count(limit)),
		"hash", r.Hash)
}

func spread(what string, v []int) []string {
	v = slices.Sorted(slices.Values(v))
	sum := 0
	for _, x := range v {
		sum += x
	}
	mean := float64(sum) / float64(len(v))
	return []string{what, fmt.Sprintf("%.2f", mean), count(v[0]), count(v[len(v)/2]), count(v[len(v)-1]),
		fmt.Sprintf("%.2f", float64(v[len(v)-1])/max(mean, 1e-9))}
}

// histogram counts clusters by size in powers of two.
func histogram(sizes []int) [][]string {
	var buckets []int
	most := 0
	for _, s := range sizes {
		b := 0
		for 1<<(b+1) <= s {
			b++
		}
		for len(buckets) <= b {
			buckets = append(buckets, 0)
		}
		buckets[b]++
		most = max(most, buckets[b])
	}
	rows := [][]string{{"rows", "clusters", ""}}
	for b, n := range buckets {
		span := strconv.Itoa(1 << b)
		if b > 0 {
			span += "-" + strconv.Itoa(1<<(b+1)-1)
		}
		bar := strings.Repeat("█", (n*40+most-1)/most)
		rows = append(rows, []string{span, count(n), bar})
	}
	return rows
}

func megabytes(b int64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%s MB", count(b/1_000_000))
}
