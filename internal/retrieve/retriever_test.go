package retrieve_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/retrieve/retrievetest"
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
		s.leaves = append(s.leaves, retrievetest.Leaf([]string{"a", "b"}[i/3], i, text, retrievetest.At(0.9-float64(i)/10)))
	}
	s.left = retrievetest.Summary("alpha both", retrievetest.At(0.85), s.leaves[:3]...)
	s.right = retrievetest.Summary("beta gamma", retrievetest.At(0.3), s.leaves[2:]...) // shares a child with left
	s.root = retrievetest.Summary("all of it", retrievetest.At(0.1), s.left, s.right)
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

func everything() retrieve.Request {
	return retrieve.Request{Corpus: corpusName, Query: "anything", Options: retrieve.Options{Pack: new(retrieve.Similarity), Budget: new(0)}}
}

func byID(hits []retrieve.Hit) map[tree.ID]retrieve.Hit {
	out := map[tree.ID]retrieve.Hit{}
	for _, h := range hits {
		out[h.ID] = h
	}
	return out
}

// FAULTS: infiniflow/ragflow 1699, 13393 and run-llama/llama_index 11834: the source passages of a summary can be found, and its
// documents are those that it was made from.
func TestHitsSayWhereTheyComeFrom(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
	r := retrieve.New(retrieve.Config{SourceIDs: 4}, w.Store, w.Corpora, retrievetest.OneVector)
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

// FAULTS: Rag.NET #338, HKUDS/LightRAG 830: what was deleted survives in search, or in summaries.
func TestSummariesOnDeletedTextAreHeldBack(t *testing.T) {
	s := newSmallTree()
	for name, remove := range map[string]func(*retrievetest.World){
		"deleted": func(w *retrievetest.World) {
			if err := w.Store.Delete(t.Context(), corpusName, []tree.ID{s.leaves[3].ID}); err != nil {
				t.Fatal(err)
			}
		},
		"deleted while a build is open": func(w *retrievetest.World) {
			if err := w.Store.SetLife(t.Context(), corpusName, []tree.ID{s.leaves[3].ID}, 0, tree.Deleted); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, mode := range retrieve.Modes() {
			for _, pack := range retrieve.Packs() {
				w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
				r := w.Retriever()
				req := everything()
				req.Mode, req.Pack = new(mode), new(pack)
				if _, err := r.Retrieve(t.Context(), req); err != nil { // remembers the sources
					t.Fatal(err)
				}
				remove(w)
				w.Record.Changes++
				w.Corpora.All[corpusName] = w.Record
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
				if _, found := got[s.left.ID]; !found && pack == retrieve.Similarity {
					t.Errorf("%s, %s: the summary that the deletion doesn't touch is missing", name, mode)
				}
				if len(result.Notes) != 1 && pack == retrieve.Similarity {
					t.Errorf("%s, %s: notes are %q, want one", name, mode, result.Notes)
				}
				req.Stale = new(true)
				if result, err = r.Retrieve(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if h, found := byID(result.Hits)[s.right.ID]; pack == retrieve.Similarity && (!found || h.NSources != 2) {
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
	if err := w.Store.Delete(t.Context(), corpusName, []tree.ID{s.leaves[1].ID}); err != nil {
		t.Fatal(err)
	}
	req := everything()
	req.Budget = new(4)
	want := []tree.ID{s.leaves[0].ID, s.leaves[2].ID} // left, the second best, is stale
	if diff := gocmp.Diff(want, retrievetest.Found(w.Retrieve(t, req).Hits)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadersSeeOneGeneration(t *testing.T) {
	s := newSmallTree()
	old, next := s.right, retrievetest.Summary("next tree", retrievetest.At(0.95), s.leaves[3:]...)
	old.Died, next.Born = 2, 2
	nodes := append(slices.Clone(s.leaves), s.left, old, next)
	for generation, want := range map[int][]tree.ID{0: nil, 1: {s.left.ID, old.ID}, 2: {next.ID, s.left.ID}} {
		record := built(tree.ScopeCorpus, true)
		record.Generation = generation
		req := everything()
		req.MinLevel = new(1)
		got := retrievetest.Found(newWorld(t, record, nodes...).Retrieve(t, req).Hits)
		if diff := gocmp.Diff(append([]tree.ID{}, want...), got); diff != "" {
			t.Errorf("generation %d (-want +got):\n%s", generation, diff)
		}
	}
}

// A generation that is published while a query runs makes it run again: what it found may be gone.
func TestPublishingDuringAQuery(t *testing.T) {
	s := newSmallTree()
	next := retrievetest.Summary("next tree", retrievetest.At(0.95), s.leaves[3:]...)
	next.Born = 2
	w := newWorld(t, built(tree.ScopeCorpus, true), append(s.nodes(), next)...)
	loads := 0
	w.Corpora.Loaded = func() {
		if loads++; loads == 2 { // the check after the first run
			record := w.Record
			record.Generation = 2
			w.Corpora.All[corpusName] = record
			if err := w.Store.Delete(t.Context(), corpusName, []tree.ID{s.left.ID, s.right.ID, s.root.ID}); err != nil {
				t.Error(err)
			}
		}
	}
	req := everything()
	req.MinLevel = new(1)
	result := w.Retrieve(t, req)
	if diff := gocmp.Diff([]tree.ID{next.ID}, retrievetest.Found(result.Hits)); diff != "" || result.Generation != 2 {
		t.Errorf("generation %d (-want +got):\n%s", result.Generation, diff)
	}
}

func TestKeepLeavesFalse(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeDocument, false), s.nodes()...)
	for _, mode := range retrieve.Modes() {
		req := everything()
		req.Mode = new(mode)
		for _, h := range w.Retrieve(t, req).Hits {
			if h.Level == 0 {
				t.Errorf("%s: a leaf was returned", mode)
			}
			if h.NSources == 0 {
				t.Errorf("%s: a summary has no sources", mode)
			}
		}
	}
	for name, change := range map[string]func(*retrieve.Request){
		"max level": func(r *retrieve.Request) { r.MaxLevel = new(0) },
		"leaves":    func(r *retrieve.Request) { r.Mode, r.LeavesOnly = new(retrieve.Traversal), new(true) },
		"metadata":  func(r *retrieve.Request) { r.Metadata = map[string]any{"k": true} },
	} {
		req := everything()
		change(&req)
		result := w.Retrieve(t, req)
		if len(result.Hits) != 0 || !strings.Contains(strings.Join(result.Notes, "\n"), "5 leaves with a summary above them are out of search") {
			t.Errorf("%s: %d hits, notes %q", name, len(result.Hits), result.Notes)
		}
	}
}

// The names in JSON are a contract with scripts.
func TestResultJSON(t *testing.T) {
	s := newSmallTree()
	req := everything()
	req.Query, req.TopK = "what?", new(1)
	raw, err := json.Marshal(newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...).Retrieve(t, req))
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
	raw, err = json.Marshal(newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...).Retrieve(t, req))
	if err != nil || !strings.Contains(string(raw), `"hits":[]`) {
		t.Errorf("no hits are %s, %v", raw, err)
	}
}

// Where leaves are enough to measure by, no summary changes what is chosen among them.
func TestSummariesDoNotMoveLeaves(t *testing.T) {
	for seed := range uint64(10) {
		w := random(t, seed, 60)
		req := retrieve.Request{Corpus: corpusName, Query: "anything"}
		req.Budget, req.Alpha = new(90), new(1.0)
		mixed := w.Retrieve(t, req)
		leaves := 0
		for _, h := range mixed.Hits {
			if h.Level == 0 {
				leaves++
			}
		}
		req.MaxLevel = new(0)
		alone := w.Retrieve(t, req)
		if leaves == len(mixed.Hits) {
			if diff := gocmp.Diff(retrievetest.Found(alone.Hits), retrievetest.Found(mixed.Hits)); diff != "" {
				t.Errorf("seed %d (-leaves alone +among summaries):\n%s", seed, diff)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	s := newSmallTree()
	copied := retrievetest.Summary("alpha one", retrievetest.At(0.88), s.leaves[0], s.leaves[1])
	w := newWorld(t, built(tree.ScopeCorpus, true), append(s.nodes(), copied)...)
	req := retrieve.Request{Corpus: corpusName, Query: "anything"}
	req.Budget, req.Explain, req.MaxLevel, req.Alpha = new(8), new(true), new(1), new(1.0)
	got := w.Retrieve(t, req).Explain
	fates := map[tree.ID]retrieve.Explained{}
	for _, e := range got.Candidates {
		fates[e.ID] = e
		if e.Why == "" {
			t.Errorf("%s: nothing says why", e.ID)
		}
	}
	if e := fates[copied.ID]; e.Fate != retrieve.Covered || !slices.Equal(e.CoveredBy, []tree.ID{s.leaves[0].ID}) {
		t.Errorf("a summary that repeats its child is %s by %v", e.Fate, e.CoveredBy)
	}
	if e := fates[s.root.ID]; e.Fate != retrieve.Filtered || !strings.Contains(e.Why, "max-level 1") {
		t.Errorf("the root is %s: %s", e.Fate, e.Why)
	}
	if e := fates[s.leaves[0].ID]; e.Fate != retrieve.Chosen || e.Rank != 1 || e.Parts.Relevance != 1 || e.Parts.Gain <= 0 {
		t.Errorf("the best leaf is %+v", e)
	}
	counts := map[retrieve.Fate]int{}
	for _, e := range got.Candidates {
		counts[e.Fate]++
	}
	if got.Fetched != 8 || !slices.Equal(got.FetchedByLevel, []int{5, 3}) || counts[retrieve.Filtered] != 1 || counts[retrieve.NoRoom] == 0 {
		t.Errorf("fetched %d, by level %v, fates %v", got.Fetched, got.FetchedByLevel, counts)
	}

	req = everything()
	req.Mode, req.Boost, req.TopK, req.Explain = new(retrieve.Boost), new(1.2), new(1), new(true)
	got = w.Retrieve(t, req).Explain
	if got.Lifted != 2 || got.Candidates[0].ID != copied.ID || got.Candidates[0].FetchedRank != 2 || got.Candidates[2].Fate != retrieve.TooMany {
		t.Errorf("boost explains %+v", got)
	}
}
