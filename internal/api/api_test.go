package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestQueryRoundTrip: a request that goes over the wire as a query is the same request on the other side, whatever was asked for.
func TestQueryRoundTrip(t *testing.T) {
	low, high := 1, 3
	changes := map[string]func(*retrieve.Request){
		"defaults": func(*retrieve.Request) {},
		"zeros":    func(r *retrieve.Request) { r.Budget, r.TopK = 0, 0; r.MinLevel, r.MaxLevel = new(int), &high },
		"small":    func(r *retrieve.Request) { r.Budget, r.TopK, r.MinLevel = 500, 5, &low },
		"filters": func(r *retrieve.Request) {
			r.Documents, r.Metadata = []string{"a", "b/c"}, map[string]any{"year": 1998.0, "tag": "x", "good": true}
		},
		"vector":    func(r *retrieve.Request) { r.Vector = []float32{0.1, -2, 3e-7} },
		"pool":      func(r *retrieve.Request) { r.Pool, r.Stale, r.Explain = 7, true, true },
		"weights":   func(r *retrieve.Request) { r.Sharpness, r.Context, r.SummaryWeight = 1.5, 0, 0.9 },
		"boost":     func(r *retrieve.Request) { r.Mode, r.Boost, r.Candidates = retrieve.Boost, 2, 5 },
		"as it was": func(r *retrieve.Request) { r.Mode = retrieve.Boost },
		"traversal": func(r *retrieve.Request) { r.Mode, r.PerLevel, r.LeavesOnly = retrieve.Traversal, 3, true },
		"blend":     func(r *retrieve.Request) { r.Mode, r.Pack = retrieve.Blend, retrieve.Similarity },
		"fusion":    func(r *retrieve.Request) { r.Fusion = retrieve.Reciprocal },
	}
	for name, change := range changes {
		for _, alpha := range []float64{-1, 0, 0.3, 1} { // -1: not given
			want := retrieve.NewRequest("c", "what is it?")
			change(&want)
			given := alpha >= 0 && want.Mode != retrieve.Traversal
			if given {
				want.Alpha = alpha
			} else {
				want.Settle()
			}
			if want.Alpha == 0 || want.Alpha == 1 {
				want.Fusion = retrieve.Relative // has no effect then, and isn't sent
			}
			data, err := json.Marshal(api.QueryOf(want, given))
			if err != nil {
				t.Fatal(err)
			}
			var q api.Query
			if err := json.Unmarshal(data, &q); err != nil {
				t.Fatal(err)
			}
			got, err := q.Request("c")
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, alpha %v, as %s: %v (-want +got)\n%s", name, alpha, data, err, diff)
			}
		}
	}
}

// TestQueryRefusals: an option without effect is refused, and one that belongs to a mode chooses it.
func TestQueryRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"query":"x","boost":2}`:                               "boost",
		`{"query":"x","per_level":2}`:                           "traversal",
		`{"query":"x"}`:                                         "collapsed",
		`{"query":"x","mode":"collapsed","boost":2}`:            "boost has no effect",
		`{"query":"x","mode":"traversal","alpha":0.5}`:          "traversal compares vectors alone",
		`{"query":"x","pack":"similarity","sharpness":1}`:       "sharpness has no effect",
		`{"query":"x","pack":"similarity","fusion":"relative"}`: "fusion has no effect",
		`{"query":"x","pool":0}`:                                "pool is 0",
	} {
		var q api.Query
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		r, err := q.Request("c")
		got := string(r.Mode)
		if err != nil {
			got = err.Error()
			if api.Judge(err).Exit != api.ExitUsage {
				t.Errorf("%s: exit %d", text, api.Judge(err).Exit)
			}
		}
		if !strings.HasPrefix(got, want) && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	q := api.Query{Query: "x", Documents: []string{}, Metadata: nil}
	if got := q.Given(); !slices.Equal(got, []string{"documents"}) {
		t.Errorf("given are %q", got)
	}
}

// TestErrorsOverTheWire: an error has the same sentence, hint, exit code and nature on the other side.
func TestErrorsOverTheWire(t *testing.T) {
	report := &ingest.Report{Corpus: "c"}
	for _, c := range []struct {
		err          error
		status, exit int
		hint         string
	}{
		{api.Usagef("do this", "x is %d", 5), 422, 2, "do this"},
		{fmt.Errorf("wrapped: %w", api.Missingf("look", "no x")), 404, 1, "look"},
		{api.Conflictf("wait", "busy"), 409, 1, "wait"},
		{fmt.Errorf("ingest: %w", ingest.ErrPinned), 409, 2, ""},
		{fmt.Errorf("coordinator: %w", levels.ErrHeld), 409, 1, ""},
		{fmt.Errorf("natsqueue: %w", queue.ErrUnavailable), 503, 5, ""},
		{fmt.Errorf("llm: %w", llm.ErrUnreachable), 503, 5, ""},
		{fmt.Errorf("llm: %w", llm.ErrBudget), 409, 4, ""},
		{&retrieve.UsageError{Problems: []string{"budget is -1"}}, 422, 2, "aerie query --help lists the options"},
		{fmt.Errorf("retrieve: %w", retrieve.ErrEmpty), 404, 1, "aerie ingest PATH brings text in; aerie status lists the corpora"},
		{errors.New("anything else"), 500, 1, ""},
		{&api.Error{Err: ingest.ErrUnknown, Status: http.StatusNotFound, Exit: 1, Report: report}, 404, 1, ""},
	} {
		data, err := json.Marshal(api.ProblemOf(c.err))
		if err != nil {
			t.Fatal(err)
		}
		var p api.Problem
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		e := p.Err()
		if e.Status != c.status || e.Exit != c.exit || e.Hint != c.hint || p.Title != http.StatusText(c.status) || p.Type != "about:blank" {
			t.Errorf("%v: %s", c.err, data)
		}
		if want := api.Judge(c.err).Error(); e.Error() != want {
			t.Errorf("the sentence is %q, want %q", e.Error(), want)
		}
		if errors.Is(e, ingest.ErrUnknown) != errors.Is(c.err, ingest.ErrUnknown) {
			t.Errorf("%v has another nature on the other side", c.err)
		}
	}
}
