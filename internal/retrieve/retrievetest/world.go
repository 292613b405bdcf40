// Package retrievetest holds the suite that the retriever must pass over any node store: every mode against an answer by brute
// force, and what must never be returned. It also has the small corpora that the suite asks.
package retrievetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Width is that of the vectors of all worlds.
const Width = 8

// World is a corpus with all that a retriever needs.
type World struct {
	Store   store.Store
	Corpora *Records
	Nodes   []tree.Node // as they were put
	Record  levels.Corpus
}

// Records is levels.Corpora over a map; what queries don't need is not there.
type Records struct {
	levels.Corpora
	All map[string]levels.Corpus
	// Loaded, if not nil, is called before each Load.
	Loaded func()
}

// Load implements [levels.Corpora].
func (r *Records) Load(_ context.Context, name string) (*levels.Corpus, error) {
	if r.Loaded != nil {
		r.Loaded()
	}
	c, ok := r.All[name]
	if !ok {
		return nil, fmt.Errorf("records: %s: %w", name, levels.ErrNotFound)
	}
	return &c, nil
}

// List implements [levels.Corpora].
func (r *Records) List(context.Context) ([]string, error) {
	var names []string
	for name := range r.All {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Embedder gives every query the same vector.
type Embedder struct {
	Model  string
	Vector []float32
}

// Name implements llm.Embedder.
func (e Embedder) Name() string { return e.Model }

// Embed implements llm.Embedder, and panics: queries embed no passages.
func (e Embedder) Embed(context.Context, []string) ([][]float32, error) { panic("not asked for") }

// EmbedQuery implements llm.Embedder.
func (e Embedder) EmbedQuery(context.Context, string) ([]float32, error) { return e.Vector, nil }

// OneVector is the embedder of all worlds: every query is Axis(0).
var OneVector = Embedder{Model: "test", Vector: Axis(0)}

// Axis returns a unit vector along one axis.
func Axis(i int) []float32 {
	v := make([]float32, Width)
	v[i] = 1
	return v
}

// At returns a unit vector whose cosine with Axis(0) is c.
func At(c float64) []float32 {
	v := make([]float32, Width)
	v[0], v[1] = float32(c), float32(math.Sqrt(1-c*c))
	return v
}

// New puts nodes into a corpus of a store that has the record's name.
func New(t testing.TB, st store.Store, record levels.Corpus, nodes ...tree.Node) *World {
	t.Helper()
	record.Embedder, record.Width = OneVector.Model, Width
	w := &World{Store: st, Nodes: nodes, Record: record, Corpora: &Records{All: map[string]levels.Corpus{record.Name: record}}}
	if err := st.Put(t.Context(), record.Name, nodes); err != nil {
		t.Fatal(err)
	}
	return w
}

// Built is the record of a corpus whose published tree nothing has changed since.
func Built(corpus string, scope tree.Scope, keepLeaves bool) levels.Corpus {
	return levels.Corpus{
		Name: corpus, Generation: 1, Changes: 7, Baseline: &levels.Baseline{Changes: 7},
		Settings: &levels.Settings{Scope: scope, KeepLeaves: keepLeaves},
	}
}

// Changed counts a change of leaves since the build.
func (w *World) Changed() {
	w.Record.Changes++
	w.Corpora.All[w.Record.Name] = w.Record
}

// Retriever returns one that remembers nothing yet.
func (w *World) Retriever() *retrieve.Retriever {
	return retrieve.New(retrieve.Config{}, w.Store, w.Corpora, OneVector)
}

// Request is the default one to the world's corpus.
func (w *World) Request(query string) retrieve.Request {
	return retrieve.Request{Corpus: w.Record.Name, Query: query}
}

// Retrieve answers a request by a new retriever.
func (w *World) Retrieve(t testing.TB, req retrieve.Request) retrieve.Result {
	t.Helper()
	result, err := w.Retriever().Retrieve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Visible returns the nodes of the world that a filter selects.
func (w *World) Visible(f store.Filter) []tree.Node {
	f = f.VisibleAt(w.Record.Generation)
	var out []tree.Node
	for _, n := range w.Nodes {
		if f.Selects(&n) {
			out = append(out, n)
		}
	}
	return out
}

// Leaf makes a leaf; one word is one token.
func Leaf(document string, index int, text string, vector []float32) tree.Node {
	return tree.Node{
		ID: tree.LeafID("c", document, index, text), DocumentID: document, ChunkIndex: index, Text: text,
		Tokens: len(strings.Fields(text)), NLeaves: 1, Died: tree.Alive, Vector: vector,
	}
}

// Summary makes a summary of a corpus tree.
func Summary(text string, vector []float32, children ...tree.Node) tree.Node {
	n := tree.Node{
		Level: children[0].Level + 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus, Text: text,
		Tokens: len(strings.Fields(text)), Born: 1, Died: tree.Alive, Vector: vector,
	}
	for _, c := range children {
		n.Children = append(n.Children, c.ID)
		n.NLeaves += c.NLeaves
	}
	slices.SortFunc(n.Children, tree.ID.Compare)
	n.ID = tree.SummaryID("c", n.DocumentID, n.Level, "recipe", n.Children)
	return n
}

// Random makes a soft tree of about n leaves in several documents, some with metadata.
func Random(t testing.TB, st store.Store, corpus string, seed uint64, n int) *World {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	vector := func() []float32 {
		v := make([]float32, Width)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		v[0] += 1.5 // so that most of them look toward the query
		return unit(v)
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
		l := Leaf(fmt.Sprintf("d%d", i/3%4), i, text(), vector()) // neighbors now and then
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
			level = append(level, Summary(text(), vector(), children...))
		}
		all = append(all, level...)
		below = level
	}
	dropped := Summary("w0 w1", Axis(0), all[0], all[1], all[2])
	dropped.Born, dropped.Died = 0, 1
	next := Summary("w0 w2", Axis(0), all[3], all[4])
	next.Born = 2
	return New(t, st, Built(corpus, tree.ScopeCorpus, true), append(all, dropped, next)...)
}

func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}

// Found returns the ids of hits, in order.
func Found(hits []retrieve.Hit) []tree.ID {
	out := []tree.ID{}
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}
