package retrieve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// BenchmarkRetrieve measures whole queries of a home on disk: both searches, reading of texts, packing and
// provenance, all but the query's embedding. AERIE_BENCH_NODES lists how many nodes the homes have (50000), and
// AERIE_BENCH_HOME a folder that keeps them, since one of a million takes minutes to make:
//
//	AERIE_BENCH_NODES=50000,1000000 AERIE_BENCH_HOME=/var/tmp/aerie go test -run '^$' -bench Retrieve -benchtime 200x -timeout 30m ./internal/retrieve
//
// It reports the median and the 95th percentile, and the memory of the process beside the mapped file of vectors. Homes are
// made by a process of their own, since what that takes would be counted too.
func BenchmarkRetrieve(b *testing.B) {
	list := os.Getenv("AERIE_BENCH_NODES")
	if list == "" {
		list = "50000"
	}
	for size := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatal(err)
		}
		home := filepath.Join(b.TempDir(), size)
		if dir := os.Getenv("AERIE_BENCH_HOME"); dir != "" {
			home = filepath.Join(dir, size)
		}
		growing := exec.Command(os.Args[0])
		growing.Env = append(os.Environ(), growHome+"="+home, "AERIE_BENCH_NODES="+size)
		if out, err := growing.CombinedOutput(); err != nil {
			b.Fatalf("making a home: %v\n%s", err, out)
		}
		db, err := sqlite.Open(home, sqlite.Config{})
		if err != nil {
			b.Fatal(err)
		}
		retriever := retrieve.New(retrieve.Config{}, db.Store(), db.Corpora(), llm.Lexical{})
		for _, kind := range []struct {
			name   string
			change func(*retrieve.Request)
		}{
			{"default", func(*retrieve.Request) {}},
			{"vectors", func(r *retrieve.Request) { r.Alpha = new(1.0) }},
			{"vectors-similarity", func(r *retrieve.Request) { r.Alpha, r.Pack = new(1.0), new(retrieve.Similarity) }},
			{"keywords", func(r *retrieve.Request) { r.Alpha = new(0.0) }},
		} {
			b.Run(size+"/"+kind.name, func(b *testing.B) { ask(b, retriever, n, kind.change) })
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// ask sends questions of several words about one subject each, every time another one.
func ask(b *testing.B, retriever *retrieve.Retriever, n int, change func(*retrieve.Request)) {
	debug.FreeOSMemory()
	one := func(i int) time.Duration {
		words, vector := question(n, i)
		req := retrieve.Request{Corpus: benchCorpus, Query: words, Vector: vector}
		change(&req)
		start := time.Now()
		result, err := retriever.Retrieve(b.Context(), req)
		if err != nil || result.Tokens < *retrieve.Defaults().Budget*9/10 {
			b.Fatal(result.Tokens, err)
		}
		return time.Since(start)
	}
	for i := range 5 {
		one(-1 - i)
	}
	var took []time.Duration
	for b.Loop() {
		took = append(took, one(len(took)))
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[max(0, int(math.Ceil(q*float64(len(took))))-1)]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(.50), "p50-ms")
	b.ReportMetric(at(.95), "p95-ms")
	b.ReportMetric(float64(besideVectors(b))/1e6, "MB-beside-vectors")
}

// besideVectors returns the bytes of memory that the process has at hand, less those of files of vectors.
func besideVectors(b *testing.B) int64 {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		b.Fatal("memory is measured on Linux alone: ", err)
	}
	sum, vectors := int64(0), false
	for line := range strings.SplitSeq(string(smaps), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"): // the head of a mapping
			vectors = strings.Contains(line, "/vectors-")
		case len(fields) == 3 && fields[0] == "Rss:" && !vectors:
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += kB << 10
		}
	}
	return sum
}

const (
	benchCorpus = "bench"
	benchWidth  = 384
	// perSubject is how many leaves speak of one subject; they stand in one run of them, mostly in one document.
	perSubject = 40
	fanOut     = 10 // children of a summary
)

// growHome names the home that this process is to make, and nothing else; see BenchmarkRetrieve.
const growHome = "AERIE_BENCH_GROW"

func TestMain(m *testing.M) {
	home := os.Getenv(growHome)
	if home == "" {
		goleak.VerifyTestMain(m)
		return
	}
	n, err := strconv.Atoi(os.Getenv("AERIE_BENCH_NODES"))
	if err == nil {
		err = grow(home, n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// grow makes a home of n nodes unless it is there: leaves of 75 words, about 100 tokens, in documents of 50, and a
// tree of ten children each above them. Words follow Zipf's law over a vocabulary of 50,000, as those of English texts
// do, but a quarter of a leaf's come from thirty words of its subject. A leaf's vector is 0.6 of its subject's and 0.8 of noise, a
// summary's the mean of its children's; its text is a sample of theirs. Everything follows from the places of nodes.
func grow(home string, n int) (err error) {
	ctx := context.Background()
	db, err := sqlite.Open(home, sqlite.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if record, err := db.Corpora().Load(ctx, benchCorpus); err == nil && record.Generation == 1 {
		return nil
	}
	g := grower{st: db.Store()}
	leaves := n * (fanOut - 1) / fanOut
	for i := range leaves {
		if err := g.add(g.leaf(i)); err != nil {
			return err
		}
	}
	if err := g.flush(); err != nil {
		return err
	}
	return db.Corpora().Update(ctx, benchCorpus, func(c *levels.Corpus) error {
		c.Embedder, c.Width, c.Generation, c.Changes = llm.LexicalName, benchWidth, 1, 1
		c.Baseline = &levels.Baseline{Leaves: leaves, Changes: 1}
		c.Settings = &levels.Settings{Scope: tree.ScopeCorpus, KeepLeaves: true}
		return nil
	})
}

// grower puts nodes, a summary as soon as its children are there.
type grower struct {
	st    store.Store
	open  [][]tree.Node // of each level, the nodes without a parent
	batch []tree.Node
}

func (g *grower) leaf(i int) tree.Node {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	text := words(random, i/perSubject, 75, 0.25)
	document := fmt.Sprintf("document-%d", i/50)
	return tree.Node{
		ID: tree.LeafID(benchCorpus, document, i%50, text), DocumentID: document, ChunkIndex: i % 50, Text: text,
		Tokens: 100, NLeaves: 1, Died: tree.Alive, Vector: about(random, i/perSubject),
	}
}

func (g *grower) add(n tree.Node) error {
	if g.batch = append(g.batch, n); len(g.batch) == 1000 {
		if err := g.flush(); err != nil {
			return err
		}
	}
	for len(g.open) <= n.Level {
		g.open = append(g.open, nil)
	}
	g.open[n.Level] = append(g.open[n.Level], n)
	if children := g.open[n.Level]; len(children) == fanOut {
		g.open[n.Level] = nil
		return g.add(summaryOf(children))
	}
	return nil
}

func (g *grower) flush() error {
	err := g.st.Put(context.Background(), benchCorpus, g.batch)
	g.batch = g.batch[:0]
	return err
}

func summaryOf(children []tree.Node) tree.Node {
	n := tree.Node{
		Level: children[0].Level + 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus, Tokens: 110,
		Recipe: "bench", Born: 1, Died: tree.Alive, Vector: make([]float32, benchWidth),
	}
	var text []string
	for i, c := range children {
		n.Children = append(n.Children, c.ID)
		n.NLeaves += c.NLeaves
		of := strings.Fields(c.Text)
		text = append(text, of[i:min(len(of), i+8)]...)
		for j, x := range c.Vector {
			n.Vector[j] += x / fanOut
		}
	}
	n.Text = strings.Join(text, " ")
	slices.SortFunc(n.Children, tree.ID.Compare)
	n.ID = tree.SummaryID(benchCorpus, n.DocumentID, n.Level, n.Recipe, n.Children)
	return n
}

// question is the i-th of a corpus of n nodes: eleven words, four of them of a subject that the corpus has.
func question(n, i int) (text string, vector []float32) {
	random := rand.New(rand.NewPCG(uint64(i+1000), 2))
	subject := random.IntN(n * (fanOut - 1) / fanOut / perSubject)
	return words(random, subject, 7, 0) + " " + words(random, subject, 4, 1), about(random, subject)
}

// words draws words, a share of them from those of a subject.
func words(random *rand.Rand, subject, n int, share float64) string {
	zipf := rand.NewZipf(random, 1.07, 4, 50_000)
	all := make([]string, n)
	for i := range all {
		rank := zipf.Uint64()
		if random.Float64() < share {
			own := rand.New(rand.NewPCG(uint64(subject), uint64(3+random.IntN(30))))
			rank = 500 + own.Uint64N(49_500)
		}
		all[i] = word(rank)
	}
	return strings.Join(all, " ")
}

// word spells a rank.
func word(rank uint64) string {
	var b []byte
	for ; ; rank /= 21 {
		b = append(b, "bcdfghjklmnpqrstvwxyz"[rank%21], "aeiou"[rank%5])
		if rank < 21 {
			return string(b)
		}
	}
}

// about draws a vector of unit length near that of a subject.
func about(random *rand.Rand, subject int) []float32 {
	center, noise := direction(rand.New(rand.NewPCG(uint64(subject), 4))), direction(random)
	v := make([]float32, benchWidth)
	for i := range v {
		v[i] = 0.6*center[i] + 0.8*noise[i]
	}
	return v
}

func direction(random *rand.Rand) []float32 {
	v, sum := make([]float32, benchWidth), 0.0
	for i := range v {
		x := random.NormFloat64()
		v[i] = float32(x)
		sum += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}
