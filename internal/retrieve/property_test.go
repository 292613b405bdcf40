package retrieve_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Whatever is asked: no bound is exceeded, the order is that of the scores, and the same question has the same
// answer.
func TestBoundsHoldForEveryRequest(t *testing.T) {
	w := random(t, 11, 80)
	retriever := w.Retriever()
	rapid.Check(t, func(t *rapid.T) {
		req := retrieve.Request{Corpus: corpusName, Query: rapid.SampledFrom([]string{"w1", "w2 w9 w33", "nothing of it"}).Draw(t, "query")}
		mode := rapid.SampledFrom(retrieve.Modes()).Draw(t, "mode")
		req.Mode = &mode
		req.Pack = new(rapid.SampledFrom(retrieve.Packs()).Draw(t, "pack"))
		req.Budget = new(rapid.IntRange(0, 300).Draw(t, "budget"))
		req.TopK = new(rapid.IntRange(0, 12).Draw(t, "top-k"))
		switch mode {
		case retrieve.Traversal:
			req.PerLevel = new(rapid.IntRange(1, 6).Draw(t, "per-level"))
		case retrieve.Boost:
			req.Boost = new(rapid.Float64Range(0.1, 4).Draw(t, "boost"))
			req.Candidates = new(rapid.Float64Range(1, 4).Draw(t, "candidates"))
		}
		if mode != retrieve.Traversal {
			req.Pool = new(rapid.IntRange(1, 40).Draw(t, "pool"))
			req.Alpha = new(rapid.Float64Range(0.01, 0.99).Draw(t, "alpha"))
			req.Fusion = new(rapid.SampledFrom(retrieve.Fusions()).Draw(t, "fusion"))
		}
		if rapid.Bool().Draw(t, "bounded") {
			req.MinLevel = new(rapid.IntRange(0, 2).Draw(t, "min"))
			req.MaxLevel = new(*req.MinLevel + rapid.IntRange(0, 2).Draw(t, "span"))
		}
		req.Explain = new(rapid.Bool().Draw(t, "explain"))
		got, err := retriever.Retrieve(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i, h := range got.Hits {
			sum += h.Tokens
			if req.MinLevel != nil && (h.Level < *req.MinLevel || h.Level > *req.MaxLevel) {
				t.Fatalf("a hit is of level %d", h.Level)
			}
			if i > 0 && (h.Score > got.Hits[i-1].Score || h.Score == got.Hits[i-1].Score && h.ID.Compare(got.Hits[i-1].ID) <= 0) {
				t.Fatalf("hit %d is out of order, or twice there", i)
			}
		}
		if sum != got.Tokens || *req.Budget > 0 && sum > *req.Budget {
			t.Fatalf("%d tokens, %d are said, the budget is %d", sum, got.Tokens, *req.Budget)
		}
		if *req.TopK > 0 && len(got.Hits) > *req.TopK {
			t.Fatalf("%d hits, top-k is %d", len(got.Hits), *req.TopK)
		}
		again, err := w.Retriever().Retrieve(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(got, again); diff != "" {
			t.Fatalf("the second answer differs (-first +second):\n%s", diff)
		}
	})
}
