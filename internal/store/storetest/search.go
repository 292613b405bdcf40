package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// expected is what Search must return, by its definition.
func expected(nodes []tree.Node, query []float32, limit int) []store.Hit {
	var hits []store.Hit
	for _, n := range nodes {
		dot := 0.0
		for i := range query {
			dot += float64(query[i]) * float64(n.Vector[i])
		}
		hits = append(hits, store.Hit{Node: n, Score: dot})
	}
	slices.SortFunc(hits, func(a, b store.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Node.ID.Compare(b.Node.ID))
	})
	return hits[:min(limit, len(hits))]
}

// sameHits compares ids exactly and scores within 1e-5: vectors are float32 of length 1, so sums of a few hundred
// products agree to about 1e-6 in whatever order they are made. Neighbors in the order whose scores are closer than that
// don't occur in the suite's random vectors, but for ties, which are exact.
func (s *suite) sameHits(what string, got, want []store.Hit) {
	s.Helper()
	var gotIDs, wantIDs []tree.ID
	for _, h := range got {
		gotIDs = append(gotIDs, h.Node.ID)
	}
	for _, h := range want {
		wantIDs = append(wantIDs, h.Node.ID)
	}
	s.same("ids of "+what, gotIDs, wantIDs)
	for i := range min(len(got), len(want)) {
		if math.Abs(got[i].Score-want[i].Score) > 1e-5 {
			s.Errorf("%s: hit %d has score %v, want %v", what, i, got[i].Score, want[i].Score)
		}
	}
}

var searchTests = []contractTest{
	{"NearestByCosine", func(s *suite) {
		a, b, c, d := s.leaf("d", 0, "a"), s.leaf("d", 1, "b"), s.leaf("d", 2, "c"), s.leaf("d", 3, "d")
		unit := func(x, y float32) []float32 { v := make([]float32, width); v[0], v[1] = x, y; return v }
		a.Vector, b.Vector, c.Vector, d.Vector = unit(1, 0), unit(0.6, 0.8), unit(0, 1), unit(-1, 0)
		s.put(a, b, c, d)
		hits := s.search(store.Query{Vector: unit(1, 0), Limit: 10, Filter: store.AnyLevel(), With: everything})
		s.sameHits("hits", hits, []store.Hit{{Node: a, Score: 1}, {Node: b, Score: 0.6}, {Node: c, Score: 0}, {Node: d, Score: -1}})
		s.same("nodes", []tree.Node{hits[0].Node, hits[1].Node, hits[2].Node, hits[3].Node}, []tree.Node{a, b, c, d})
	}},
	{"AgainstBruteForceWithFilters", func(s *suite) {
		nodes := s.library()
		random := rand.New(rand.NewPCG(7, 7))
		for name, f := range filters() {
			for _, limit := range []int{1, 3, 100} {
				query := randomVector(random, width)
				want := expected(kept(nodes, func(n *tree.Node) bool { return f.keeps(n) && n.Died != tree.Deleted }), query, limit)
				got := s.search(store.Query{Vector: query, Limit: limit, Filter: f.filter})
				s.checkHits(got, limit)
				s.sameHits(fmt.Sprintf("%s, limit %d", name, limit), got, want)
			}
		}
	}},
	{"AgainstBruteForceAtLarge", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("text %d", 2500) {
			nodes = append(nodes, s.leaf(fmt.Sprintf("doc-%d", i%10), i, text))
		}
		s.put(nodes...)
		random := rand.New(rand.NewPCG(8, 8))
		for range 5 {
			query := randomVector(random, width)
			s.sameHits("all", s.search(store.Query{Vector: query, Limit: 50, Filter: store.AnyLevel()}), expected(nodes, query, 50))
			few := kept(nodes, func(n *tree.Node) bool { return n.DocumentID == "doc-3" })
			s.sameHits("one document", s.search(store.Query{Vector: query, Limit: 50, Filter: store.AnyLevel().OfDocument("doc-3")}), expected(few, query, 50))
		}
	}},
	{"TiesById", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("copy %d", 40) {
			n := s.leaf("d", i, text)
			n.Vector = vectorOf("the same")
			nodes = append(nodes, n)
		}
		s.put(nodes...)
		query := vectorOf("the same")
		for _, limit := range []int{1, 7, 40} {
			s.sameHits("hits", s.search(store.Query{Vector: query, Limit: limit, Filter: store.AnyLevel()}), expected(nodes, query, limit))
		}
	}},
	{"SeesWritesAtOnce", func(s *suite) {
		var nodes []tree.Node
		query := vectorOf("query")
		for i, text := range numbered("text %d", 30) {
			n := s.leaf("d", i, text)
			nodes = append(nodes, n)
			s.put(n)
			s.sameHits("after a put", s.search(store.Query{Vector: query, Limit: 5, Filter: store.AnyLevel()}), expected(nodes, query, 5))
		}
		for len(nodes) > 0 {
			best := expected(nodes, query, 1)[0].Node
			if err := s.store.Delete(s.Context(), s.corpus, []tree.ID{best.ID}); err != nil {
				s.Fatal(err)
			}
			nodes = slices.DeleteFunc(nodes, func(n tree.Node) bool { return n.ID == best.ID })
			s.sameHits("after a delete", s.search(store.Query{Vector: query, Limit: 5, Filter: store.AnyLevel()}), expected(nodes, query, 5))
		}
	}},
	{"BadQueries", func(s *suite) {
		s.put(s.leaf("d", 0, "a"))
		nan := vectorOf("x")
		nan[3] = float32(math.NaN())
		for name, bad := range map[string]struct {
			query store.Query
			want  error
		}{
			"width":         {store.Query{Vector: make([]float32, width-1), Limit: 1}, store.ErrWidth},
			"no vector":     {store.Query{Limit: 1}, store.ErrInvalid},
			"not finite":    {store.Query{Vector: nan, Limit: 1}, store.ErrInvalid},
			"zero":          {store.Query{Vector: make([]float32, width), Limit: 1}, store.ErrInvalid},
			"no limit":      {store.Query{Vector: vectorOf("x")}, store.ErrInvalid},
			"minus a limit": {store.Query{Vector: vectorOf("x"), Limit: -1}, store.ErrInvalid},
		} {
			if _, err := s.store.Search(s.Context(), s.corpus, bad.query); !errors.Is(err, bad.want) {
				s.Errorf("Search with %s: %v, want %v", name, err, bad.want)
			}
		}
	}},
}
