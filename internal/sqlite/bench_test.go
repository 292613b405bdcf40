package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

const benchWidth = 384

// drawLeaves returns n leaves of about 100 words, whose frequencies follow Zipf's law, with random vectors.
func drawLeaves(n int, seed uint64) []tree.Node {
	r := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(r, 1.07, 4, 50_000)
	nodes := make([]tree.Node, n)
	for i := range nodes {
		var text strings.Builder
		for range 75 { // about 100 tokens
			fmt.Fprintf(&text, "%s ", benchWord(zipf.Uint64()))
		}
		document := fmt.Sprintf("document-%d", i/50)
		nodes[i] = tree.Node{
			ID: tree.LeafID("bench", document, i%50, text.String()), DocumentID: document, ChunkIndex: i % 50,
			Text: text.String(), Tokens: 100, NLeaves: 1, Died: tree.Alive, Vector: drawVector(r),
		}
	}
	return nodes
}

func benchWord(n uint64) string {
	var b []byte
	for ; ; n /= 21 {
		b = append(b, "bcdfghjklmnpqrstvwxyz"[n%21], "aeiou"[n%5])
		if n < 21 {
			return string(b)
		}
	}
}

func drawVector(r *rand.Rand) []float32 {
	v := make([]float32, benchWidth)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return unit(v)
}

func putAll(t testing.TB, st store.Store, nodes []tree.Node, batch int) {
	t.Helper()
	for len(nodes) > 0 {
		n := min(batch, len(nodes))
		if err := st.Put(context.Background(), "bench", nodes[:n]); err != nil {
			t.Fatal(err)
		}
		nodes = nodes[n:]
	}
}

// cpu reports, beside the time on the clock, the time on cores, which says more on a machine that is shared.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Microseconds())/float64(b.N)/1000, "cpu-ms/op") }
}

func BenchmarkPut(b *testing.B) {
	nodes := drawLeaves(10_000, 1)
	defer cpu(b)()
	for b.Loop() {
		b.StopTimer()
		db := open(b, b.TempDir(), Config{})
		b.StartTimer()
		putAll(b, db.Store(), nodes, 500)
	}
	b.ReportMetric(float64(len(nodes)*b.N)/b.Elapsed().Seconds(), "leaves/s")
}

func BenchmarkPutAgain(b *testing.B) {
	nodes := drawLeaves(10_000, 1)
	db := open(b, b.TempDir(), Config{})
	putAll(b, db.Store(), nodes, 500)
	defer cpu(b)()
	for b.Loop() {
		putAll(b, db.Store(), nodes, 500)
	}
	b.ReportMetric(float64(len(nodes)*b.N)/b.Elapsed().Seconds(), "leaves/s")
}

func BenchmarkDelete(b *testing.B) {
	nodes := drawLeaves(10_000, 1)
	var ids []tree.ID
	for _, n := range nodes[:5000] {
		ids = append(ids, n.ID)
	}
	defer cpu(b)()
	for b.Loop() {
		b.StopTimer()
		db := open(b, b.TempDir(), Config{})
		putAll(b, db.Store(), nodes, 500)
		b.StartTimer()
		if err := db.Store().Delete(context.Background(), "bench", ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(ids)*b.N)/b.Elapsed().Seconds(), "leaves/s")
}

// BenchmarkFirstSearch opens a home of 10,000 leaves, answers one query and closes it, as a command does.
func BenchmarkFirstSearch(b *testing.B) {
	home := b.TempDir()
	db, err := Open(home, Config{})
	if err != nil {
		b.Fatal(err)
	}
	putAll(b, db.Store(), drawLeaves(10_000, 1), 500)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	query := drawVector(rand.New(rand.NewPCG(2, 2)))
	defer cpu(b)()
	for b.Loop() {
		db, err := Open(home, Config{})
		if err != nil {
			b.Fatal(err)
		}
		hits, err := db.Store().Search(context.Background(), "bench", store.Query{Vector: query, Limit: 150, Filter: store.AnyLevel().VisibleAt(1), With: store.Fields{Text: true}})
		if err != nil || len(hits) != 150 {
			b.Fatal(len(hits), err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchHome returns a store of n leaves, kept between benchmarks when AERIE_BENCH_HOME names a folder.
func benchHome(b *testing.B, n int) store.Store {
	home := b.TempDir()
	if dir := os.Getenv("AERIE_BENCH_HOME"); dir != "" {
		home = filepath.Join(dir, fmt.Sprint(n))
	}
	db := open(b, home, Config{})
	have, err := db.Store().Count(context.Background(), "bench", store.AnyLevel())
	if err != nil {
		b.Fatal(err)
	}
	for ; have < n; have += 10_000 {
		putAll(b, db.Store(), drawLeaves(min(n-have, 10_000), uint64(have+1)), 500)
	}
	return db.Store()
}

// benchSizes are the numbers of leaves to measure with: 10,000 and 50,000, or those that AERIE_BENCH_LEAVES lists.
func benchSizes(b *testing.B) []int {
	list := os.Getenv("AERIE_BENCH_LEAVES")
	if list == "" {
		return []int{10_000, 50_000}
	}
	var sizes []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range benchSizes(b) {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st := benchHome(b, n)
			r := rand.New(rand.NewPCG(2, 2))
			q := store.Query{Vector: drawVector(r), Limit: 150, Filter: store.AnyLevel().VisibleAt(1), With: store.Fields{Text: true, Vector: false}}
			search := func() {
				if _, err := st.Search(context.Background(), "bench", q); err != nil {
					b.Fatal(err)
				}
			}
			search()
			defer cpu(b)()
			for b.Loop() {
				search()
			}
		})
	}
}

func BenchmarkKeyword(b *testing.B) {
	sizes := benchSizes(b)
	st := benchHome(b, sizes[len(sizes)-1])
	for name, text := range map[string]string{
		"rare":   benchWord(20_000),
		"common": benchWord(0) + " " + benchWord(3),
		"mixed":  fmt.Sprint(benchWord(0), " ", benchWord(700), " ", benchWord(1), " ", benchWord(9_000), " ", benchWord(40), " ", benchWord(2)),
	} {
		b.Run(name, func(b *testing.B) {
			q := store.Query{Text: text, Limit: 150, Filter: store.AnyLevel().VisibleAt(1), With: store.Fields{Text: true}}
			defer cpu(b)()
			for b.Loop() {
				if _, err := st.Keyword(context.Background(), "bench", q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEach(b *testing.B) {
	st := benchHome(b, 50_000)
	defer cpu(b)()
	for b.Loop() {
		err := st.Each(context.Background(), "bench", store.Leaves(), store.Fields{Vector: true}, func(*tree.Node) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	st := benchHome(b, 50_000)
	defer cpu(b)()
	for b.Loop() {
		if _, err := st.Count(context.Background(), "bench", store.Leaves().VisibleAt(1)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	st := benchHome(b, 50_000)
	nodes := drawLeaves(10_000, 1)
	i := 0
	defer cpu(b)()
	for b.Loop() {
		if _, err := st.Get(context.Background(), "bench", []tree.ID{nodes[i%len(nodes)].ID}, store.Fields{Text: true}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkMark(b *testing.B) {
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			bar := open(b, b.TempDir(), Config{}).Barrier()
			level := tree.Level{Corpus: "c", Build: "b", Level: 1}
			if err := bar.Open(context.Background(), level, "d", 10_000); err != nil {
				b.Fatal(err)
			}
			next := 0
			defer cpu(b)()
			for b.Loop() {
				var wg sync.WaitGroup
				for range callers {
					next = (next + 1) % 10_000
					position := next
					wg.Go(func() {
						if _, err := bar.Mark(context.Background(), level, "d", levels.Mark{Position: position, Outcome: levels.Done}); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(callers*b.N)/b.Elapsed().Seconds(), "marks/s")
		})
	}
}
