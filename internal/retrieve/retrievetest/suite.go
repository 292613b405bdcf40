package retrievetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Run holds the retriever over a store to what is documented. open returns a store that is ready for use and closes it when
// the test that is passed in has ended; corpora have names of their own, so that it may always be the same.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(s suite)
	}{
		{"ModesAgreeWithBruteForce", modesAgree}, {"BudgetsTogether", budgetsTogether}, {"TraversalReachesEveryRoot", everyRoot},
		{"OverfetchMatters", overfetchMatters}, {"ManyDocuments", manyDocuments}, {"RareWordBesideACommonOne", rareWord}, {"Chinese", chinese},
		{"DocumentFilter", documentFilter}, {"DeletedDocument", deletedDocument},
		{"TopKMeansK", topKMeansK}, {"ParentsReplaceHits", parentsReplaceHits}, {"BroadQuestions", broadQuestions},
		{"KeepLeavesFalse", keepLeavesFalse}, {"ReplacedText", replacedText},
		{"SecondHop", secondHop},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(suite{T: t, store: open(t), corpus: "retrieve-" + strings.ToLower(test.name)})
		})
	}
}

// suite is one test with its store, and the beginning of the names of its corpora.
type suite struct {
	*testing.T
	store  store.Store
	corpus string
}

// random is a world of about n leaves in a corpus of its own.
func (s suite) random(seed uint64, n int) *World {
	return Random(s.T, s.store, fmt.Sprintf("%s-%d", s.corpus, seed), seed, n)
}

func (s suite) same(what string, want, got any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Shapes are requests of every kind, by name.
func Shapes() map[string]func(*retrieve.Options) {
	type request = retrieve.Options
	x := map[string]any{"kind": "x"}
	return map[string]func(*request){
		"collapsed":            func(r *request) {},
		"collapsed, top 3":     func(r *request) { r.TopK = new(3) },
		"collapsed, no budget": func(r *request) { r.Budget, r.TopK = new(0), new(5) },
		"no bound at all":      func(r *request) { r.Budget = new(0) },
		"blend":                func(r *request) { r.Mode = new(retrieve.Blend) },
		"boost":                func(r *request) { r.Mode, r.Boost = new(retrieve.Boost), new(1.4) },
		"boost down":           func(r *request) { r.Mode, r.Boost = new(retrieve.Boost), new(0.5) },
		"boost, top 4":         func(r *request) { r.Mode, r.Boost, r.TopK = new(retrieve.Boost), new(1.4), new(4) },
		"boost, top 4, as is": func(r *request) {
			r.Mode, r.Boost, r.TopK, r.Candidates = new(retrieve.Boost), new(1.4), new(4), new(1.0)
		},
		"boost and filter": func(r *request) { r.Mode, r.Boost, r.MaxLevel = new(retrieve.Boost), new(1.2), new(1) },
		"boost, filter, top 4": func(r *request) {
			r.Mode, r.Boost, r.MinLevel, r.MaxLevel, r.TopK = new(retrieve.Boost), new(1.3), new(0), new(1), new(4)
		},
		"filter":                func(r *request) { r.Mode, r.MinLevel = new(retrieve.Filter), new(1) },
		"filter, one level":     func(r *request) { r.Mode, r.MinLevel, r.MaxLevel = new(retrieve.Filter), new(1), new(1) },
		"leaves":                func(r *request) { r.MaxLevel = new(0) },
		"document":              func(r *request) { r.Documents = []string{"d1", "d3"} },
		"metadata":              func(r *request) { r.Metadata = x },
		"document and metadata": func(r *request) { r.Documents, r.Metadata = []string{"d2"}, x },
		"nothing matches":       func(r *request) { r.Documents = []string{"elsewhere"} },
		"traversal":             func(r *request) { r.Mode, r.PerLevel = new(retrieve.Traversal), new(3) },
		"traversal to leaves":   func(r *request) { r.Mode, r.PerLevel, r.LeavesOnly = new(retrieve.Traversal), new(2), new(true) },
		"traversal, filter":     func(r *request) { r.Mode, r.PerLevel, r.MinLevel = new(retrieve.Traversal), new(2), new(1) },
		"traversal, document":   func(r *request) { r.Mode, r.PerLevel, r.Documents = new(retrieve.Traversal), new(3), []string{"d1"} },
		"traversal, metadata":   func(r *request) { r.Mode, r.Metadata = new(retrieve.Traversal), x },
		"hybrid":                func(r *request) { r.Alpha = new(.7) },
		"hybrid, document":      func(r *request) { r.Alpha, r.Documents = new(.7), []string{"d1"} },
		"hybrid by rank":        func(r *request) { r.Alpha, r.Fusion = new(.5), new(retrieve.Reciprocal) },
		"keywords":              func(r *request) { r.Alpha = new(0.0) },
		"hybrid, filter, blend": func(r *request) { r.Mode, r.Alpha, r.MaxLevel = new(retrieve.Blend), new(.4), new(0) },
		"hybrid, boost, by rank": func(r *request) {
			r.Mode, r.Boost, r.Alpha, r.Fusion = new(retrieve.Boost), new(1.3), new(.6), new(retrieve.Reciprocal)
		},
	}
}

// shaped is a request with a pool and a way to pack, where these have an effect. It compares vectors alone unless its shape says
// otherwise.
func (w *World) shaped(query string, pool int, pack retrieve.Pack, shape func(*retrieve.Options)) retrieve.Request {
	req := w.Request(query)
	req.Pack = &pack
	shape(&req.Options)
	settled, err := req.Settled()
	if err != nil {
		panic(err)
	}
	if *settled.Mode != retrieve.Traversal {
		req.Pool = &pool
		if req.Alpha == nil {
			req.Alpha = new(1.0)
		}
	}
	return req
}

// modesAgree compares ids and their order with an answer by brute force.
func modesAgree(s suite) {
	for seed := range uint64(2) {
		w := s.random(seed, 60)
		for name, change := range Shapes() {
			for _, pack := range retrieve.Packs() {
				for _, budget := range []int{25, 120, 100000} {
					req := w.shaped("w3 w17 w40 unheard", 1000, pack, func(o *retrieve.Options) { o.Budget = &budget; change(o) })
					s.same(fmt.Sprintf("seed %d, %s, %s, budget %d", seed, name, pack, *req.Budget),
						referenceHits(s, w, req), Found(w.Retrieve(s, req).Hits))
				}
			}
		}
	}
}

// budgetsTogether: several budgets at once give what one after the other gives, whatever came before.
func budgetsTogether(s suite) {
	budgets := []int{120, 25, 100000, 60}
	w := s.random(0, 60)
	if err := s.store.Delete(s.Context(), w.Record.Name, []tree.ID{w.Nodes[4].ID}); err != nil {
		s.Fatal(err)
	}
	w.Changed() // some summaries are stale
	for name, change := range Shapes() {
		for _, pack := range retrieve.Packs() {
			req := w.shaped("w3 w17 w40 unheard", 20, pack, change)
			req.Explain = new(true)
			var got []retrieve.Result
			err := w.Retriever().RetrieveAt(s.Context(), req, budgets, func(i int, r retrieve.Result) {
				if i != len(got) {
					s.Errorf("%s, %s: answer %d comes after %d", name, pack, i, len(got))
				}
				got = append(got, r)
			})
			if err != nil || len(got) != len(budgets) {
				s.Fatalf("%s, %s: %d answers, %v", name, pack, len(got), err)
			}
			for i, budget := range budgets {
				req.Budget = new(budget)
				s.same(fmt.Sprintf("%s, %s, budget %d", name, pack, budget), w.Retrieve(s, req), got[i])
			}
		}
	}
}

// everyRoot: FAULTS, run-llama/llama_index 15480: a traversal returned leaves only. Each level's winners are kept; and a walk
// starts at more than the top level where trees have several heights, a document has no tree, or leaves are newer than the build.
func everyRoot(s suite) {
	for seed := range uint64(4) {
		w := s.random(seed, 40)
		var fresh []tree.Node
		for i := range 5 {
			fresh = append(fresh, Leaf("fresh", i, fmt.Sprint("w1 w5 fresh", i), At(float64(i)/5)))
		}
		if err := s.store.Put(s.Context(), w.Record.Name, fresh); err != nil {
			s.Fatal(err)
		}
		w.Nodes = append(w.Nodes, fresh...)
		w.Changed()
		for _, perLevel := range []int{1, 3, 50} {
			req := w.Request("fresh")
			req.Mode, req.PerLevel, req.Pack, req.Budget = new(retrieve.Traversal), new(perLevel), new(retrieve.Similarity), new(0)
			s.same(fmt.Sprintf("seed %d, per level %d", seed, perLevel), referenceHits(s, w, req), Found(w.Retrieve(s, req).Hits))
		}
	}
}

// overfetchMatters: FAULTS, infiniflow/ragflow 10951: summaries are never recalled. What the boost lifts must have
// been fetched; fetched once only, the summary isn't.
func overfetchMatters(s suite) {
	leaves := []tree.Node{Leaf("a", 0, "alpha one", At(.9)), Leaf("a", 1, "alpha two", At(.8)), Leaf("a", 2, "beta", At(.1))}
	lifted := Summary("alpha both", At(.85), leaves...)
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), append(leaves, lifted)...)
	for candidates, want := range map[float64]tree.ID{1: leaves[0].ID, 1.5: lifted.ID, 3: lifted.ID} {
		req := w.Request("anything")
		req.Pack, req.Mode, req.Boost, req.TopK, req.Candidates = new(retrieve.Similarity), new(retrieve.Boost), new(1.2), new(1), new(candidates)
		s.same(fmt.Sprintf("candidates %v", candidates), []tree.ID{want}, Found(w.Retrieve(s, req).Hits))
	}
}

// manyDocuments: FAULTS, microsoft/graphrag 939: an answer represents one document only. Where the nearest leaves of one say the
// same over and over, coverage gives the others their turn.
func manyDocuments(s suite) {
	var leaves []tree.Node
	for i := range 12 {
		leaves = append(leaves, Leaf("loud", 10*i, fmt.Sprint("herons wait in water and then they strike ", i), At(.9-float64(i)/1000)))
	}
	for i, text := range []string{"owls listen at night", "kites circle over fields", "terns dive for fish", "rooks nest in elms"} {
		leaves = append(leaves, Leaf(fmt.Sprint("quiet", i), 0, text, At(.8-float64(i)/1000)))
	}
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), leaves...)
	for pack, want := range map[retrieve.Pack]int{retrieve.Similarity: 1, retrieve.Coverage: 5} {
		req := w.Request("birds")
		req.Pack, req.Budget, req.Alpha = new(pack), new(36), new(1.0)
		documents := map[string]bool{}
		for _, h := range w.Retrieve(s, req).Hits {
			documents[h.DocumentIDs[0]] = true
		}
		if len(documents) != want {
			s.Errorf("%s: hits come from %d documents, want %d", pack, len(documents), want)
		}
	}
}

// rareWord: FAULTS, weaviate/weaviate 11780: a rare term that a common one beside it hides until the index is flushed. With vectors the
// word decides between leaves that are about as near.
func rareWord(s suite) {
	rare := []int{77, 0, 2999}
	var leaves []tree.Node
	for i := range 3000 {
		near := .1
		switch {
		case slices.Contains(rare, i):
			near = .6
		case i%30 == 1:
			near = .7
		}
		leaves = append(leaves, Leaf(fmt.Sprintf("d%d", i/100), i%100, fmt.Sprint("leaf ", i), At(near)))
	}
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), leaves...)
	for _, i := range rare {
		for _, alpha := range []float64{0, *retrieve.Defaults().Alpha} {
			req := w.Request(fmt.Sprint("leaf ", i))
			req.Alpha, req.Budget = new(alpha), new(20)
			got := w.Retrieve(s, req)
			if len(got.Hits) != 10 || got.Hits[0].ID != leaves[i].ID {
				s.Errorf("%q, alpha %v: %d hits, the best is %q", req.Query, alpha, len(got.Hits), got.Hits[0].Text)
			}
		}
	}
}

func chinese(s suite) {
	texts := []string{"肺癌的早期症状包括持续咳嗽。", "所有权是 Rust 最独特的特性。", "猫头鹰在夜里飞行。"}
	var leaves []tree.Node
	for i, text := range texts {
		leaves = append(leaves, Leaf("d", i, text, Axis(0)))
	}
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), leaves...)
	for query, want := range map[string]int{"早期症状": 0, "什么是所有权？": 1, "猫头鹰": 2, "rust": 1} {
		for _, alpha := range []float64{0, .7} {
			req := w.Request(query)
			req.Alpha = new(alpha)
			if got := w.Retrieve(s, req); len(got.Hits) == 0 || got.Hits[0].ID != leaves[want].ID {
				s.Errorf("%q, alpha %v: hits are %+v, want %q first", query, alpha, got.Hits, texts[want])
			}
		}
	}
}

// documentFilter: hits of another document never come through.
func documentFilter(s suite) {
	w := s.random(3, 60)
	own := map[tree.ID]bool{}
	for _, n := range w.Nodes {
		own[n.ID] = n.DocumentID == "d2"
	}
	for name, change := range Shapes() {
		for _, pack := range retrieve.Packs() {
			req := w.shaped("w1 OR w2", 150, pack, change)
			req.Documents = []string{"d2"}
			result := w.Retrieve(s, req)
			for _, h := range result.Hits {
				if !own[h.ID] || !slices.Equal(h.DocumentIDs, []string{"d2"}) {
					s.Errorf("%s, %s: a hit comes from %v", name, pack, h.DocumentIDs)
				}
			}
			if req.MinLevel == nil && req.Pool != nil && len(result.Hits) == 0 {
				s.Errorf("%s, %s: nothing of the document is found", name, pack)
			}
		}
	}
}

// deletedDocument: FAULTS, HKUDS/LightRAG 830 and Rag.NET #338: nothing of it is ever returned, nor a summary that
// rests on it, whether its leaves are gone or, since a build is open, only marked.
func deletedDocument(s suite) {
	for i, remove := range []func(w *World, ids []tree.ID) error{
		func(w *World, ids []tree.ID) error { return s.store.Delete(s.Context(), w.Record.Name, ids) },
		func(w *World, ids []tree.ID) error {
			return s.store.SetLife(s.Context(), w.Record.Name, ids, 0, tree.Deleted)
		},
	} {
		w := s.random(uint64(i), 60)
		retriever := w.Retriever()
		for _, change := range Shapes() { // it remembers what it can
			if _, err := retriever.Retrieve(s.Context(), w.shaped("w1 w2 w3", 150, retrieve.Coverage, change)); err != nil {
				s.Fatal(err)
			}
		}
		gone := map[tree.ID]bool{}
		var ids []tree.ID
		for _, n := range w.Nodes { // in the order of levels
			if n.DocumentID == "d1" {
				ids = append(ids, n.ID)
			}
			gone[n.ID] = n.DocumentID == "d1" || slices.ContainsFunc(n.Children, func(c tree.ID) bool { return gone[c] })
		}
		if err := remove(w, ids); err != nil {
			s.Fatal(err)
		}
		w.Changed()
		for name, change := range Shapes() {
			for _, pack := range retrieve.Packs() {
				result, err := retriever.Retrieve(s.Context(), w.shaped("w1 w2 w3", 150, pack, change))
				if err != nil {
					s.Fatal(err)
				}
				for _, h := range result.Hits {
					if gone[h.ID] {
						s.Errorf("%d, %s, %s: %s, level %d, was returned", i, name, pack, h.ID, h.Level)
					}
				}
			}
		}
	}
}

// topKMeansK: where the chosen ones say all that there is, the rest is filled by score, in every mode that packs by coverage.
func topKMeansK(s suite) {
	var leaves []tree.Node
	for i := range 12 {
		leaves = append(leaves, Leaf("a", 5*i, "herons wait in water and then they strike", At(.9-float64(i)/1000)))
	}
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), leaves...)
	for _, mode := range []retrieve.Mode{retrieve.Collapsed, retrieve.Blend, retrieve.Boost, retrieve.Filter} {
		req := w.Request("herons")
		req.Mode, req.TopK = &mode, new(10)
		if hits := w.Retrieve(s, req).Hits; len(hits) != 10 {
			s.Errorf("%s: %d hits, want 10", mode, len(hits))
		}
	}
}

// parentsReplaceHits: a summary takes the place of its children where half of them are hits, and not where fewer are.
func parentsReplaceHits(s suite) {
	leaves := []tree.Node{
		Leaf("a", 0, "herons stand in shallow water", At(.9)), Leaf("a", 10, "egrets nest in tall trees", At(.88)), Leaf("a", 20, "storks fly south", At(.86)),
		Leaf("b", 0, "steel is made of iron", At(.85)), Leaf("b", 10, "coal burns hot", At(.2)), Leaf("b", 20, "ore is dug", At(.1)), Leaf("b", 30, "slag is waste", At(.1)),
	}
	birds, metal := Summary("birds of the marsh", At(.5), leaves[:3]...), Summary("iron works", At(.4), leaves[3:]...)
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), append(leaves, birds, metal)...)
	req := w.Request("what lives there")
	req.Pack, req.TopK, req.MaxLevel = new(retrieve.Similarity), new(4), nil
	s.same("without", []tree.ID{leaves[0].ID, leaves[1].ID, leaves[2].ID, leaves[3].ID}, Found(w.Retrieve(s, req).Hits))
	req.Parents = new(true)
	found := Found(w.Retrieve(s, req).Hits)
	if !slices.Contains(found, birds.ID) || slices.Contains(found, leaves[0].ID) || !slices.Contains(found, leaves[3].ID) || slices.Contains(found, metal.ID) {
		s.Errorf("found %v", found)
	}
	req.Budget = new(leaves[0].Tokens + leaves[1].Tokens + leaves[2].Tokens)
	if got := w.Retrieve(s, req); got.Tokens > *req.Budget {
		s.Errorf("%d tokens, the budget is %d", got.Tokens, *req.Budget)
	}
}

// broadQuestions: a question about the whole has upper levels among its hits; one about something in it has none but by merit.
func broadQuestions(s suite) {
	var leaves []tree.Node
	for i := range 20 {
		leaves = append(leaves, Leaf("a", 5*i, fmt.Sprintf("leaf number %d speaks of matter %d", i, 100+i), At(.9-float64(i)/1000)))
	}
	low := Summary("summary of the first ones", At(.3), leaves[:10]...)
	other := Summary("summary of the others", At(.2), leaves[10:]...)
	w := New(s, s.store, Built(s.corpus, tree.ScopeCorpus, true), append(leaves, low, other)...)
	for _, mode := range []retrieve.Mode{retrieve.Collapsed, retrieve.Blend, retrieve.Boost} {
		req := w.Request("What is this corpus about overall?")
		req.Mode, req.TopK, req.Pack = &mode, new(4), new(retrieve.Similarity)
		found := Found(w.Retrieve(s, req).Hits)
		if len(found) != 4 || !slices.Contains(found, low.ID) || !slices.Contains(found, other.ID) {
			s.Errorf("%s: found %v", mode, found)
		}
		req.Overview = new(0.0)
		if found := Found(w.Retrieve(s, req).Hits); slices.Contains(found, other.ID) {
			s.Errorf("%s without overview: found %v", mode, found)
		}
	}
}
