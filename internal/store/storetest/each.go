package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// library puts a corpus of 4 documents with 5 leaves each, two levels of summaries, several lives and metadata,
// and returns its nodes in the order of Each.
func (s *suite) library() []tree.Node {
	var leaves []tree.Node
	for d, document := range []string{"Alpha", "alpha", "alpha/2", "Ökologie"} {
		for i := range 5 {
			n := s.leaf(document, i, fmt.Sprintf("leaf %d of %s", i, document))
			n.Metadata = map[string]any{"shelf": float64(d), "odd": i%2 == 1, "tags": []string{"all", fmt.Sprintf("t%d", i)}}
			leaves = append(leaves, n)
		}
	}
	leaves[3].Died = tree.Deleted
	leaves[8].Died = 2
	var low []tree.Node
	for i := range 4 {
		n := s.summary(1, 1+i%2, fmt.Sprintf("summary %d", i), leaves[5*i:5*i+5]...)
		if i == 1 {
			n.Scope, n.DocumentID = tree.ScopeDocument, "alpha"
		}
		low = append(low, n)
	}
	low[2].Died = 2
	top := s.summary(2, 2, "the top", low...)
	slices.SortFunc(low, func(a, b tree.Node) int {
		if a.DocumentID != b.DocumentID { // "alpha" comes before tree.CorpusTree
			return map[bool]int{true: -1, false: 1}[a.DocumentID < b.DocumentID]
		}
		return a.ID.Compare(b.ID)
	})
	ordered := append(append(slices.Clone(leaves), low...), top)
	shuffled := slices.Clone(ordered)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	s.put(shuffled[:9]...)
	s.put(shuffled[9:]...)
	return ordered
}

// filters are of every kind and combination that matters, each with what it keeps.
func filters() map[string]struct {
	filter store.Filter
	keeps  func(*tree.Node) bool
} {
	type entry = struct {
		filter store.Filter
		keeps  func(*tree.Node) bool
	}
	with := func(f store.Filter, metadata map[string]any) store.Filter { f.Metadata = metadata; return f }
	shelf := func(n *tree.Node) float64 { v, _ := n.Metadata["shelf"].(float64); return v }
	return map[string]entry{
		"any level":      {store.AnyLevel(), func(*tree.Node) bool { return true }},
		"leaves":         {store.Leaves(), func(n *tree.Node) bool { return n.Level == 0 }},
		"summaries":      {store.Summaries(), func(n *tree.Node) bool { return n.Level > 0 }},
		"level 1":        {store.Filter{MinLevel: 1, MaxLevel: 1}, func(n *tree.Node) bool { return n.Level == 1 }},
		"level 3 up":     {store.Filter{MinLevel: 3, MaxLevel: -1}, func(*tree.Node) bool { return false }},
		"at 0":           {store.AnyLevel().VisibleAt(0), func(n *tree.Node) bool { return n.Born == 0 && n.Died > 0 }},
		"at 1":           {store.AnyLevel().VisibleAt(1), func(n *tree.Node) bool { return n.Born <= 1 && n.Died > 1 }},
		"at 2":           {store.AnyLevel().VisibleAt(2), func(n *tree.Node) bool { return n.Born <= 2 && n.Died > 2 }},
		"summaries at 2": {store.Summaries().VisibleAt(2), func(n *tree.Node) bool { return n.Level > 0 && n.Died > 2 }},
		"one document":   {store.AnyLevel().OfDocument("alpha"), func(n *tree.Node) bool { return n.DocumentID == "alpha" }},
		"two documents": {store.Filter{MaxLevel: -1, Documents: []string{"alpha", "Ökologie", "none"}},
			func(n *tree.Node) bool { return n.DocumentID == "alpha" || n.DocumentID == "Ökologie" }},
		"corpus tree":          {store.AnyLevel().OfDocument(tree.CorpusTree), func(n *tree.Node) bool { return n.DocumentID == tree.CorpusTree }},
		"unknown document":     {store.AnyLevel().OfDocument("beta"), func(*tree.Node) bool { return false }},
		"leaves of a document": {store.Leaves().OfDocument("alpha"), func(n *tree.Node) bool { return n.Level == 0 && n.DocumentID == "alpha" }},
		"number":               {with(store.AnyLevel(), map[string]any{"shelf": 2.0}), func(n *tree.Node) bool { return n.IsLeaf() && shelf(n) == 2 }},
		"bool":                 {with(store.AnyLevel(), map[string]any{"odd": true}), func(n *tree.Node) bool { return n.IsLeaf() && n.ChunkIndex%2 == 1 }},
		"element of a list":    {with(store.AnyLevel(), map[string]any{"tags": "t4"}), func(n *tree.Node) bool { return n.IsLeaf() && n.ChunkIndex == 4 }},
		"two values": {with(store.AnyLevel(), map[string]any{"tags": "all", "shelf": 1.0, "odd": false}),
			func(n *tree.Node) bool { return n.IsLeaf() && shelf(n) == 1 && n.ChunkIndex%2 == 0 }},
		"number isn't its text":  {with(store.AnyLevel(), map[string]any{"shelf": "2"}), func(*tree.Node) bool { return false }},
		"bool isn't a number":    {with(store.AnyLevel(), map[string]any{"odd": 1.0}), func(*tree.Node) bool { return false }},
		"unknown key":            {with(store.AnyLevel(), map[string]any{"color": "red"}), func(*tree.Node) bool { return false }},
		"metadata and summaries": {with(store.Summaries(), map[string]any{"odd": true}), func(*tree.Node) bool { return false }},
		"all at once": {with(store.Leaves().VisibleAt(2).OfDocument("alpha"), map[string]any{"odd": true}),
			func(n *tree.Node) bool {
				return n.IsLeaf() && n.DocumentID == "alpha" && n.ChunkIndex%2 == 1 && n.Died > 2
			}},
	}
}

// kept returns the nodes for which keeps holds.
func kept(nodes []tree.Node, keeps func(*tree.Node) bool) []tree.Node {
	var out []tree.Node
	for i := range nodes {
		if keeps(&nodes[i]) {
			out = append(out, nodes[i])
		}
	}
	return out
}

var eachTests = []contractTest{
	{"OrderAndFilters", func(s *suite) {
		nodes := s.library()
		for name, f := range filters() {
			want := kept(nodes, f.keeps)
			s.same("Each of "+name, s.each(f.filter), want)
			s.same("Count of "+name, s.count(f.filter), len(want))
		}
	}},
	{"ZeroFilterIsLeavesOfAnyLife", func(s *suite) {
		nodes := s.library()
		s.same("nodes", s.each(store.Filter{}), kept(nodes, (*tree.Node).IsLeaf))
	}},
	{"InvalidFilter", func(s *suite) {
		s.library()
		bad := map[string]store.Filter{
			"negative level": {MinLevel: -1, MaxLevel: 3},
			"empty range":    {MinLevel: 3, MaxLevel: 1},
			"metadata type":  {MaxLevel: -1, Metadata: map[string]any{"shelf": []int{1}}},
		}
		for name, f := range bad {
			_, countErr := s.store.Count(s.Context(), s.corpus, f)
			_, searchErr := s.store.Search(s.Context(), s.corpus, store.Query{Filter: f, Vector: vectorOf("x"), Limit: 1})
			_, keywordErr := s.store.Keyword(s.Context(), s.corpus, store.Query{Filter: f, Text: "x", Limit: 1})
			for what, err := range map[string]error{
				"Count": countErr, "Search": searchErr, "Keyword": keywordErr,
				"Each": s.store.Each(s.Context(), s.corpus, f, everything, func(*tree.Node) error { return nil }),
			} {
				if !errors.Is(err, store.ErrInvalid) {
					s.Errorf("%s with %s: %v, want ErrInvalid", what, name, err)
				}
			}
		}
	}},
	{"EndsWithTheErrorOfFn", func(s *suite) {
		s.library()
		own := errors.New("own")
		calls := 0
		err := s.store.Each(s.Context(), s.corpus, store.AnyLevel(), store.Fields{}, func(*tree.Node) error {
			calls++
			if calls == 3 {
				return own
			}
			return nil
		})
		if !errors.Is(err, own) || calls != 3 {
			s.Errorf("Each: %v after %d calls, want the error of the third call", err, calls)
		}
	}},
	{"FnMayRead", func(s *suite) {
		nodes := s.library()
		var got []tree.ID
		err := s.store.Each(s.Context(), s.corpus, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
			children, err := s.store.Get(s.Context(), s.corpus, n.Children, everything)
			if err != nil {
				return err
			}
			if len(children) != len(n.Children) {
				return fmt.Errorf("%d of %d children", len(children), len(n.Children))
			}
			if _, err := s.store.Search(s.Context(), s.corpus, store.Query{Vector: vectorOf("x"), Limit: 1}); err != nil {
				return err
			}
			got = append(got, n.ID)
			return s.store.Each(s.Context(), s.corpus, store.Leaves(), store.Fields{}, func(*tree.Node) error { return nil })
		})
		if err != nil {
			s.Fatal(err)
		}
		s.same("summaries", got, idsOf(kept(nodes, func(n *tree.Node) bool { return n.Level > 0 })))
	}},
	{"OneConsistentState", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("page %d", 800) {
			nodes = append(nodes, s.leaf("d", i, text))
		}
		s.put(nodes...)
		var got []tree.ID
		err := s.store.Each(s.Context(), s.corpus, store.AnyLevel(), store.Fields{}, func(n *tree.Node) error {
			if len(got) == 0 { // another's writes, between this node and the next
				done := make(chan error, 1)
				go func() {
					err := s.store.Delete(inBackground(), s.corpus, idsOf(nodes[400:600]))
					if err == nil {
						err = s.store.Put(inBackground(), s.corpus, []tree.Node{s.leaf("e", 0, "later")})
					}
					done <- err
				}()
				if err := <-done; err != nil {
					return err
				}
			}
			got = append(got, n.ID)
			return nil
		})
		if err != nil {
			s.Fatal(err)
		}
		s.same("ids", got, idsOf(nodes))
		s.same("count after that", s.count(store.AnyLevel()), 601)
	}},
	{"WholeWhileLivesChange", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("leaf %d", 200) {
			nodes = append(nodes, s.leaf("d", i, text))
		}
		s.put(nodes...)
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() {
			for died := 3; ; died++ { // never one at which a reader at 1 loses sight of them
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if err := s.store.SetLife(inBackground(), s.corpus, idsOf(nodes), 0, died); err != nil {
					done <- err
					return
				}
			}
		}()
		for range 20 {
			var got []tree.ID
			err := s.store.Each(s.Context(), s.corpus, store.AnyLevel().VisibleAt(1), store.Fields{}, func(n *tree.Node) error {
				got = append(got, n.ID)
				return nil
			})
			if err != nil {
				s.Error(err)
			}
			if len(got) != len(nodes) {
				s.Errorf("a reader sees %d of %d nodes while their ends are moved", len(got), len(nodes))
			}
		}
		close(stop)
		if err := <-done; err != nil {
			s.Error(err)
		}
	}},
}

var documentTests = []contractTest{
	{"ById", func(s *suite) {
		s.library() // one leaf of Alpha is deleted
		s.same("documents", s.documents(""), []store.Document{{ID: "Alpha", Leaves: 4}, {ID: "alpha", Leaves: 5}, {ID: "alpha/2", Leaves: 5}, {ID: "Ökologie", Leaves: 5}})
	}},
	{"ByPrefix", func(s *suite) {
		s.library()
		s.same("alpha", s.documents("alpha"), []store.Document{{ID: "alpha", Leaves: 5}, {ID: "alpha/2", Leaves: 5}})
		s.same("Ö", s.documents("Ö"), []store.Document{{ID: "Ökologie", Leaves: 5}})
		s.same("b", s.documents("b"), []store.Document{})
		s.same("a%", s.documents("a%"), []store.Document{})
		s.same("raptor", s.documents("raptor:"), []store.Document{})
	}},
	{"WithoutDeletedLeaves", func(s *suite) {
		a, b := s.leaf("gone", 0, "a"), s.leaf("kept", 0, "b")
		s.put(a, b)
		if err := s.store.SetLife(s.Context(), s.corpus, []tree.ID{a.ID}, 0, tree.Deleted); err != nil {
			s.Fatal(err)
		}
		s.same("documents", s.documents(""), []store.Document{{ID: "kept", Leaves: 1}})
	}},
	{"InPages", func(s *suite) {
		s.same("of nothing", s.pages("", 2), []store.Document{})
		var want []store.Document
		var ids []tree.ID
		for _, name := range []string{"a", "a/1", "a/10", "a/2", "a%", "b", "ä", "\U0010ffff"} {
			leaves := []tree.Node{s.leaf(name, 0, "one"), s.leaf(name, 1, "two")}
			s.put(leaves...)
			ids = append(ids, leaves[0].ID, leaves[1].ID)
			d := store.Document{}
			d.Add(&leaves[0])
			d.Add(&leaves[1])
			want = append(want, d)
		}
		slices.SortFunc(want, func(a, b store.Document) int { return strings.Compare(a.ID, b.ID) })
		below := func(prefix string) (some []store.Document) {
			some = []store.Document{}
			for _, d := range want {
				if strings.HasPrefix(d.ID, prefix) {
					some = append(some, d)
				}
			}
			return some
		}
		check := func(when string) {
			s.Helper()
			for _, prefix := range []string{"", "a", "a/", "a/1", "b", "c", "\U0010ffff"} {
				for _, limit := range []int{1, 2, 3, 100} {
					s.same(fmt.Sprintf("%s: %q, pages of %d", when, prefix, limit), s.pages(prefix, limit), below(prefix))
				}
			}
		}
		check("all")
		life := func(died int, which ...tree.ID) {
			s.Helper()
			if err := s.store.SetLife(s.Context(), s.corpus, which, 0, died); err != nil {
				s.Fatal(err)
			}
		}
		life(tree.Deleted, ids[0], ids[2], ids[3]) // one of "a", both of "a/1"
		whole := slices.Clone(want)
		want[0].Leaves, want[0].Tokens = 1, want[0].Tokens/2
		want = slices.DeleteFunc(want, func(d store.Document) bool { return d.ID == "a/1" })
		check("some hidden")
		life(tree.Alive, ids[0], ids[2], ids[3])
		want = whole
		check("brought back")
		if err := s.store.Delete(s.Context(), s.corpus, ids[2:6]); err != nil {
			s.Fatal(err)
		}
		want = slices.DeleteFunc(want, func(d store.Document) bool { return d.ID == "a/1" || d.ID == "a/10" })
		check("some deleted")
		if err := s.store.Drop(s.Context(), s.corpus); err != nil {
			s.Fatal(err)
		}
		want = nil
		check("dropped")
	}},
	{"EndsWithTheErrorOfFn", func(s *suite) {
		s.library()
		own := errors.New("own")
		calls := 0
		err := s.store.Documents(s.Context(), s.corpus, "", func(store.Document) error { calls++; return own })
		if !errors.Is(err, own) || calls != 1 {
			s.Errorf("Documents: %v after %d calls, want the error of the first call", err, calls)
		}
	}},
	{"FnMayRead", func(s *suite) {
		s.library()
		leaves := 0
		err := s.store.Documents(s.Context(), s.corpus, "", func(d store.Document) error {
			n, err := s.store.Count(s.Context(), s.corpus, store.Leaves().OfDocument(d.ID))
			leaves += n
			return err
		})
		if err != nil {
			s.Fatal(err)
		}
		s.same("leaves", leaves, 20)
	}},
}
