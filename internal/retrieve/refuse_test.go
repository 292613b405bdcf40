package retrieve_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/retrieve/retrievetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

var errAway = errors.New("away")

// awayStore is a store of which one method fails.
type awayStore struct {
	store.Store
	method string
}

func TestCorporaThatCannotBeAsked(t *testing.T) {
	s := newSmallTree()
	for name, c := range map[string]struct {
		change func(*retrievetest.World, *retrieve.Request)
		is     error
		says   string
	}{
		"unknown": {func(w *retrievetest.World, r *retrieve.Request) { r.Corpus = "d" }, retrieve.ErrUnknown, "there is c"},
		"none":    {func(w *retrievetest.World, r *retrieve.Request) { clear(w.Corpora.All) }, retrieve.ErrUnknown, "aerie ingest"},
		"no vector yet": {func(w *retrievetest.World, r *retrieve.Request) {
			w.Corpora.All[corpusName] = levels.Corpus{Name: corpusName}
		}, retrieve.ErrEmpty, "aerie ingest"},
		"all deleted": {func(w *retrievetest.World, r *retrieve.Request) {
			if err := w.Store.Drop(t.Context(), corpusName); err != nil {
				t.Fatal(err)
			}
		}, retrieve.ErrEmpty, "aerie ingest"},
	} {
		w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
		req := everything()
		c.change(w, &req)
		_, err := w.Retriever().Retrieve(t.Context(), req)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v, want %v that says %q", name, err, c.is, c.says)
		}
	}
}

func TestAnotherEmbedderIsRefused(t *testing.T) {
	s := newSmallTree()
	w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
	for name, c := range map[string]struct {
		embedder retrievetest.Embedder
		vector   []float32
		says     []string
	}{
		"name":            {retrievetest.Embedder{Model: "openai/large", Vector: retrievetest.Axis(0)}, nil, []string{"test, 8 wide", "openai/large", "embeddings.model back to test"}},
		"width":           {retrievetest.Embedder{Model: "test", Vector: []float32{1, 0}}, nil, []string{"8 wide", "2 wide"}},
		"width of vector": {retrievetest.OneVector, []float32{1, 0, 0}, []string{"8 wide", "3 wide"}},
	} {
		req := everything()
		req.Vector = c.vector
		_, err := retrieve.New(retrieve.Config{}, w.Store, w.Corpora, c.embedder).Retrieve(t.Context(), req)
		var refused *retrieve.EmbedderError
		if !errors.As(err, &refused) {
			t.Errorf("%s: error is %v, want an EmbedderError", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q doesn't say %q", name, err, part)
			}
		}
	}
	req := everything()
	req.Alpha = new(0.0) // keywords compare no vectors
	if _, err := retrieve.New(retrieve.Config{}, w.Store, w.Corpora, retrievetest.Embedder{Model: "other"}).Retrieve(t.Context(), req); err != nil {
		t.Errorf("keywords alone: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for says, change := range map[string]func(*retrieve.Request){
		"no corpus":                  func(r *retrieve.Request) { r.Corpus = "" },
		"query is blank":             func(r *retrieve.Request) { r.Query = " \n\t" },
		`mode "boots"`:               func(r *retrieve.Request) { r.Mode = new(retrieve.Mode("boots")) },
		`pack ""`:                    func(r *retrieve.Request) { r.Pack = new(retrieve.Pack("")) },
		`fusion "sum"`:               func(r *retrieve.Request) { r.Fusion = new(retrieve.Fusion("sum")) },
		"budget is -1":               func(r *retrieve.Request) { r.Budget = new(-1) },
		"top-k is -1":                func(r *retrieve.Request) { r.TopK = new(-1) },
		"candidates is 0":            func(r *retrieve.Request) { r.Candidates = new(0.5) },
		"per-level is 0":             func(r *retrieve.Request) { r.PerLevel = new(0) },
		"pool is 0":                  func(r *retrieve.Request) { r.Pool = new(0) },
		"alpha is 1.1":               func(r *retrieve.Request) { r.Alpha = new(1.1) },
		"alpha is -0.1":              func(r *retrieve.Request) { r.Alpha = new(-0.1) },
		"alpha is NaN":               func(r *retrieve.Request) { r.Alpha = new(nan) },
		"boost is 0":                 func(r *retrieve.Request) { r.Boost = new(0.0) },
		"boost is -2":                func(r *retrieve.Request) { r.Boost = new(-2.0) },
		"boost is NaN":               func(r *retrieve.Request) { r.Boost = new(nan) },
		"boost is +Inf":              func(r *retrieve.Request) { r.Boost = new(inf) },
		"sharpness is -1":            func(r *retrieve.Request) { r.Sharpness = new(-1.0) },
		"sharpness is +Inf":          func(r *retrieve.Request) { r.Sharpness = new(inf) },
		"context is -0.5":            func(r *retrieve.Request) { r.Context = new(-.5) },
		"context is NaN":             func(r *retrieve.Request) { r.Context = new(nan) },
		"summary-weight is 0":        func(r *retrieve.Request) { r.SummaryWeight = new(0.0) },
		"min-level is -1":            func(r *retrieve.Request) { r.MinLevel = new(-1) },
		"max-level is -1":            func(r *retrieve.Request) { r.MaxLevel = new(-1) },
		"min-level 3 is above":       func(r *retrieve.Request) { r.MinLevel, r.MaxLevel = new(3), new(2) },
		"shuts out the leaves":       func(r *retrieve.Request) { r.MinLevel, r.LeavesOnly = new(1), new(true) },
		"traversal compares vectors": func(r *retrieve.Request) { r.Mode, r.Alpha = new(retrieve.Traversal), new(.5) },
		"empty id":                   func(r *retrieve.Request) { r.Documents = []string{"a", ""} },
		`metadata "k" is asked`:      func(r *retrieve.Request) { r.Metadata = map[string]any{"k": []string{"v"}} },
		`metadata "n" is asked`:      func(r *retrieve.Request) { r.Metadata = map[string]any{"n": nan} },
		"not finite":                 func(r *retrieve.Request) { r.Vector = []float32{float32(inf)} },
	} {
		req := retrieve.Request{Corpus: corpusName, Query: "why"}
		if _, err := req.Settled(); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		change(&req)
		_, err := req.Settled()
		var usage *retrieve.UsageError
		if !errors.As(err, &usage) || len(usage.Problems) != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want one usage problem that says %q", err, says)
		}
	}
	var usage *retrieve.UsageError
	if _, err := (retrieve.Request{}).Settled(); !errors.As(err, &usage) || len(usage.Problems) != 2 {
		t.Errorf("two wrong values: %v", err)
	}
}

// TestSettled: an option that wasn't given has its default, which depends on the others, and one that belongs to a mode chooses it.
func TestSettled(t *testing.T) {
	type options = retrieve.Options
	for _, c := range []struct {
		given options
		mode  retrieve.Mode
		alpha float64
	}{
		{options{}, retrieve.Collapsed, 0.7},
		{options{Boost: new(2.0)}, retrieve.Boost, 0.7},
		{options{Candidates: new(2.0)}, retrieve.Boost, 0.7},
		{options{PerLevel: new(2)}, retrieve.Traversal, 1},
		{options{LeavesOnly: new(false)}, retrieve.Traversal, 1},
		{options{Pack: new(retrieve.Similarity)}, retrieve.Collapsed, 1},
		{options{Pack: new(retrieve.Similarity), Alpha: new(0.25)}, retrieve.Collapsed, 0.25},
		{options{Alpha: new(0.0), TopK: new(3)}, retrieve.Collapsed, 0},
	} {
		got, err := retrieve.Request{Corpus: corpusName, Query: "q", Options: c.given}.Settled()
		if err != nil || *got.Mode != c.mode || *got.Alpha != c.alpha {
			t.Errorf("%+v: mode %s, alpha %v, %v", c.given, *got.Mode, *got.Alpha, err)
		}
	}
}

// TestOptionsByName: every option but the filters can be set by its name in JSON, and a text that isn't of its kind is refused.
func TestOptionsByName(t *testing.T) {
	words := map[string]string{"mode": "boost", "pack": "similarity", "fusion": "reciprocal", "leaves_only": "true", "stale": "true", "explain": "true"}
	var given retrieve.Options
	for _, name := range retrieve.Names() {
		text, ok := words[name]
		if !ok {
			text = "1"
		}
		if err := given.Set(name, text); err != nil {
			t.Error(err)
		}
		if err := new(retrieve.Options).Set(name, "?"); (err == nil) != slices.Contains([]string{"mode", "pack", "fusion", "hops"}, name) {
			t.Errorf("%s is ?: %v", name, err)
		}
	}
	given.Documents, given.Metadata = []string{"d"}, map[string]any{"k": true}
	raw, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	var inJSON map[string]any
	if err := json.Unmarshal(raw, &inJSON); err != nil {
		t.Fatal(err)
	}
	delete(inJSON, "documents")
	delete(inJSON, "metadata")
	names := retrieve.Names()
	slices.Sort(names)
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(inJSON)), names); diff != "" {
		t.Errorf("the names are not those in JSON (-JSON +names):\n%s", diff)
	}
}

// FAULTS: infiniflow/ragflow 9482, 7019: settings that are silently not applied.
func TestUnused(t *testing.T) {
	options := map[string]string{
		"boost": "2", "candidates": "2", "per_level": "2", "leaves_only": "true", "alpha": "1", "fusion": "relative", "summary_weight": "1", "budget": "1",
	}
	for mode, want := range map[retrieve.Mode][]string{
		retrieve.Collapsed: {"boost", "candidates", "leaves_only", "per_level"},
		retrieve.Boost:     {"leaves_only", "per_level", "summary_weight"},
		retrieve.Traversal: {"alpha", "boost", "candidates", "fusion"},
	} {
		var got []string
		for _, name := range slices.Sorted(maps.Keys(options)) {
			req := retrieve.Request{Corpus: corpusName, Query: "q", Options: retrieve.Options{Mode: &mode}}
			if err := req.Set(name, options[name]); err != nil {
				t.Fatal(err)
			}
			_, err := req.Settled()
			var unused *retrieve.UnusedError
			if errors.As(err, &unused) && unused.Option == name {
				got = append(got, name)
			} else if err != nil {
				t.Error(err)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}

func (a awayStore) Search(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if a.method == "Search" {
		return nil, errAway
	}
	return a.Store.Search(ctx, corpus, q)
}

func (a awayStore) Keyword(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if a.method == "Keyword" {
		return nil, errAway
	}
	return a.Store.Keyword(ctx, corpus, q)
}

func (a awayStore) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	if a.method == "Get" {
		return nil, errAway
	}
	return a.Store.Get(ctx, corpus, ids, with)
}

func (a awayStore) Count(ctx context.Context, corpus string, f store.Filter) (int, error) {
	if a.method == "Count" {
		return 0, errAway
	}
	return a.Store.Count(ctx, corpus, f)
}

// An answer is never made of what is left when a store fails.
func TestStoreErrorsEndAQuery(t *testing.T) {
	s := newSmallTree()
	for method, change := range map[string]func(*retrieve.Request){
		"Search":  func(r *retrieve.Request) {},
		"Keyword": func(r *retrieve.Request) { r.Alpha = new(.5) },
		"Get":     func(r *retrieve.Request) { r.Pack = new(retrieve.Coverage) },
		"Count":   func(r *retrieve.Request) { r.Mode = new(retrieve.Traversal) },
	} {
		w := newWorld(t, built(tree.ScopeCorpus, true), s.nodes()...)
		req := everything()
		change(&req)
		result, err := retrieve.New(retrieve.Config{}, awayStore{w.Store, method}, w.Corpora, retrievetest.OneVector).Retrieve(t.Context(), req)
		if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "corpus c") || len(result.Hits) > 0 {
			t.Errorf("%s: %d hits, error %v", method, len(result.Hits), err)
		}
	}
}
