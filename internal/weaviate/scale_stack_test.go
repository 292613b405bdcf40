//go:build stack

package weaviate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
	"github.com/aerie-rag/aerie/internal/weaviate/weaviatetest"
)

// many returns leaves with random vectors of a width, of documents of 100 leaves each.
func many(n, width int) []tree.Node {
	random := rand.New(rand.NewPCG(5, uint64(n)))
	nodes := make([]tree.Node, n)
	for i := range nodes {
		nodes[i] = leaf(fmt.Sprintf("doc-%04d", i/100), i%100, fmt.Sprintf("leaf number %d of the corpus", i))
		nodes[i].Vector = make([]float32, width)
		for j := range nodes[i].Vector {
			nodes[i].Vector[j] = float32(random.NormFloat64())
		}
	}
	return nodes
}

// The server returns 10,000 objects to a search, and deletes 10,000 at a time.
func TestMoreThanTheServerReturnsAtOnce(t *testing.T) {
	const total = 11_000
	for name, cfg := range map[string]weaviate.Config{
		"in memory": {},
		"on disk":   {SpoolBytes: 1, SpoolDir: t.TempDir(), BatchBytes: 256 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, cfg)
			corpus := "many-" + name
			nodes := many(total, 8)
			put(t, s, corpus, nodes...)
			same(t, "count", count(t, s, corpus, store.AnyLevel()), total)
			same(t, "count of a filter", count(t, s, corpus, store.Leaves().VisibleAt(3)), total)
			same(t, "nodes", each(t, s, corpus, store.Leaves().VisibleAt(0)), nodes)
			same(t, "nodes of a document", each(t, s, corpus, store.AnyLevel().OfDocument("doc-0042")), nodes[4200:4300])
			documents := 0
			err := s.Documents(t.Context(), corpus, "doc-00", func(d store.Document) error {
				documents++
				if d.Leaves != 100 {
					return fmt.Errorf("document %s has %d leaves", d.ID, d.Leaves)
				}
				return nil
			})
			if err != nil || documents != 100 {
				t.Errorf("%d documents, %v; want 100", documents, err)
			}
			var ids []tree.ID
			for _, n := range nodes {
				ids = append(ids, n.ID)
			}
			got, err := s.Get(t.Context(), corpus, ids, allFields)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "Get", got, nodes)
			if err := s.Delete(t.Context(), corpus, ids[1:]); err != nil {
				t.Fatal(err)
			}
			same(t, "what is left", each(t, s, corpus, store.AnyLevel()), nodes[:1])
		})
	}
}

func TestLimitsAboveTheServersAreRefused(t *testing.T) {
	s := connect(t, weaviate.Config{})
	put(t, s, "limits", leaf("d", 0, "a"))
	_, searchErr := s.Search(t.Context(), "limits", store.Query{Vector: []float32{1, 0, 0, 0}, Limit: 10_001})
	_, keywordErr := s.Keyword(t.Context(), "limits", store.Query{Text: "a", Limit: 10_001})
	for what, err := range map[string]error{"Search": searchErr, "Keyword": keywordErr} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "10000") {
			t.Errorf("%s with limit 10,001: %v, want ErrInvalid with the highest", what, err)
		}
	}
}

// Vectors of 3,072 values: gRPC's own limit of 4 MiB would be passed by 350 nodes.
func TestMessagesAboveFourMegabytes(t *testing.T) {
	s := connect(t, weaviate.Config{BatchBytes: 32 << 20})
	nodes := many(800, 3072)
	put(t, s, "messages", nodes...)
	same(t, "nodes", each(t, s, "messages", store.AnyLevel()), nodes)
}

// HKUDS/LightRAG#198 and its like, in the form that several processes have: the first node decides the width, whoever puts it.
func TestWidthsOfSeveralProcesses(t *testing.T) {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		s := connect(t, weaviate.Config{})
		n := leaf("d", i, fmt.Sprint("leaf ", i))
		if i%2 == 1 {
			n.Vector = append(n.Vector, 0)
		}
		wg.Go(func() { errs[i] = s.Put(t.Context(), "widths", []tree.Node{n}) })
	}
	wg.Wait()
	failed := 0
	for i, err := range errs {
		switch {
		case errors.Is(err, store.ErrWidth):
			failed++
			if (errs[0] == nil) == (i%2 == 0) {
				t.Errorf("%d was refused, though its width is the corpus's", i)
			}
		case err != nil:
			t.Error(err)
		}
	}
	if failed != 4 {
		t.Errorf("%d of 8 puts were refused for their width, want 4: %v", failed, errs)
	}
	s := connect(t, weaviate.Config{})
	same(t, "nodes", len(each(t, s, "widths", store.AnyLevel())), 4)
}

// What one process drops and begins anew, with another width and other metadata, another process goes on with.
func TestCorpusIsBegunAnewByAnother(t *testing.T) {
	a, b := connect(t, weaviate.Config{}), connect(t, weaviate.Config{})
	old := leaf("d", 0, "old")
	old.Metadata = map[string]any{"k": "v"}
	put(t, a, "anew", old)
	same(t, "b sees it", each(t, b, "anew", store.AnyLevel()), []tree.Node{old})
	if err := a.Drop(t.Context(), "anew"); err != nil {
		t.Fatal(err)
	}
	n := leaf("d", 0, "新しい text")
	n.Vector, n.Metadata = []float32{0, 1}, map[string]any{"k": 2.0}
	put(t, a, "anew", n)
	hits, err := b.Search(t.Context(), "anew", store.Query{Vector: []float32{0, 1}, Limit: 5, Filter: store.AnyLevel()})
	if err != nil || len(hits) != 1 {
		t.Errorf("Search by b: %v, %v", hits, err)
	}
	m := leaf("d", 1, "text 新しい")
	m.Vector, m.Metadata = []float32{1, 0}, map[string]any{"other": true}
	put(t, b, "anew", m)
	same(t, "b", each(t, b, "anew", store.AnyLevel()), []tree.Node{n, m})
	f := store.AnyLevel()
	f.Metadata = map[string]any{"other": true}
	same(t, "a by metadata of b's", each(t, a, "anew", f), []tree.Node{m})
	found, err := a.Keyword(t.Context(), "anew", store.Query{Text: "新しい", Limit: 5, Filter: store.AnyLevel()})
	if err != nil || len(found) != 2 {
		t.Errorf("Keyword by a: %v, %v", found, err)
	}
}

// One key, put with values of two types by several processes at once.
func TestTypesOfOneKeyFromSeveralProcesses(t *testing.T) {
	var wg sync.WaitGroup
	nodes := make([]tree.Node, 8)
	errs := make([]error, len(nodes))
	for i := range nodes {
		s := connect(t, weaviate.Config{})
		nodes[i] = leaf("d", i, fmt.Sprint("leaf ", i))
		nodes[i].Metadata = map[string]any{"page": any("iv")}
		if i%2 == 1 {
			nodes[i].Metadata = map[string]any{"page": 4.0, "Page": "capital"}
		}
		wg.Go(func() { errs[i] = s.Put(t.Context(), "types", nodes[i:i+1]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	same(t, "nodes", each(t, connect(t, weaviate.Config{}), "types", store.AnyLevel()), nodes)
}

// weaviate/weaviate#11780: with the newer keyword index, a rare word is lost beside a common one until the server has written
// its memory to disk.
func TestWeaviate11780RareWordsOnTheNewerIndex(t *testing.T) {
	running := start(t, weaviatetest.Options{Env: []string{"USE_BLOCKMAX_WAND=true", "USE_INVERTED_SEARCHABLE=true"}})
	s := connect(t, weaviate.Config{URL: running.URL, GRPC: running.GRPC})
	nodes := many(5000, 4)
	for i := range nodes { // of all lengths, so that no ties make the search ask for more
		nodes[i].Text = fmt.Sprintf("leaf %d%s", i, strings.Repeat(" filler", (i*7)%1000))
	}
	put(t, s, "rare", nodes...)
	for _, i := range []int{77, 1, 4999, 1234} {
		hits, err := s.Keyword(t.Context(), "rare", store.Query{Text: fmt.Sprint("leaf ", i), Limit: 3, Filter: store.AnyLevel(), With: store.Fields{Text: true}})
		if err != nil {
			t.Fatal(err)
		}
		if len(hits) != 3 || !slices.ContainsFunc(hits, func(h store.Hit) bool { return h.Node.ID == nodes[i].ID }) {
			t.Errorf("Keyword(leaf %d): %.20q, want the only one with the number among three", i, texts(hits))
		}
		for j := 1; j < len(hits); j++ {
			if hits[j-1].Score < hits[j].Score {
				t.Errorf("Keyword(leaf %d): hits out of order: %v", i, hits)
			}
		}
	}
}

func texts(hits []store.Hit) []string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Node.Text)
	}
	return out
}

// Words in English, in scripts without spaces and in letters with marks, side by side in one corpus.
func TestWordsOfAllScripts(t *testing.T) {
	s := connect(t, weaviate.Config{})
	all := []string{"plain rust text", "所有权是 Rust 最独特的特性。", "हिन्दी में वाक्य", "हद नद हि", "m² of Straße", "naïve café"}
	for i, text := range all {
		put(t, s, "scripts", leaf("d", i, text))
	}
	for query, want := range map[string][]string{
		"rust": {all[0], all[1]}, "所有权": {all[1]}, "हिन्दी": {all[2]}, "m2": {all[4]}, "STRASSE": {all[4]}, "CAFÉ": {all[5]}, "cafe": {all[5]},
		"Rust हिन्दी": {all[0], all[1], all[2]},
	} {
		for _, limit := range []int{1, 10} {
			hits, err := s.Keyword(t.Context(), "scripts", store.Query{Text: query, Limit: limit, Filter: store.AnyLevel(), With: store.Fields{Text: true}})
			if err != nil {
				t.Fatal(err)
			}
			got := texts(hits)
			if limit == 10 {
				slices.Sort(got)
				slices.Sort(want)
				same(t, "texts found by "+query, got, want)
			} else if len(got) != min(1, len(want)) {
				t.Errorf("Keyword(%q) with limit 1: %q", query, got)
			}
		}
	}
}
