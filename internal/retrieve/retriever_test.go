package retrieve

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/tree"
)

var nan, inf = math.NaN(), math.Inf(1)

// smallTree has five leaves of two documents, and above them two summaries and a third one.
type smallTree struct {
	leaves            []tree.Node
	left, right, root tree.Node
}

func newSmallTree() smallTree {
	var s smallTree
	for i, text := range []string{"alpha one", "alpha two", "beta one", "beta two", "gamma"} {
		s.leaves = append(s.leaves, leaf([]string{"a", "b"}[i/3], i, text, at(0.9-float64(i)/10)))
	}
	s.left = summary("alpha both", at(0.85), s.leaves[:3]...)
	s.right = summary("beta gamma", at(0.3), s.leaves[2:]...) // shares a child with left
	s.root = summary("all of it", at(0.1), s.left, s.right)
	s.root.NLeaves = len(s.leaves)
	return s
}

func (s smallTree) nodes() []tree.Node {
	return append(slices.Clone(s.leaves), s.left, s.right, s.root)
}

func sorted(ids ...tree.ID) []tree.ID {
	slices.SortFunc(ids, tree.ID.Compare)
	return ids
}

func everything() Request {
	req := NewRequest(corpusName, "anything")
	req.Pack, req.Budget = Similarity, 0
	return req
}

func byID(hits []Hit) map[tree.ID]Hit {
	out := map[tree.ID]Hit{}
	for _, h := range hits {
		out[h.ID] = h
	}
	return out
}

func TestHitsSayWhereTheyComeFrom(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
	r := New(Config{SourceIDs: 4}, w.nodes, w.corpora, testEmbedder)
	for range 2 { // the second time from memory
		result, err := r.Retrieve(t.Context(), everything())
		if err != nil {
			t.Fatal(err)
		}
		hits := byID(result.Hits)
		l := s.leaves
		all := sorted(l[0].ID, l[1].ID, l[2].ID, l[3].ID, l[4].ID)
		for _, c := range []struct {
			node      tree.Node
			documents []string
			sources   []tree.ID
			n         int
		}{
			{s.leaves[3], []string{"b"}, []tree.ID{l[3].ID}, 1},
			{s.left, []string{"a"}, sorted(l[0].ID, l[1].ID, l[2].ID), 3},
			{s.right, []string{"a", "b"}, sorted(l[2].ID, l[3].ID, l[4].ID), 3},
			{s.root, []string{"a", "b"}, all[:4], 5},
		} {
			h := hits[c.node.ID]
			if h.Text != c.node.Text || h.Level != c.node.Level || h.Tokens != c.node.Tokens || h.ChunkIndex != c.node.ChunkIndex {
				t.Errorf("hit %+v is not node %q", h, c.node.Text)
			}
			got := []any{h.DocumentIDs, h.SourceIDs, h.NSources}
			if diff := gocmp.Diff([]any{c.documents, c.sources, c.n}, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.node.Text, diff)
			}
		}
	}
}

func TestSummariesOnDeletedTextAreHeldBack(t *testing.T) {
	s := newSmallTree()
	for name, remove := range map[string]func(*world){
		"deleted": func(w *world) {
			if err := w.nodes.Delete(t.Context(), corpusName, []tree.ID{s.leaves[3].ID}); err != nil {
				t.Fatal(err)
			}
		},
		"deleted while a build is open": func(w *world) {
			if err := w.nodes.SetLife(t.Context(), corpusName, []tree.ID{s.leaves[3].ID}, 0, tree.Deleted); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, mode := range Modes() {
			for _, pack := range Packs() {
				w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
				r := w.retriever()
				req := everything()
				req.Mode, req.Pack = mode, pack
				if _, err := r.Retrieve(t.Context(), req); err != nil { // remembers the sources
					t.Fatal(err)
				}
				remove(w)
				w.record.Changes++
				w.corpora.all[corpusName] = w.record
				result, err := r.Retrieve(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				got := byID(result.Hits)
				for _, gone := range []tree.Node{s.leaves[3], s.right, s.root} {
					if _, found := got[gone.ID]; found {
						t.Errorf("%s, %s, %s: %q was returned", name, mode, pack, gone.Text)
					}
				}
				if _, found := got[s.left.ID]; !found && pack == Similarity {
					t.Errorf("%s, %s: the summary that the deletion doesn't touch is missing", name, mode)
				}
				if len(result.Notes) != 1 && pack == Similarity {
					t.Errorf("%s, %s: notes are %q, want one", name, mode, result.Notes)
				}
				req.Stale = true
				if result, err = r.Retrieve(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if h, found := byID(result.Hits)[s.right.ID]; pack == Similarity && (!found || h.NSources != 2) {
					t.Errorf("%s, %s: with Stale the summary comes with what is left of its sources, got %+v", name, mode, h)
				}
			}
		}
	}
}

// A budget that stale summaries would have used is used for other nodes.
func TestHeldBackSummariesLeaveTheirRoom(t *testing.T) {
	s := newSmallTree()
	record := built(tree.ScopeCorpus, true)
	record.Changes++
	w := newWorld(t, record, s.nodes()...)
	if err := w.nodes.Delete(t.Context(), corpusName, []tree.ID{s.leaves[1].ID}); err != nil {
		t.Fatal(err)
	}
	req := everything()
	req.Budget = 4
	want := []tree.ID{s.leaves[0].ID, s.leaves[2].ID} // left, the second best, is stale
	if diff := gocmp.Diff(want, found(w.retrieve(t, req).Hits)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadersSeeOneGeneration(t *testing.T) {
	s := newSmallTree()
	old, next := s.right, summary("next tree", at(0.95), s.leaves[3:]...)
	old.Died, next.Born = 2, 2
	nodes := append(slices.Clone(s.leaves), s.left, old, next)
	for generation, want := range map[int][]tree.ID{0: nil, 1: {s.left.ID, old.ID}, 2: {next.ID, s.left.ID}} {
		record := built(tree.ScopeCorpus, true)
		record.Generation = generation
		req := everything()
		req.MinLevel = ptr(1)
		got := found(newWorld(t, record, nodes...).retrieve(t, req).Hits)
		if diff := gocmp.Diff(append([]tree.ID{}, want...), got); diff != "" {
			t.Errorf("generation %d (-want +got):\n%s", generation, diff)
		}
	}
}

// A generation that is published while a query runs makes it run again: what it found may be gone.
func TestPublishingDuringAQuery(t *testing.T) {
	s := newSmallTree()
	next := summary("next tree", at(0.95), s.leaves[3:]...)
	next.Born = 2
	w := newWorld(t, built(tree.ScopeCorpus, true), append(s.nodes(), next)...)
	loads := 0
	w.corpora.loaded = func() {
		if loads++; loads == 2 { // the check after the first run
			record := w.record
			record.Generation = 2
			w.corpora.all[corpusName] = record
			if err := w.nodes.Delete(t.Context(), corpusName, []tree.ID{s.left.ID, s.right.ID, s.root.ID}); err != nil {
				t.Error(err)
			}
		}
	}
	req := everything()
	req.MinLevel = ptr(1)
	result := w.retrieve(t, req)
	if diff := gocmp.Diff([]tree.ID{next.ID}, found(result.Hits)); diff != "" || result.Generation != 2 {
		t.Errorf("generation %d (-want +got):\n%s", result.Generation, diff)
	}
}

func TestKeepLeavesFalse(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeDocument, false), s.nodes()...)
	for _, mode := range Modes() {
		req := everything()
		req.Mode = mode
		for _, h := range w.retrieve(t, req).Hits {
			if h.Level == 0 {
				t.Errorf("%s: a leaf was returned", mode)
			}
			if h.NSources == 0 {
				t.Errorf("%s: a summary has no sources", mode)
			}
		}
	}
	for name, change := range map[string]func(*Request){
		"max level": func(r *Request) { r.MaxLevel = ptr(0) },
		"leaves":    func(r *Request) { r.Mode, r.LeavesOnly = Traversal, true },
		"metadata":  func(r *Request) { r.Metadata = map[string]any{"k": true} },
	} {
		req := everything()
		change(&req)
		_, err := w.retriever().Retrieve(t.Context(), req)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: error is %v, want a usage error", name, err)
		}
	}
}

// The names in JSON are a contract with scripts.
func TestResultJSON(t *testing.T) {
	s := newSmallTree()
	req := everything()
	req.Query, req.TopK = "what?", 1
	raw, err := json.Marshal(newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...).retrieve(t, req))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Query, Mode string
		Tokens      int
		Hits        []map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Query != "what?" || got.Mode != "collapsed" || got.Tokens != 2 || len(got.Hits) != 1 {
		t.Fatalf("got %s", raw)
	}
	h := got.Hits[0]
	id := s.leaves[0].ID.String()
	if h["id"] != id || h["level"] != 0.0 || h["tokens"] != 2.0 || h["text"] != "alpha one" || h["n_sources"] != 1.0 {
		t.Errorf("hit is %v", h)
	}
	if diff := gocmp.Diff([]any{[]any{"a"}, []any{id}}, []any{h["document_ids"], h["source_ids"]}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if score, ok := h["score"].(float64); !ok || score < 0.89 || score > 0.91 {
		t.Errorf("score is %v, want 0.9", h["score"])
	}
	req.Documents = []string{"none"}
	raw, err = json.Marshal(newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...).retrieve(t, req))
	if err != nil || !strings.Contains(string(raw), `"hits":[]`) {
		t.Errorf("no hits are %s, %v", raw, err)
	}
}

// The Memory store honors no operator in a keyword query; the retriever hands text over as it is.
func TestFiltersNeverLeak(t *testing.T) {
	w := randomWorld(t, 3, 60)
	for name, change := range shapes() {
		req := NewRequest(corpusName, "w1 OR w2")
		change(&req)
		req.Documents, req.Explain = []string{"d2"}, true
		result := w.retrieve(t, req)
		for _, h := range result.Hits {
			if !slices.Equal(h.DocumentIDs, []string{"d2"}) {
				t.Errorf("%s: a hit comes from %v", name, h.DocumentIDs)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	s := newSmallTree()
	copied := summary("alpha one", at(0.88), s.leaves[0], s.leaves[1])
	w := newWorld(t, built(tree.ScopeCorpus, true), append(s.nodes(), copied)...)
	req := NewRequest(corpusName, "anything")
	req.Budget, req.Explain, req.MaxLevel = 8, true, ptr(1)
	got := w.retrieve(t, req).Explain
	fates := map[tree.ID]Explained{}
	for _, e := range got.Candidates {
		fates[e.ID] = e
		if e.Why == "" {
			t.Errorf("%s: nothing says why", e.ID)
		}
	}
	if e := fates[copied.ID]; e.Fate != Covered || !slices.Equal(e.CoveredBy, []tree.ID{s.leaves[0].ID}) {
		t.Errorf("a summary that repeats its child is %s by %v", e.Fate, e.CoveredBy)
	}
	if e := fates[s.root.ID]; e.Fate != Filtered || !strings.Contains(e.Why, "max-level 1") {
		t.Errorf("the root is %s: %s", e.Fate, e.Why)
	}
	if e := fates[s.leaves[0].ID]; e.Fate != Chosen || e.Rank != 1 || e.Parts.Relevance != 1 || e.Parts.Gain <= 0 {
		t.Errorf("the best leaf is %+v", e)
	}
	counts := map[Fate]int{}
	for _, e := range got.Candidates {
		counts[e.Fate]++
	}
	if got.Fetched != 8 || !slices.Equal(got.FetchedByLevel, []int{5, 3}) || counts[Filtered] != 1 || counts[NoRoom] == 0 {
		t.Errorf("fetched %d, by level %v, fates %v", got.Fetched, got.FetchedByLevel, counts)
	}

	req = everything()
	req.Mode, req.Boost, req.TopK, req.Explain = Boost, 1.2, 1, true
	got = w.retrieve(t, req).Explain
	if got.Lifted != 2 || got.Candidates[0].ID != copied.ID || got.Candidates[0].FetchedRank != 2 || got.Candidates[2].Fate != TooMany {
		t.Errorf("boost explains %+v", got)
	}
}

// An answer is never made of what is left when a store fails.
// What the boost lifts must have been fetched: with Candidates 1 the summary isn't.
func TestOverfetchMatters(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
	for candidates, want := range map[int]tree.ID{1: s.leaves[0].ID, 3: s.left.ID} {
		req := everything()
		req.Mode, req.Boost, req.TopK, req.Candidates = Boost, 1.2, 1, candidates
		if diff := gocmp.Diff([]tree.ID{want}, found(w.retrieve(t, req).Hits)); diff != "" {
			t.Errorf("candidates %d (-want +got):\n%s", candidates, diff)
		}
	}
}
