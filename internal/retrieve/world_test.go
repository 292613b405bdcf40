package retrieve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	corpusName = "c"
	width      = 8
)

// world is a corpus in memory with everything a retriever needs.
type world struct {
	nodes   *storetest.Memory
	corpora *records
	all     []tree.Node // as they were put
	record  levels.Corpus
}

// records is levels.Corpora over a map.
type records struct {
	levels.Corpora
	all map[string]levels.Corpus
	// loaded, if not nil, is called before each Load.
	loaded func()
}

func (r *records) Load(_ context.Context, name string) (*levels.Corpus, error) {
	if r.loaded != nil {
		r.loaded()
	}
	c, ok := r.all[name]
	if !ok {
		return nil, fmt.Errorf("records: %s: %w", name, levels.ErrNotFound)
	}
	return &c, nil
}

func (r *records) List(context.Context) ([]string, error) {
	var names []string
	for name := range r.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// embedder gives every query the same vector.
type embedder struct {
	name   string
	vector []float32
}

func (e embedder) Name() string { return e.name }

func (e embedder) Embed(context.Context, []string) ([][]float32, error) { panic("not asked for") }

func (e embedder) EmbedQuery(context.Context, string) ([]float32, error) { return e.vector, nil }

var testEmbedder = embedder{name: "test", vector: axis(0)}

// axis returns a unit vector along one axis.
func axis(i int) []float32 {
	v := make([]float32, width)
	v[i] = 1
	return v
}

// at returns a unit vector whose cosine with axis(0) is c.
func at(c float64) []float32 {
	v := make([]float32, width)
	v[0], v[1] = float32(c), float32(math.Sqrt(1-c*c))
	return v
}

func newWorld(t *testing.T, record levels.Corpus, nodes ...tree.Node) *world {
	t.Helper()
	record.Name, record.Embedder, record.Width = corpusName, testEmbedder.name, width
	w := &world{nodes: storetest.NewMemory(), all: nodes, record: record}
	w.corpora = &records{all: map[string]levels.Corpus{corpusName: record}}
	if err := w.nodes.Put(t.Context(), corpusName, nodes); err != nil {
		t.Fatal(err)
	}
	return w
}

// built is the record of a corpus whose published tree nothing has changed since.
func built(scope tree.Scope, keepLeaves bool) levels.Corpus {
	return levels.Corpus{
		Generation: 1, Changes: 7, Baseline: &levels.Baseline{Changes: 7},
		Settings: &levels.Settings{Scope: scope, KeepLeaves: keepLeaves},
	}
}

func (w *world) retriever() *Retriever { return New(Config{}, w.nodes, w.corpora, testEmbedder) }

func (w *world) retrieve(t *testing.T, req Request) Result {
	t.Helper()
	result, err := w.retriever().Retrieve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// leaf makes a leaf; one word is one token.
func leaf(document string, index int, text string, vector []float32) tree.Node {
	return tree.Node{
		ID: tree.LeafID(corpusName, document, index, text), DocumentID: document, ChunkIndex: index, Text: text,
		Tokens: len(strings.Fields(text)), NLeaves: 1, Died: tree.Alive, Vector: vector,
	}
}

// summary makes a summary of a corpus tree.
func summary(text string, vector []float32, children ...tree.Node) tree.Node {
	n := tree.Node{
		Level: children[0].Level + 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus, Text: text,
		Tokens: len(strings.Fields(text)), Born: 1, Died: tree.Alive, Vector: vector,
	}
	for _, c := range children {
		n.Children = append(n.Children, c.ID)
		n.NLeaves += c.NLeaves
	}
	slices.SortFunc(n.Children, tree.ID.Compare)
	n.ID = tree.SummaryID(corpusName, n.DocumentID, n.Level, "recipe", n.Children)
	return n
}

// randomWorld makes a soft tree of about n leaves in several documents, some with metadata.
func randomWorld(t *testing.T, seed uint64, n int) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	vector := func() []float32 {
		v := make([]float32, width)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		v[0] += 1.5 // so that most of them look toward the query
		u, err := unit(v)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	text := func() string {
		var words []string
		for range 1 + random.IntN(30) {
			words = append(words, fmt.Sprintf("w%d", int(random.ExpFloat64()*12)))
		}
		return strings.Join(words, " ")
	}
	var all []tree.Node
	for i := range n {
		l := leaf(fmt.Sprintf("d%d", i/3%4), i, text(), vector()) // neighbors now and then
		if i%3 == 0 {
			l.Metadata = map[string]any{"kind": "x"}
		}
		all = append(all, l)
	}
	for below := all; len(below) > 3; {
		var level []tree.Node
		for start := 0; start < len(below); start += 4 {
			children := slices.Clone(below[start:min(start+4, len(below))])
			if other := below[random.IntN(len(below))]; !slices.ContainsFunc(children, func(c tree.Node) bool { return c.ID == other.ID }) {
				children = append(children, other) // a second parent
			}
			level = append(level, summary(text(), vector(), children...))
		}
		all = append(all, level...)
		below = level
	}
	dropped := summary("w0 w1", axis(0), all[0], all[1], all[2])
	dropped.Born, dropped.Died = 0, 1
	next := summary("w0 w2", axis(0), all[3], all[4])
	next.Born = 2
	return newWorld(t, built(tree.ScopeCorpus, true), append(all, dropped, next)...)
}

func found(hits []Hit) []tree.ID {
	out := []tree.ID{}
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

func ptr(i int) *int { return &i }

// visible returns the nodes of a world that a filter selects.
func (w *world) visible(f store.Filter) []tree.Node {
	f = f.VisibleAt(w.record.Generation)
	var out []tree.Node
	for _, n := range w.all {
		if f.Selects(&n) {
			out = append(out, n)
		}
	}
	return out
}
