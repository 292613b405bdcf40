package retrieve_test

import (
	"context"
	"errors"
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
	req.Alpha = 0 // keywords compare no vectors
	if _, err := retrieve.New(retrieve.Config{}, w.Store, w.Corpora, retrievetest.Embedder{Model: "other"}).Retrieve(t.Context(), req); err != nil {
		t.Errorf("keywords alone: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for says, change := range map[string]func(*retrieve.Request){
		"no corpus":                  func(r *retrieve.Request) { r.Corpus = "" },
		"query is blank":             func(r *retrieve.Request) { r.Query = " \n\t" },
		`mode "boots"`:               func(r *retrieve.Request) { r.Mode = "boots" },
		`pack ""`:                    func(r *retrieve.Request) { r.Pack = "" },
		`fusion "sum"`:               func(r *retrieve.Request) { r.Fusion = "sum" },
		"budget is -1":               func(r *retrieve.Request) { r.Budget = -1 },
		"top-k is -1":                func(r *retrieve.Request) { r.TopK = -1 },
		"candidates is 0":            func(r *retrieve.Request) { r.Candidates = 0 },
		"per-level is 0":             func(r *retrieve.Request) { r.PerLevel = 0 },
		"pool is 0":                  func(r *retrieve.Request) { r.Pool = 0 },
		"alpha is 1.1":               func(r *retrieve.Request) { r.Alpha = 1.1 },
		"alpha is -0.1":              func(r *retrieve.Request) { r.Alpha = -0.1 },
		"alpha is NaN":               func(r *retrieve.Request) { r.Alpha = nan },
		"boost is 0":                 func(r *retrieve.Request) { r.Boost = 0 },
		"boost is -2":                func(r *retrieve.Request) { r.Boost = -2 },
		"boost is NaN":               func(r *retrieve.Request) { r.Boost = nan },
		"boost is +Inf":              func(r *retrieve.Request) { r.Boost = inf },
		"sharpness is -1":            func(r *retrieve.Request) { r.Sharpness = -1 },
		"sharpness is +Inf":          func(r *retrieve.Request) { r.Sharpness = inf },
		"context is -0.5":            func(r *retrieve.Request) { r.Context = -.5 },
		"context is NaN":             func(r *retrieve.Request) { r.Context = nan },
		"summary-weight is 0":        func(r *retrieve.Request) { r.SummaryWeight = 0 },
		"min-level is -1":            func(r *retrieve.Request) { r.MinLevel = new(-1) },
		"max-level is -1":            func(r *retrieve.Request) { r.MaxLevel = new(-1) },
		"min-level 3 is above":       func(r *retrieve.Request) { r.MinLevel, r.MaxLevel = new(3), new(2) },
		"shuts out the leaves":       func(r *retrieve.Request) { r.MinLevel, r.LeavesOnly = new(1), true },
		"traversal compares vectors": func(r *retrieve.Request) { r.Mode, r.Alpha = retrieve.Traversal, .5 },
		"empty id":                   func(r *retrieve.Request) { r.Documents = []string{"a", ""} },
		`metadata "k" is asked`:      func(r *retrieve.Request) { r.Metadata = map[string]any{"k": []string{"v"}} },
		`metadata "n" is asked`:      func(r *retrieve.Request) { r.Metadata = map[string]any{"n": nan} },
		"not finite":                 func(r *retrieve.Request) { r.Vector = []float32{float32(inf)} },
	} {
		req := retrieve.NewRequest(corpusName, "why")
		if err := req.Validate(); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		change(&req)
		err := req.Validate()
		var usage *retrieve.UsageError
		if !errors.As(err, &usage) || len(usage.Problems) != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want one usage problem that says %q", err, says)
		}
	}
	two := retrieve.NewRequest("", "")
	var usage *retrieve.UsageError
	if err := two.Validate(); !errors.As(err, &usage) || len(usage.Problems) != 2 {
		t.Errorf("two wrong values: %v", err)
	}
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		mode  retrieve.Mode
		pack  retrieve.Pack
		given []string
		want  float64
	}{
		{retrieve.Collapsed, retrieve.Coverage, nil, 0.7},
		{retrieve.Boost, retrieve.Coverage, []string{"boost"}, 0.7},
		{retrieve.Collapsed, retrieve.Similarity, nil, 1},
		{retrieve.Traversal, retrieve.Coverage, nil, 1},
		{retrieve.Collapsed, retrieve.Coverage, []string{"top_k", "alpha"}, 0.25},
	} {
		req := retrieve.NewRequest(corpusName, "q")
		req.Mode, req.Pack, req.Alpha = c.mode, c.pack, 0.25
		req.Settle(c.given...)
		if err := req.Validate(); req.Alpha != c.want || err != nil {
			t.Errorf("%+v: alpha is %v, %v", c, req.Alpha, err)
		}
	}
}

// FAULTS: infiniflow/ragflow 9482, 7019: settings that are silently not applied.
func TestUnused(t *testing.T) {
	names := []string{"boost", "candidates", "per_level", "leaves_only", "alpha", "fusion", "summary_weight", "budget"}
	for mode, want := range map[retrieve.Mode][]string{
		retrieve.Collapsed: {"boost", "candidates", "per_level", "leaves_only", "fusion"},
		retrieve.Boost:     {"per_level", "leaves_only", "fusion", "summary_weight"},
		retrieve.Traversal: {"boost", "candidates", "alpha", "fusion"},
	} {
		req := retrieve.NewRequest(corpusName, "q")
		req.Mode = mode
		if diff := gocmp.Diff(want, req.Unused(names...)); diff != "" {
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
		"Keyword": func(r *retrieve.Request) { r.Alpha = .5 },
		"Get":     func(r *retrieve.Request) { r.Pack = retrieve.Coverage },
		"Count":   func(r *retrieve.Request) { r.Mode = retrieve.Traversal },
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
