package storetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// width is that of the suite's vectors.
const width = 16

// everything reads all that a node has.
var everything = store.Fields{Text: true, Vector: true, Metadata: true}

// Run holds an implementation to the contract of [store.Store]. open returns a store that is ready for use, and
// closes it when the test that is passed in has ended.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, part := range []struct {
		name  string
		tests []contractTest
	}{
		{"Nodes", nodeTests}, {"Life", lifeTests}, {"Each", eachTests}, {"Documents", documentTests},
		{"Where", whereTests}, {"Search", searchTests}, {"Keyword", keywordTests}, {"Concurrency", concurrencyTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, test := range part.tests {
				t.Run(test.name, func(t *testing.T) {
					test.run(&suite{T: t, store: open(t), corpus: "contract-" + strings.ToLower(part.name+"-"+test.name)})
				})
			}
		})
	}
}

type contractTest struct {
	name string
	run  func(*suite)
}

// suite is one test with its store and its corpus.
type suite struct {
	*testing.T
	store  store.Store
	corpus string
}

// leaf returns a leaf whose vector is drawn from its text.
func (s *suite) leaf(document string, index int, text string) tree.Node {
	return tree.Node{
		ID:         tree.LeafID(s.corpus, document, index, text),
		DocumentID: document, ChunkIndex: index,
		Text: text, Tokens: len(strings.Fields(text)), NLeaves: 1,
		Died: tree.Alive, Vector: vectorOf(text),
	}
}

// summary returns a summary of a corpus tree.
func (s *suite) summary(level, born int, text string, children ...tree.Node) tree.Node {
	n := tree.Node{
		Level: level, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus,
		Text: text, Tokens: len(strings.Fields(text)), Recipe: "recipe",
		Born: born, Died: tree.Alive, Vector: vectorOf(text),
	}
	for _, c := range children {
		n.Children = append(n.Children, c.ID)
		n.NLeaves += c.NLeaves
	}
	n.ID = tree.SummaryID(s.corpus, n.DocumentID, level, n.Recipe, n.Children)
	return n
}

// vectorOf draws a unit vector from a text.
func vectorOf(text string) []float32 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return randomVector(rand.New(rand.NewPCG(h.Sum64(), 1)), width)
}

func randomVector(r *rand.Rand, width int) []float32 {
	v := make([]float32, width)
	sum := 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}

func (s *suite) put(nodes ...tree.Node) {
	s.Helper()
	if err := s.store.Put(s.Context(), s.corpus, nodes); err != nil {
		s.Fatalf("Put: %v", err)
	}
}

func (s *suite) get(ids ...tree.ID) []tree.Node {
	s.Helper()
	nodes, err := s.store.Get(s.Context(), s.corpus, ids, everything)
	if err != nil {
		s.Fatalf("Get: %v", err)
	}
	return nodes
}

func (s *suite) each(filter store.Filter) []tree.Node {
	s.Helper()
	var nodes []tree.Node
	err := s.store.Each(s.Context(), s.corpus, filter, everything, func(n *tree.Node) error {
		nodes = append(nodes, *n)
		return nil
	})
	if err != nil {
		s.Fatalf("Each: %v", err)
	}
	return nodes
}

func (s *suite) count(filter store.Filter) int {
	s.Helper()
	n, err := s.store.Count(s.Context(), s.corpus, filter)
	if err != nil {
		s.Fatalf("Count: %v", err)
	}
	return n
}

// documents returns ids and numbers of leaves; what else a document has is for C10DocumentsBelongToSources.
func (s *suite) documents(prefix string) []store.Document {
	s.Helper()
	var documents []store.Document
	err := s.store.Documents(s.Context(), s.corpus, prefix, func(d store.Document) error {
		documents = append(documents, store.Document{ID: d.ID, Leaves: d.Leaves})
		return nil
	})
	if err != nil {
		s.Fatalf("Documents: %v", err)
	}
	return documents
}

// pages lists the documents page by page, and checks that they are as many as are counted.
func (s *suite) pages(prefix string, limit int) []store.Document {
	s.Helper()
	all, after := []store.Document{}, ""
	for {
		page, err := s.store.DocumentsAfter(s.Context(), s.corpus, prefix, after, limit)
		if err != nil {
			s.Fatalf("DocumentsAfter: %v", err)
		}
		if len(page) > limit {
			s.Fatalf("a page has %d documents, of %d", len(page), limit)
		}
		all = append(all, page...)
		if len(page) < limit {
			break
		}
		after = page[len(page)-1].ID
	}
	if n, err := s.store.CountDocuments(s.Context(), s.corpus); err != nil || prefix == "" && n != len(all) {
		s.Errorf("CountDocuments: %d, %v, but %d are listed", n, err, len(all))
	}
	return all
}

func (s *suite) search(q store.Query) []store.Hit {
	s.Helper()
	hits, err := s.store.Search(s.Context(), s.corpus, q)
	if err != nil {
		s.Fatalf("Search: %v", err)
	}
	return hits
}

// keyword returns the texts that a query finds, best first, and checks what holds for every answer.
func (s *suite) keyword(text string, limit int, filter store.Filter) []string {
	s.Helper()
	hits, err := s.store.Keyword(s.Context(), s.corpus, store.Query{Text: text, Limit: limit, Filter: filter, With: store.Fields{Text: true}})
	if err != nil {
		s.Fatalf("Keyword(%q): %v", text, err)
	}
	s.checkHits(hits, limit)
	for _, h := range hits {
		if h.Score <= 0 {
			s.Errorf("Keyword(%q): %q has score %v, want above 0", text, h.Node.Text, h.Score)
		}
	}
	return textsOf(hits)
}

// checkHits checks order and number.
func (s *suite) checkHits(hits []store.Hit, limit int) {
	s.Helper()
	if len(hits) > limit {
		s.Errorf("%d hits, limit %d", len(hits), limit)
	}
	for i := 1; i < len(hits); i++ {
		a, b := hits[i-1], hits[i]
		if a.Score < b.Score || a.Score == b.Score && a.Node.ID.Compare(b.Node.ID) >= 0 {
			s.Errorf("hit %d (%v, %s) comes before hit %d (%v, %s)", i-1, a.Score, a.Node.ID, i, b.Score, b.Node.ID)
		}
	}
}

func textsOf(hits []store.Hit) []string {
	var texts []string
	for _, h := range hits {
		texts = append(texts, h.Node.Text)
	}
	return texts
}

func idsOf(nodes []tree.Node) []tree.ID {
	var ids []tree.ID
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// same compares with go-cmp; nil and empty are the same.
func (s *suite) same(what string, got, want any) {
	s.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// inBackground is a context for what a test's end must not cut short.
func inBackground() context.Context { return context.Background() }

func numbered(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}
