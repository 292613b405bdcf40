package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The numbers that a float64 can't tell apart, the ends of 64 bits, and what is beside them.
var wholeNumbers = []any{
	int64(1746714878034235396), int64(1746714878034235397), int64(-1746714878034235397), int64(math.MaxInt64), int64(math.MaxInt64 - 1),
	int64(math.MinInt64), int64(1 << 53), int64(1<<53 + 1), float64(1<<53 - 1), 3.0, 2.5, 1e300, -1e300,
}

// whereTests hold a store to its conditions on metadata. Each selection is compared with [store.Filter.Selects].
var whereTests = []contractTest{
	{"C9WholeNumbersOf64Bits", func(s *suite) {
		var nodes []tree.Node
		for i, v := range wholeNumbers {
			n := s.leaf("d", i, fmt.Sprint("number ", i))
			n.Metadata = tree.Metadata{"n": v}
			nodes = append(nodes, n)
		}
		list := s.leaf("d", len(nodes), "list")
		list.Metadata = tree.Metadata{"n": []int64{1746714878034235396, 7}, "of floats": []float64{0.5}}
		nodes = append(nodes, list)
		s.put(nodes...)
		s.same("nodes", s.get(idsOf(nodes)...), nodes)
		for _, v := range append(wholeNumbers, int64(7)) {
			for _, op := range []store.Op{store.Equal, store.NotEqual, store.Less, store.LessOrEqual, store.Greater, store.GreaterOrEqual} {
				s.selects(nodes, store.Where{Key: "n", Op: op, Value: v})
			}
		}
		s.same("of an equal number", s.count(where(store.Where{Key: "n", Op: store.Equal, Value: int64(1746714878034235397)})), 1)
		nodes[0].Metadata = tree.Metadata{"n": 1.0}
		s.put(nodes[0])
		s.same("replaced by a small one", s.get(nodes[0].ID), nodes[:1])
	}},
	{"C21Operators", func(s *suite) {
		var nodes []tree.Node
		for i, m := range []tree.Metadata{
			{"year": 1999.0, "lang": "en", "draft": true, "day": "2026-11-30"}, {"year": 2020.0, "lang": "de", "draft": false, "day": "2026-12-01"},
			{"year": 2020.5, "lang": "EN"}, {"lang": []string{"en", "fr"}, "year": []float64{1, 3000}}, {"year": "2020", "lang": " en"}, {"lang": ""}, nil,
			{"flags": []bool{true, false}, "Odd key": "x'y", "lang": "zz"},
		} {
			n := s.leaf("d", i, fmt.Sprint("leaf of river ", i))
			n.Metadata = m
			nodes = append(nodes, n)
		}
		nodes = append(nodes, s.summary(1, 0, "summary of river", nodes...))
		s.put(nodes...)
		for _, w := range []store.Where{
			{Key: "draft", Op: store.NotEqual, Value: true}, {Key: "draft", Op: store.Equal, Value: false}, {Key: "flags", Op: store.Equal, Value: true},
			{Key: "lang", Op: store.In, Value: []any{"de", "fr", "none"}}, {Key: "year", Op: store.In, Value: []any{1999.0, "2020", true}},
			{Key: "lang", Op: store.In, Value: []any{""}}, {Key: "nothing", Op: store.In, Value: []any{"x"}},
			{Key: "year", Op: store.Exists}, {Key: "lang", Op: store.Exists}, {Key: "draft", Op: store.Exists}, {Key: "flags", Op: store.Exists}, {Key: "nothing", Op: store.Exists},
			{Key: "nothing", Op: store.NotEqual, Value: 1.0}, {Key: "nothing", Op: store.Less, Value: 1.0}, {Key: "Odd key", Op: store.Equal, Value: "x'y"},
		} {
			s.selects(nodes, w)
		}
		for _, op := range []store.Op{store.Equal, store.NotEqual, store.Less, store.LessOrEqual, store.Greater, store.GreaterOrEqual} {
			for _, v := range []any{"en", "", " en", "zzz"} {
				s.selects(nodes, store.Where{Key: "lang", Op: op, Value: v})
			}
			for _, v := range []any{2020.0, 2020.25, -1e308, 1e308} {
				s.selects(nodes, store.Where{Key: "year", Op: op, Value: v})
			}
			s.selects(nodes, store.Where{Key: "day", Op: op, Value: "2026-12-01"})
		}
		s.selects(nodes, store.Where{Key: "year", Op: store.GreaterOrEqual, Value: 2000.0}, store.Where{Key: "lang", Op: store.NotEqual, Value: "de"})
		keys, err := s.store.MetadataKeys(s.Context(), s.corpus)
		if err != nil {
			s.Fatal(err)
		}
		s.same("keys", keys, []string{"Odd key", "day", "draft", "flags", "lang", "year"})
		if keys, err = s.store.MetadataKeys(s.Context(), "no corpus"); len(keys) > 0 || err != nil {
			s.Errorf("keys of no corpus: %v, %v", keys, err)
		}
	}},
	{"C21ConditionsOutOfRange", func(s *suite) {
		for _, w := range []store.Where{
			{Op: store.Equal, Value: "x"}, {Key: "k", Op: "~", Value: "x"}, {Key: "k", Op: store.Exists, Value: "x"}, {Key: "k", Op: store.In, Value: "x"},
			{Key: "k", Op: store.In, Value: []any{}}, {Key: "k", Op: store.Less, Value: true}, {Key: "k", Op: store.Less, Value: math.NaN()}, {Key: "k", Op: store.Equal},
		} {
			if _, err := s.store.Count(s.Context(), s.corpus, where(w)); !errors.Is(err, store.ErrInvalid) {
				s.Errorf("%v: %v, want ErrInvalid", w, err)
			}
		}
	}},
}

func where(conditions ...store.Where) store.Filter {
	f := store.AnyLevel()
	f.Where = conditions
	return f
}

// selects checks what conditions keep, in every kind of read.
func (s *suite) selects(nodes []tree.Node, conditions ...store.Where) {
	s.Helper()
	f := where(conditions...)
	want := kept(nodes, f.Selects)
	what := fmt.Sprint(conditions)
	s.same("Each "+what, s.each(f), want)
	s.same("Count "+what, s.count(f), len(want))
	hits := s.search(store.Query{Filter: f, Vector: vectorOf("x"), Limit: len(nodes)})
	s.same("Search "+what, len(hits), len(want))
	var words int
	for _, n := range want {
		if strings.Contains(n.Text, "river") {
			words++
		}
	}
	s.same("Keyword "+what, len(s.keyword("river", len(nodes), f)), words)
}
