package store

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/tree"
)

func TestFilterSelects(t *testing.T) {
	leaf := tree.Node{DocumentID: "a", Born: 2, Died: 5, Metadata: map[string]any{
		"s": "x", "n": 2.0, "b": true, "ss": []string{"x", "y"}, "ns": []float64{1, 2}, "bs": []bool{false},
	}}
	summary := tree.Node{Level: 2, DocumentID: tree.CorpusTree, Born: 1, Died: tree.Alive}
	with := func(key string, value any) Filter {
		f := AnyLevel()
		f.Metadata = map[string]any{key: value}
		return f
	}
	for name, test := range map[string]struct {
		filter        Filter
		leaf, summary bool
	}{
		"zero":                 {Filter{}, true, false},
		"any level":            {AnyLevel(), true, true},
		"leaves":               {Leaves(), true, false},
		"summaries":            {Summaries(), false, true},
		"level 1":              {Filter{MinLevel: 1, MaxLevel: 1}, false, false},
		"up to 2":              {Filter{MinLevel: 1, MaxLevel: 2}, false, true},
		"before birth":         {AnyLevel().VisibleAt(0), false, false},
		"at 1":                 {AnyLevel().VisibleAt(1), false, true},
		"at birth":             {AnyLevel().VisibleAt(2), true, true},
		"at the last":          {AnyLevel().VisibleAt(4), true, true},
		"at death":             {AnyLevel().VisibleAt(5), false, true},
		"document":             {AnyLevel().OfDocument("a"), true, false},
		"documents":            {Filter{MaxLevel: -1, Documents: []string{"b", tree.CorpusTree}}, false, true},
		"string":               {with("s", "x"), true, false},
		"other string":         {with("s", "X"), false, false},
		"number":               {with("n", 2.0), true, false},
		"number as string":     {with("n", "2"), false, false},
		"bool":                 {with("b", true), true, false},
		"other bool":           {with("b", false), false, false},
		"element":              {with("ss", "y"), true, false},
		"no element":           {with("ss", "z"), false, false},
		"element of numbers":   {with("ns", 2.0), true, false},
		"element of bools":     {with("bs", false), true, false},
		"number among strings": {with("ss", 1.0), false, false},
		"key that isn't there": {with("t", "x"), false, false},
	} {
		if got := test.filter.Selects(&leaf); got != test.leaf {
			t.Errorf("%s selects the leaf: %t, want %t", name, got, test.leaf)
		}
		if got := test.filter.Selects(&summary); got != test.summary {
			t.Errorf("%s selects the summary: %t, want %t", name, got, test.summary)
		}
	}
}

func TestCheckNode(t *testing.T) {
	good := tree.Node{ID: tree.ID{1}, Died: tree.Alive, Vector: []float32{0, 1}, Metadata: map[string]any{
		"s": "", "n": 1.5, "b": false, "ss": []string{}, "ns": []float64{1}, "bs": []bool{true},
	}}
	for _, width := range []int{0, 2} {
		if err := CheckNode(&good, width); err != nil {
			t.Errorf("width %d: %v", width, err)
		}
	}
	for name, test := range map[string]struct {
		change func(*tree.Node)
		want   error
		says   string
	}{
		"no id":           {func(n *tree.Node) { n.ID = tree.ID{} }, ErrInvalid, "without an id"},
		"level":           {func(n *tree.Node) { n.Level = -1 }, ErrInvalid, "level -1"},
		"born":            {func(n *tree.Node) { n.Born = -1 }, ErrInvalid, "life from -1"},
		"died":            {func(n *tree.Node) { n.Died = tree.Alive + 1 }, ErrInvalid, "life from 0"},
		"no vector":       {func(n *tree.Node) { n.Vector = nil }, ErrInvalid, "missing"},
		"narrow":          {func(n *tree.Node) { n.Vector = []float32{1} }, ErrWidth, "1 values where the corpus has 2"},
		"zero":            {func(n *tree.Node) { n.Vector = []float32{0, 0} }, ErrInvalid, "is 0"},
		"not a number":    {func(n *tree.Node) { n.Vector = []float32{1, float32(math.NaN())} }, ErrInvalid, "value 1 of the vector is NaN"},
		"infinite":        {func(n *tree.Node) { n.Vector = []float32{float32(math.Inf(1)), 1} }, ErrInvalid, "value 0 of the vector is +Inf"},
		"nested metadata": {func(n *tree.Node) { n.Metadata = map[string]any{"k": map[string]any{}} }, ErrInvalid, `metadata "k"`},
		"nil metadata":    {func(n *tree.Node) { n.Metadata = map[string]any{"k": nil} }, ErrInvalid, `metadata "k"`},
		"int metadata":    {func(n *tree.Node) { n.Metadata = map[string]any{"k": 1} }, ErrInvalid, `metadata "k"`},
		"nan metadata":    {func(n *tree.Node) { n.Metadata = map[string]any{"k": math.NaN()} }, ErrInvalid, `metadata "k"`},
		"nan in metadata": {func(n *tree.Node) { n.Metadata = map[string]any{"k": []float64{math.NaN()}} }, ErrInvalid, `metadata "k"`},
	} {
		n := good
		test.change(&n)
		if err := CheckNode(&n, 2); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, test.want, test.says)
		}
	}
}

func TestQueryValidate(t *testing.T) {
	for name, test := range map[string]struct {
		query Query
		ok    bool
	}{
		"good":              {Query{Limit: 1, Filter: AnyLevel()}, true},
		"no limit":          {Query{Filter: AnyLevel()}, false},
		"limit below 0":     {Query{Limit: -1}, false},
		"level below 0":     {Query{Limit: 1, Filter: Filter{MinLevel: -1}}, false},
		"empty range":       {Query{Limit: 1, Filter: Filter{MinLevel: 2, MaxLevel: 1}}, false},
		"list in metadata":  {Query{Limit: 1, Filter: Filter{Metadata: map[string]any{"k": []string{"a"}}}}, false},
		"value in metadata": {Query{Limit: 1, Filter: Filter{Metadata: map[string]any{"k": "a", "l": 1.0, "m": true}}}, true},
	} {
		if err := test.query.Validate(); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The error of a Put is the same in every run, and lets errors.Is see what went wrong.
func TestPutError(t *testing.T) {
	err := &PutError{Failed: map[tree.ID]error{{2}: ErrWidth, {1}: ErrInvalid, {3}: ErrWidth}}
	for range 20 {
		want := "store: 3 nodes were not written, one of them 01000000-0000-0000-0000-000000000000: invalid"
		if got := err.Error(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if !errors.Is(err, ErrWidth) || !errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported) {
		t.Error("errors.Is doesn't see the causes, or sees others")
	}
	if (&PutError{}).Error() == "" {
		t.Error("an empty error says nothing")
	}
}
