package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
)

// TestQueryRoundTrip: a query is the same on the other side of the wire, what wasn't given included.
func TestQueryRoundTrip(t *testing.T) {
	for name, want := range map[string]retrieve.Options{
		"nothing": {},
		"zeros":   {Budget: new(0), TopK: new(0), MinLevel: new(0), MaxLevel: new(3), Alpha: new(0.0), LeavesOnly: new(false), Stale: new(false)},
		"filters": {Documents: []string{"a", "b/c"}, Metadata: map[string]any{"year": 1998.0, "tag": "x", "good": true, "id": int64(1746714878034235397)},
			Where: []store.Where{{Key: "id", Op: store.In, Value: []any{int64(1746714878034235396), 1.0}}, {Key: "year", Op: store.Less, Value: int64(1)<<60 + 1}, {Key: "x", Op: store.Exists}}},
		"weights": {Sharpness: new(1.5), Context: new(0.0), SummaryWeight: new(0.9), Boost: new(2.0)},
		"counts":  {Pool: new(7), Candidates: new(1.5), Parents: new(true), Overview: new(0.25), PerLevel: new(3), LeavesOnly: new(true), Stale: new(true), Explain: new(true)},
		"words":   {Mode: new(retrieve.Blend), Pack: new(retrieve.Similarity), Fusion: new(retrieve.Reciprocal)},
	} {
		sent := api.Ask{Query: api.Query{Query: "what is it?", Vector: []float32{0.1, -2, 3e-7}, Options: want}, MinSimilarity: new(0.0)}
		data, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got api.Ask
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("%s, as %s (-want +got)\n%s", name, data, diff)
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
		r, err := retrieve.Request{Corpus: "c", Query: q.Query, Options: q.Options}.Settled()
		got := string(*r.Mode)
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
}

// TestErrorsOverTheWire: an error has the same sentence, hint, exit code and nature on the other side.
func TestErrorsOverTheWire(t *testing.T) {
	report := &api.IngestReport{Corpus: "c"}
	for _, c := range []struct {
		err          error
		status, exit int
		hint         string
	}{
		{api.Usagef("do this", "x is %d", 5), 422, 2, "do this"},
		{fmt.Errorf("wrapped: %w", api.Missingf("look", "no x")), 404, 1, "look"},
		{api.Conflictf("wait", "busy"), 409, 1, "wait"},
		{fmt.Errorf("ingest: %w", api.ErrPinned), 409, 2, ""},
		{fmt.Errorf("coordinator: %w", levels.ErrHeld), 409, 1, ""},
		{fmt.Errorf("natsqueue: %w", queue.ErrUnavailable), 503, 5, ""},
		{fmt.Errorf("llm: %w", llm.ErrUnreachable), 503, 5, ""},
		{fmt.Errorf("llm: %w", llm.ErrBudget), 409, 4, ""},
		{&retrieve.UsageError{Problems: []string{"budget is -1"}}, 422, 2, "aerie query --help lists the options"},
		{&retrieve.UnusedError{Option: "boost"}, 422, 2, "leave it out or choose another mode"},
		{fmt.Errorf("retrieve: %w", retrieve.ErrEmpty), 404, 1, "aerie ingest PATH brings text in; aerie status lists the corpora"},
		{errors.New("anything else"), 500, 1, ""},
		{&api.Error{Err: api.ErrUnknown, Status: http.StatusNotFound, Exit: 1, Report: report}, 404, 1, ""},
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
		if errors.Is(e, api.ErrUnknown) != errors.Is(c.err, api.ErrUnknown) {
			t.Errorf("%v has another nature on the other side", c.err)
		}
	}
}
