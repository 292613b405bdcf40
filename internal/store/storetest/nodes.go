package storetest

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

var nodeTests = []contractTest{
	{"RoundTrip", func(s *suite) {
		a, b := s.leaf("guide.md", 0, "first"), s.leaf("guide.md", 1, "second")
		a.Metadata = map[string]any{
			"title": "A \"quoted\" title", "page": 7.5, "draft": true,
			"tags": []string{"x", "y"}, "years": []float64{1999, 2024.25}, "flags": []bool{true, false},
		}
		sum := s.summary(1, 3, "both", a, b)
		sum.Died = 9
		s.put(a, b, sum)
		s.same("nodes", s.get(sum.ID, a.ID, b.ID), []tree.Node{sum, a, b})
	}},
	{"C10DocumentsBelongToSources", func(s *suite) {
		a, b, c := s.leaf("guide.md", 0, "first leaf"), s.leaf("guide.md", 1, "second leaf of it"), s.leaf("rows", 0, "third")
		a.Source, a.Path, a.Updated = "/home/ann/docs", "/home/ann/docs/guide.md", 1_700_000_000
		b.Source, b.Path, b.Updated = a.Source, a.Path, 1_700_000_777
		sum := s.summary(1, 1, "both", a, b)
		s.put(a, b, c, sum)
		s.same("nodes", s.get(a.ID, b.ID, c.ID, sum.ID), []tree.Node{a, b, c, sum})
		s.same("in order", s.each(store.Leaves()), []tree.Node{a, b, c})
		all := func() (documents []store.Document) {
			err := s.store.Documents(s.Context(), s.corpus, "", func(d store.Document) error { documents = append(documents, d); return nil })
			if err != nil {
				s.Fatal(err)
			}
			return documents
		}
		at := store.AnyLevel()
		at.Paths = []string{a.Path, "/nowhere"}
		s.same("by path", s.each(at), []tree.Node{a, b})
		s.same("Count by path", s.count(at), 2)
		s.same("Search by path", len(s.search(store.Query{Filter: at, Vector: vectorOf("x"), Limit: 9})), 2)
		at.Documents = []string{"rows"}
		s.same("by path and id", s.each(at), []tree.Node{})
		guide := store.Document{ID: "guide.md", Leaves: 2, Tokens: a.Tokens + b.Tokens, Source: a.Source, Path: a.Path, Updated: b.Updated}
		s.same("documents", all(), []store.Document{guide, {ID: "rows", Leaves: 1, Tokens: c.Tokens}})
		a.Source, a.Path, a.Updated = "handbook", "/mnt/guide.md", 1_700_001_000
		b.Source, b.Path, b.Updated = a.Source, a.Path, a.Updated
		s.put(a, b)
		s.same("moved", s.get(a.ID, b.ID), []tree.Node{a, b})
		guide.Source, guide.Path, guide.Updated = a.Source, a.Path, a.Updated
		s.same("documents then", all()[0], guide)
		sum.Source = "x"
		if err := s.store.Put(s.Context(), s.corpus, []tree.Node{sum}); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("a summary with a source: %v, want ErrInvalid", err)
		}
	}},
	{"C15ContextIsIndexedAndNoText", func(s *suite) {
		a, b := s.leaf("d", 0, "run brew install aerie"), s.leaf("d", 1, "run apt install aerie")
		a.Context, b.Context = "Guide › macOS", "Guide › Linux aerie"
		s.put(a, b)
		s.same("nodes", s.get(a.ID, b.ID), []tree.Node{a, b})
		s.same("by a word of the context", s.keyword("linux", 5, store.AnyLevel()), []string{b.Text})
		s.same("by one of both", len(s.keyword("guide aerie", 5, store.AnyLevel())), 2)
		bare, err := s.store.Get(s.Context(), s.corpus, []tree.ID{a.ID}, store.Fields{Vector: true})
		if err != nil {
			s.Fatal(err)
		}
		s.same("without text", bare[0].Context, "")
		b.Context = "Guide › Windows"
		s.put(b)
		s.same("by the word that is gone", s.keyword("linux", 5, store.AnyLevel()), []string{})
		s.same("by the new one", s.keyword("windows", 5, store.AnyLevel()), []string{b.Text})
		if err := s.store.Delete(s.Context(), s.corpus, []tree.ID{b.ID}); err != nil {
			s.Fatal(err)
		}
		s.same("of a deleted leaf", s.keyword("windows", 5, store.AnyLevel()), []string{})
		s.same("the other", s.keyword("macos", 5, store.AnyLevel()), []string{a.Text})
	}},
	{"CarriedSummaries", func(s *suite) {
		a, b, c := s.leaf("d", 0, "first"), s.leaf("d", 1, "second"), s.leaf("d", 2, "third")
		a.Metadata = map[string]any{"author": "somebody", "unseen": 1.0}
		made := s.summary(1, 1, "both", a, b)
		made.Unseen, made.Formed = 7, 200
		carried := made
		carried.Author, carried.Children, carried.NLeaves, carried.Born = made.ID, []tree.ID{a.ID, b.ID, c.ID}, 3, 2
		carried.ID = tree.CarriedID(s.corpus, made.DocumentID, 1, made.Recipe, made.ID, carried.Children)
		carried.Unseen, carried.Formed = 40, 0
		s.put(a, b, c, made, carried)
		s.same("nodes", s.get(carried.ID, made.ID, a.ID), []tree.Node{carried, made, a})
		s.same("summaries", s.each(store.Summaries().VisibleAt(1)), []tree.Node{made})
		hits := s.search(store.Query{Vector: made.Vector, Limit: 1, Filter: store.Summaries().VisibleAt(3), With: everything})
		s.same("found", hits[0].Node.Writer(), made.ID)
		carried.Unseen, carried.Formed = 41, 300
		s.put(carried)
		s.same("put again", s.get(carried.ID), []tree.Node{carried})
		carried.Unseen = -1
		if err := s.store.Put(s.Context(), s.corpus, []tree.Node{carried}); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("a node with -1 unseen tokens: %v, want ErrInvalid", err)
		}
	}},
	{"TextIsKeptByteForByte", func(s *suite) {
		var nodes []tree.Node
		for i, text := range []string{
			"", " \n\t ", "line\r\nline\r", "'; DROP TABLE nodes; --", `"a" OR "b" NEAR(c) -d ^e col:f*`, "100% _ \\ \x01",
			"肺癌的早期症状。咳嗽超过三周", "👩‍👩‍👧 e\u0301 ﬁ Å", "{\"json\": [1, null]}", "\u202eright to left\u202c", "\U0010FFFF",
		} {
			nodes = append(nodes, s.leaf("text", i, text))
		}
		s.put(nodes...)
		s.same("nodes", s.get(idsOf(nodes)...), nodes)
	}},
	{"NamesAreDataNotSyntax", func(s *suite) {
		var nodes []tree.Node
		for i, document := range []string{"a'b", `c"d`, "e%f", "g_h", "i\\j", "k/l?m#n", "文档", "' OR 1=1 --", " lead and trail ", "*"} {
			n := s.leaf(document, i, "text of "+document)
			n.Metadata = map[string]any{"name": document}
			nodes = append(nodes, n)
		}
		s.put(nodes...)
		for _, n := range nodes {
			s.same("of document "+n.DocumentID, s.each(store.AnyLevel().OfDocument(n.DocumentID)), []tree.Node{n})
			f := store.AnyLevel()
			f.Metadata = map[string]any{"name": n.DocumentID}
			s.same("with metadata "+n.DocumentID, s.each(f), []tree.Node{n})
			s.same("documents", s.documents(n.DocumentID), []store.Document{{ID: n.DocumentID, Leaves: 1}})
		}
	}},
	{"GetInOrderWithoutTheMissing", func(s *suite) {
		a, b, c := s.leaf("d", 0, "a"), s.leaf("d", 1, "b"), s.leaf("d", 2, "c")
		s.put(a, b)
		s.same("nodes", s.get(b.ID, c.ID, a.ID), []tree.Node{b, a})
		s.same("of no id", s.get(), []tree.Node{})
	}},
	{"GetIgnoresLife", func(s *suite) {
		n := s.leaf("d", 0, "a")
		n.Born, n.Died = 5, 6
		s.put(n)
		s.same("nodes", s.get(n.ID), []tree.Node{n})
	}},
	{"FieldsOnRequest", func(s *suite) {
		n := s.leaf("d", 0, "text")
		n.Metadata = map[string]any{"k": "v"}
		s.put(n)
		for _, with := range []store.Fields{{}, {Text: true}, {Vector: true}, {Metadata: true}} {
			want := n
			if !with.Text {
				want.Text = ""
			}
			if !with.Vector {
				want.Vector = nil
			}
			if !with.Metadata {
				want.Metadata = nil
			}
			got, err := s.store.Get(s.Context(), s.corpus, []tree.ID{n.ID}, with)
			if err != nil {
				s.Fatal(err)
			}
			s.same("Get", got, []tree.Node{want})
			hits := s.search(store.Query{Vector: n.Vector, Limit: 1, Filter: store.AnyLevel(), With: with})
			s.same("Search", []tree.Node{hits[0].Node}, []tree.Node{want})
		}
	}},
	{"PutAgainChangesNothing", func(s *suite) {
		a, b := s.leaf("d", 0, "a word"), s.leaf("d", 1, "another word")
		s.put(a, b)
		s.put(b, a)
		s.put(a)
		s.same("nodes", s.each(store.AnyLevel()), []tree.Node{a, b})
		s.same("keyword hits", len(s.keyword("word", 10, store.AnyLevel())), 2)
		s.same("search hits", len(s.search(store.Query{Vector: a.Vector, Limit: 10, Filter: store.AnyLevel()})), 2)
	}},
	{"PutReplaces", func(s *suite) {
		old := s.leaf("d", 0, "the old wording")
		old.Metadata = map[string]any{"k": "old", "only": "then"}
		s.put(old, s.leaf("d", 1, "something else"))
		n := old
		n.Text, n.Vector = "a new sentence", vectorOf("elsewhere")
		n.Metadata = map[string]any{"k": "new"}
		n.Born, n.Died, n.Tokens = 2, 8, 3
		s.put(n)
		s.same("node", s.get(n.ID), []tree.Node{n})
		s.same("hits of the old text", s.keyword("wording", 10, store.AnyLevel()), []string{})
		s.same("hits of the new text", s.keyword("sentence", 10, store.AnyLevel()), []string{n.Text})
		hits := s.search(store.Query{Vector: n.Vector, Limit: 10, Filter: store.AnyLevel(), With: store.Fields{Text: true}})
		s.same("number of hits", len(hits), 2)
		s.same("best hit", hits[0].Node.Text, n.Text)
		f := store.AnyLevel()
		f.Metadata = map[string]any{"k": "old"}
		s.same("nodes with the old metadata", s.count(f), 0)
	}},
	{"PutRevives", func(s *suite) {
		n := s.leaf("d", 0, "phoenix")
		s.put(n)
		if err := s.store.SetLife(s.Context(), s.corpus, []tree.ID{n.ID}, 0, tree.Deleted); err != nil {
			s.Fatal(err)
		}
		s.put(n)
		s.same("keyword hits", s.keyword("phoenix", 5, store.AnyLevel().VisibleAt(1)), []string{"phoenix"})
		s.same("documents", s.documents(""), []store.Document{{ID: "d", Leaves: 1}})
	}},
	{"PutErrorNamesTheNodesThatFailed", func(s *suite) {
		good := []tree.Node{s.leaf("d", 0, "a"), s.leaf("d", 1, "b"), s.leaf("d", 2, "c")}
		s.put(good[0])
		bad := map[string]error{}
		var nodes []tree.Node
		for i, b := range []struct {
			text   string
			vector []float32
			want   error
		}{
			{"narrow", make([]float32, width-1), store.ErrWidth},
			{"wide", slices.Repeat([]float32{0.1}, width+1), store.ErrWidth},
			{"missing", nil, store.ErrInvalid},
			{"zero", make([]float32, width), store.ErrInvalid},
			{"nan", append(slices.Repeat([]float32{0.1}, width-1), float32(math.NaN())), store.ErrInvalid},
			{"infinite", append(slices.Repeat([]float32{0.1}, width-1), float32(math.Inf(-1))), store.ErrInvalid},
		} {
			n := s.leaf("bad", i, b.text)
			n.Vector = b.vector
			if b.text == "narrow" {
				n.Vector[0] = 1
			}
			nodes = append(nodes, n)
			bad[n.ID.String()] = b.want
		}
		err := s.store.Put(s.Context(), s.corpus, append([]tree.Node{good[1]}, append(nodes, good[2])...))
		var putErr *store.PutError
		if !errors.As(err, &putErr) {
			s.Fatalf("Put: %v, want a *store.PutError", err)
		}
		s.same("number of failures", len(putErr.Failed), len(nodes))
		for id, err := range putErr.Failed {
			if want := bad[id.String()]; want == nil || !errors.Is(err, want) {
				s.Errorf("failure of %s: %v, want %v", id, err, want)
			}
		}
		if !errors.Is(err, store.ErrWidth) || !errors.Is(err, store.ErrInvalid) {
			s.Errorf("errors.Is doesn't see the causes in %v", err)
		}
		s.same("nodes", s.each(store.AnyLevel()), good)
	}},
	{"FirstNodeDecidesTheWidth", func(s *suite) {
		a, b := s.leaf("d", 0, "a"), s.leaf("d", 1, "b")
		b.Vector = []float32{1, 0, 0}
		err := s.store.Put(s.Context(), s.corpus, []tree.Node{a, b})
		var putErr *store.PutError
		if !errors.As(err, &putErr) || !errors.Is(putErr.Failed[b.ID], store.ErrWidth) || len(putErr.Failed) != 1 {
			s.Fatalf("Put: %v, want ErrWidth for the second node", err)
		}
		s.same("nodes", s.each(store.AnyLevel()), []tree.Node{a})
		other := s.corpus + "-other"
		if err := s.store.Put(s.Context(), other, []tree.Node{b}); err != nil {
			s.Errorf("Put of another width to another corpus: %v", err)
		}
		if err := s.store.Drop(s.Context(), other); err != nil {
			s.Error(err)
		}
	}},
	{"InvalidNodes", func(s *suite) {
		metadata := s.leaf("d", 0, "metadata")
		metadata.Metadata = map[string]any{"nested": map[string]any{"a": 1.0}}
		level := s.leaf("d", 1, "level")
		level.Level = -1
		err := s.store.Put(s.Context(), s.corpus, []tree.Node{metadata, level})
		var putErr *store.PutError
		if !errors.As(err, &putErr) || len(putErr.Failed) != 2 {
			s.Fatalf("Put: %v, want two failures", err)
		}
		for id, err := range putErr.Failed {
			if !errors.Is(err, store.ErrInvalid) {
				s.Errorf("failure of %s: %v, want ErrInvalid", id, err)
			}
		}
		s.same("count", s.count(store.AnyLevel()), 0)
	}},
	{"ArgumentsAreNeitherKeptNorChanged", func(s *suite) {
		n := s.leaf("d", 0, "text")
		n.Metadata = map[string]any{"tags": []string{"x"}}
		sum := s.summary(1, 1, "sum", n)
		arg := []tree.Node{n, sum}
		arg[0].Vector = slices.Clone(n.Vector)
		arg[1].Children = slices.Clone(sum.Children)
		arg[0].Metadata = map[string]any{"tags": []string{"x"}}
		s.put(arg...)
		s.same("argument", arg, []tree.Node{n, sum})
		arg[0].Vector[0] = 42
		arg[1].Children[0] = tree.ID{1}
		arg[0].Metadata["tags"].([]string)[0] = "changed"
		got := s.get(n.ID, sum.ID)
		s.same("nodes", got, []tree.Node{n, sum})
		got[0].Vector[0] = 42
		got[0].Metadata["tags"].([]string)[0] = "changed"
		got[1].Children[0] = tree.ID{1}
		s.same("nodes after a change of what was returned", s.get(n.ID, sum.ID), []tree.Node{n, sum})
	}},
	{"LargePut", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("paragraph number %d of a large document", 1200) {
			nodes = append(nodes, s.leaf("large", i, text))
		}
		s.put(nodes...)
		s.same("count", s.count(store.AnyLevel()), len(nodes))
		s.same("nodes", s.each(store.AnyLevel()), nodes)
	}},
	{"CorporaAreApart", func(s *suite) {
		other := s.corpus + "-other"
		n := s.leaf("d", 0, "shared words here")
		s.put(n)
		m := n
		m.Text = "shared words there"
		if err := s.store.Put(s.Context(), other, []tree.Node{m}); err != nil {
			s.Fatal(err)
		}
		s.same("node", s.get(n.ID), []tree.Node{n})
		s.same("keyword hits", s.keyword("shared", 10, store.AnyLevel()), []string{n.Text})
		s.same("search hits", textsOf(s.search(store.Query{Vector: n.Vector, Limit: 9, Filter: store.AnyLevel(), With: everything})), []string{n.Text})
		if err := s.store.Drop(s.Context(), other); err != nil {
			s.Fatal(err)
		}
		s.same("node after the other corpus was dropped", s.get(n.ID), []tree.Node{n})
		s.same("keyword hits after that", s.keyword("shared", 10, store.AnyLevel()), []string{n.Text})
	}},
	{"UnknownCorpusIsEmpty", func(s *suite) {
		id := tree.ID{1}
		s.same("Get", s.get(id), []tree.Node{})
		s.same("Each", s.each(store.AnyLevel()), []tree.Node{})
		s.same("Count", s.count(store.AnyLevel()), 0)
		s.same("Documents", s.documents(""), []store.Document{})
		s.same("Search", s.search(store.Query{Vector: vectorOf("x"), Limit: 1, Filter: store.AnyLevel()}), []store.Hit{})
		s.same("Keyword", s.keyword("x", 1, store.AnyLevel()), []string{})
		for what, err := range map[string]error{
			"SetLife": s.store.SetLife(s.Context(), s.corpus, []tree.ID{id}, 0, 1),
			"Delete":  s.store.Delete(s.Context(), s.corpus, []tree.ID{id}),
			"Drop":    s.store.Drop(s.Context(), s.corpus),
			"Put":     s.store.Put(s.Context(), s.corpus, nil),
		} {
			if err != nil {
				s.Errorf("%s: %v", what, err)
			}
		}
	}},
	{"EndedContext", func(s *suite) {
		n := s.leaf("d", 0, "a")
		s.put(n)
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		_, getErr := s.store.Get(ctx, s.corpus, []tree.ID{n.ID}, everything)
		_, searchErr := s.store.Search(ctx, s.corpus, store.Query{Vector: n.Vector, Limit: 1})
		for what, err := range map[string]error{
			"Put":    s.store.Put(ctx, s.corpus, []tree.Node{s.leaf("d", 1, "b")}),
			"Get":    getErr,
			"Each":   s.store.Each(ctx, s.corpus, store.AnyLevel(), everything, func(*tree.Node) error { return nil }),
			"Search": searchErr,
			"Delete": s.store.Delete(ctx, s.corpus, []tree.ID{n.ID}),
		} {
			if !errors.Is(err, context.Canceled) {
				s.Errorf("%s: %v, want context.Canceled", what, err)
			}
		}
	}},
}
