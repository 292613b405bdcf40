package storetest

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

var lifeTests = []contractTest{
	{"VisibleFromBornUntilDied", func(s *suite) {
		n := s.leaf("d", 0, "mortal")
		n.Born, n.Died = 2, 4
		s.put(n)
		for generation, want := range []int{0, 0, 1, 1, 0, 0} {
			f := store.AnyLevel().VisibleAt(generation)
			what := fmt.Sprintf("at generation %d", generation)
			s.same("Count "+what, s.count(f), want)
			s.same("Each "+what, len(s.each(f)), want)
			s.same("Search "+what, len(s.search(store.Query{Vector: n.Vector, Limit: 9, Filter: f})), want)
			s.same("Keyword "+what, len(s.keyword("mortal", 9, f)), want)
		}
		s.same("Count whatever the life", s.count(store.AnyLevel()), 1)
	}},
	{"AliveIsVisibleForEver", func(s *suite) {
		s.put(s.leaf("d", 0, "a"))
		s.same("count", s.count(store.AnyLevel().VisibleAt(tree.Alive-1)), 1)
	}},
	{"SetLife", func(s *suite) {
		a, b, c := s.leaf("d", 0, "word a"), s.leaf("d", 1, "word b"), s.leaf("d", 2, "word c")
		s.put(a, b, c)
		for range 2 { // again changes nothing
			if err := s.store.SetLife(s.Context(), s.corpus, []tree.ID{a.ID, {9}, c.ID}, 1, 3); err != nil {
				s.Fatal(err)
			}
			a.Born, a.Died, c.Born, c.Died = 1, 3, 1, 3
			s.same("nodes", s.each(store.AnyLevel()), []tree.Node{a, b, c})
		}
		s.same("keyword hits at 3", s.keyword("word", 9, store.AnyLevel().VisibleAt(3)), []string{"word b"})
		s.same("keyword hits at 2", len(s.keyword("word", 9, store.AnyLevel().VisibleAt(2))), 3)
		hits := s.search(store.Query{Vector: a.Vector, Limit: 9, Filter: store.AnyLevel().VisibleAt(3), With: everything})
		s.same("search hits at 3", textsOf(hits), []string{"word b"})
	}},
	{"DeletedIsNotFoundAtOnce", func(s *suite) {
		a, b := s.leaf("d", 0, "secret a"), s.leaf("d", 1, "secret b")
		s.put(a, b)
		s.same("keyword hits before", len(s.keyword("secret", 9, store.AnyLevel())), 2)
		if err := s.store.SetLife(s.Context(), s.corpus, []tree.ID{a.ID}, 0, tree.Deleted); err != nil {
			s.Fatal(err)
		}
		for _, f := range []store.Filter{store.AnyLevel(), store.AnyLevel().VisibleAt(0), store.AnyLevel().OfDocument("d"), store.Leaves()} {
			s.same("keyword hits", s.keyword("secret", 9, f), []string{"secret b"})
			s.same("search hits", textsOf(s.search(store.Query{Vector: a.Vector, Limit: 9, Filter: f, With: everything})), []string{"secret b"})
		}
		a.Died = tree.Deleted
		s.same("Get", s.get(a.ID), []tree.Node{a})
		s.same("Each whatever the life", s.each(store.AnyLevel()), []tree.Node{a, b})
		s.same("documents", s.documents(""), []store.Document{{ID: "d", Leaves: 1}})
	}},
	{"Delete", func(s *suite) {
		a, b, c := s.leaf("d", 0, "word a"), s.leaf("d", 1, "word b"), s.leaf("e", 0, "word c")
		c.Metadata = map[string]any{"k": "v"}
		s.put(a, b, c)
		for range 2 { // again changes nothing
			if err := s.store.Delete(s.Context(), s.corpus, []tree.ID{c.ID, {9}, a.ID}); err != nil {
				s.Fatal(err)
			}
			s.same("Each", s.each(store.AnyLevel()), []tree.Node{b})
			s.same("Get", s.get(a.ID, b.ID, c.ID), []tree.Node{b})
			s.same("Count", s.count(store.AnyLevel()), 1)
			s.same("Keyword", s.keyword("word", 9, store.AnyLevel()), []string{"word b"})
			s.same("Search", textsOf(s.search(store.Query{Vector: a.Vector, Limit: 9, Filter: store.AnyLevel(), With: everything})), []string{"word b"})
			s.same("Documents", s.documents(""), []store.Document{{ID: "d", Leaves: 1}})
		}
		s.put(c)
		s.same("Each after it was put again", s.each(store.AnyLevel()), []tree.Node{b, c})
		s.same("Keyword after that", s.keyword("c", 9, store.AnyLevel()), []string{"word c"})
	}},
	{"DeleteMany", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("common text %d", 1000) {
			nodes = append(nodes, s.leaf("d", i, text))
		}
		s.put(nodes...)
		if err := s.store.Delete(s.Context(), s.corpus, idsOf(nodes[1:])); err != nil {
			s.Fatal(err)
		}
		s.same("Each", s.each(store.AnyLevel()), nodes[:1])
		s.same("Keyword", s.keyword("common", 10, store.AnyLevel()), []string{"common text 0"})
		s.same("Search", len(s.search(store.Query{Vector: nodes[7].Vector, Limit: 10, Filter: store.AnyLevel()})), 1)
	}},
	{"Drop", func(s *suite) {
		a := s.leaf("d", 0, "word")
		s.put(a, s.summary(1, 1, "word of summary", a))
		for range 2 { // one that doesn't exist is no error
			if err := s.store.Drop(s.Context(), s.corpus); err != nil {
				s.Fatal(err)
			}
			s.same("Count", s.count(store.AnyLevel()), 0)
			s.same("Get", s.get(a.ID), []tree.Node{})
			s.same("Keyword", s.keyword("word", 9, store.AnyLevel()), []string{})
			s.same("Documents", s.documents(""), []store.Document{})
		}
		a.Vector = []float32{0, 1} // the width went with the corpus
		s.put(a)
		s.same("Each after it began anew", s.each(store.AnyLevel()), []tree.Node{a})
		s.same("Search after that", len(s.search(store.Query{Vector: []float32{1, 0}, Limit: 9, Filter: store.AnyLevel()})), 1)
	}},
}
