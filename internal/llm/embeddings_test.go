package llm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

func embeddings(base string) llm.EmbeddingsConfig {
	cfg := llm.DefaultEmbeddings()
	cfg.Provider, cfg.BaseURL, cfg.Model = llm.ProviderOpenAI, base, "minilm"
	return cfg
}

func embedder(t *testing.T, cfg llm.EmbeddingsConfig, change func(*llm.Deps)) llm.Embedder {
	t.Helper()
	deps := llm.Deps{Counter: counter{}, Jitter: noWait, Log: quiet(), Transport: transport(t)}
	if change != nil {
		change(&deps)
	}
	e, err := llm.NewEmbedder(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func numbered(n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("passage number%d about thing%d", i, i%7))
	}
	return texts
}

func wantVectors(texts []string, width int) [][]float32 {
	var out [][]float32
	for _, t := range texts {
		out = append(out, llmtest.Vector(t, width))
	}
	return out
}

// near allows for the rounding of bringing vectors to unit length again.
var near = cmp.Comparer(func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 })

// An endpoint that fails in every way still gives every vector, in order, in batches within the bounds.
func TestEmbeddingsThroughAllFaults(t *testing.T) {
	t.Parallel()
	s := llmtest.New(llmtest.Config{Faults: llmtest.AllFaults(0.04), Seed: 3})
	defer s.Close()
	cfg := embeddings(s.URL())
	cfg.BatchItems = 5
	stats := &llm.Stats{}
	e := embedder(t, cfg, func(d *llm.Deps) { d.Stats = stats })
	texts := numbered(400)
	got, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantVectors(texts, 64), got, near); diff != "" {
		t.Error(diff)
	}
	c := s.Counts()
	if c.EmbeddingsOK != 80 || len(c.Faults) < 5 || stats.BadVectors.Load() != int64(c.Faults[llmtest.OneTooFew]+c.Faults[llmtest.NaN]) {
		t.Errorf("counts %+v, bad vectors %d", c, stats.BadVectors.Load())
	}
	if e.Name() != "openai/minilm" {
		t.Errorf("name %q", e.Name())
	}
}

func TestEmbeddingsRequest(t *testing.T) {
	var bodies []map[string]any
	base := serve(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		if r.URL.Path != "/v1/embeddings" {
			t.Errorf("path %s", r.URL.Path)
		}
		bodies = append(bodies, body)
		n := len(body["input"].([]any))
		var data []string
		for i := n - 1; i >= 0; i-- { // out of order
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,0,0]}`, i, i+1))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
	})
	cfg := embeddings(base)
	cfg.PassagePrefix, cfg.QueryPrefix = "passage: ", "query: "
	cfg.BatchItems, cfg.BatchTokens = 3, 12
	cfg.Extra = map[string]any{"dimensions": 3}
	e := embedder(t, cfg, nil)
	// "passage: " has 3 tokens, each letter one: 4 tokens each, three to a batch; the long one has 17 and goes alone.
	got, err := e.Embed(t.Context(), []string{"a", "b", "c", "d", strings.Repeat("x ", 14), "e"})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if diff := cmp.Diff([]float32{1, 0, 0}, v); diff != "" {
			t.Errorf("vector %d is not of unit length: %s", i, diff)
		}
	}
	if _, err := e.EmbedQuery(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	request := func(input ...any) map[string]any {
		return map[string]any{"model": "minilm", "encoding_format": "float", "dimensions": 3.0, "input": input}
	}
	want := []map[string]any{
		request("passage: a", "passage: b", "passage: c"), request("passage: d"),
		request("passage: " + strings.Repeat("x ", 14)), request("passage: e"), request("query: q"),
	}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Error(diff)
	}
}

// An endpoint that takes fewer texts than configured: found out once, and kept.
func TestEmbeddingsLearnTheCap(t *testing.T) {
	s := llmtest.New(llmtest.Config{MaxInputs: 10})
	defer s.Close()
	e := embedder(t, embeddings(s.URL()), nil)
	texts := numbered(200)
	got, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantVectors(texts, 64), got, near); diff != "" {
		t.Error(diff)
	}
	// 64 is refused and halved to eights: 1 + 2 + 4 refused, 8 good. Then 136 in eights.
	if c := s.Counts(); c.Embeddings != 7+8+17 {
		t.Errorf("%d requests", c.Embeddings)
	}
}

// One text that the endpoint can't take: it is named, the others have their vectors, and batches stay large.
func TestEmbeddingsNameTheBadText(t *testing.T) {
	for name, refuse := range map[string]func(w http.ResponseWriter){
		"400": func(w http.ResponseWriter) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"input must have less than 512 tokens"}}`)
		},
		"llama.cpp": func(w http.ResponseWriter) {
			w.WriteHeader(500)
			io.WriteString(w, `{"error":{"message":"input is too large to process. increase the physical batch size"}}`)
		},
		"NaN": func(w http.ResponseWriter) { io.WriteString(w, `{"data":[{"index":0,"embedding":[NaN,1]}]}`) },
	} {
		var calls atomic.Int32
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
			calls.Add(1)
			var data []string
			for i, text := range body["input"].([]any) {
				if strings.Contains(text.(string), "poison") {
					refuse(w)
					return
				}
				data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,0]}`, i))
			}
			fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
		})
		texts := numbered(128)
		texts[77] = "a poison text"
		e := embedder(t, embeddings(base), nil)
		got, err := e.Embed(t.Context(), texts)
		var p *llm.PassageError
		if !errors.As(err, &p) || len(p.Failed) != 1 || p.Failed[0].Index != 77 || p.Failed[0].Text != "a poison text" {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for i, v := range got {
			if (v == nil) != (i == 77) {
				t.Errorf("%s: vector %d is %v", name, i, v)
			}
		}
		before := calls.Load()
		if _, err := e.Embed(t.Context(), numbered(64)); err != nil || calls.Load() != before+1 {
			t.Errorf("%s: 64 good texts took %d requests: %v", name, calls.Load()-before, err)
		}
	}
}

// An endpoint that refuses everything is at fault itself: no list of all passages, and no end of requests.
func TestEmbeddingsThatAllFail(t *testing.T) {
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		calls.Add(1)
		w.WriteHeader(422)
		io.WriteString(w, `{"detail":"field dimensions is not allowed here"}`)
	})
	_, err := embedder(t, embeddings(base), nil).Embed(t.Context(), numbered(1000))
	var e *llm.Error
	var p *llm.PassageError
	if !errors.As(err, &e) || e.Kind != llm.Invalid || errors.As(err, &p) || calls.Load() > 127 {
		t.Errorf("%d requests, %v", calls.Load(), err)
	}
}

func TestEmbeddingsRefuseBadVectors(t *testing.T) {
	float32s := func(v ...float32) string {
		b := make([]byte, 4*len(v))
		for i, x := range v {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	for name, tc := range map[string]struct{ body, says string }{
		"none":                   {`{"data":[]}`, "0 vectors for 2 texts"},
		"one too many":           {`{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1,0]},{"index":2,"embedding":[1,0]}]}`, "3 vectors for 2 texts"},
		"ragged":                 {`{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1,0,0]}]}`, "different widths"},
		"another width":          {`{"data":[{"index":0,"embedding":[1,0,0]},{"index":1,"embedding":[1,0,0]}]}`, "3 wide; they must be 2 wide"},
		"zero":                   {`{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,0]}]}`, "text 2 of 2 is all zeros"},
		"null":                   {`{"data":[{"index":0,"embedding":[1,null]},{"index":1,"embedding":[1,0]}]}`, "isn't a finite number"},
		"NaN":                    {`{"data":[{"index":0,"embedding":[1,NaN]},{"index":1,"embedding":[1,0]}]}`, "isn't finite"},
		"NaN in a string":        {`{"data":[{"index":0,"embedding":["NaN",1]},{"index":1,"embedding":[1,0]}]}`, "isn't a finite number"},
		"too large":              {`{"data":[{"index":0,"embedding":[1e39,1]},{"index":1,"embedding":[1,0]}]}`, "isn't a finite number"},
		"empty":                  {`{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, "vector"},
		"for each token":         {`{"data":[{"index":0,"embedding":[[1,0],[0,1]]},{"index":1,"embedding":[[1,0]]}]}`, "for each token"},
		"no list":                {`{"data":[{"index":0,"embedding":{}},{"index":1,"embedding":[1,0]}]}`, "no list of numbers"},
		"base64, cut":            {`{"data":[{"index":0,"embedding":"AAA="},{"index":1,"embedding":[1,0]}]}`, "not base64 of 32-bit"},
		"base64, not fine":       {`{"data":[{"index":0,"embedding":"` + float32s(1, float32(math.NaN())) + `"},{"index":1,"embedding":[1,0]}]}`, "isn't finite"},
		"an error body":          {`{"error":{"message":"engine died"}}`, "engine died"},
		"something else":         {`{"object":"list"}`, "object"},
		"not JSON":               {`<html>`, "<html>"},
		"fine, base64":           {`{"data":[{"index":0,"embedding":"` + float32s(3, 4) + `"},{"index":1,"embedding":[1,0]}]}`, ""},
		"fine, B18: one for all": {`{"data":[{"index":0,"embedding":[3,4]},{"index":0,"embedding":[1,0]}]}`, ""},
		"fine, B18: from 7":      {`{"data":[{"index":7,"embedding":[3,4]},{"index":8,"embedding":[1,0]}]}`, ""},
		"fine, B18: permuted":    {`{"data":[{"index":1,"embedding":[1,0]},{"index":0,"embedding":[3,4]}]}`, ""},
		"fine, no index":         {`{"data":[{"embedding":[3,4]},{"embedding":[1,0]}]}`, ""},
		"fine, exponents":        {`{"data":[{"index":0,"embedding":[3e-2, 4E-2]},{"index":1,"embedding":[ -1.0 ,0]}]}`, ""},
		"fine, tiny":             {`{"data":[{"index":0,"embedding":[3e-30,4e-30]},{"index":1,"embedding":[1,0]}]}`, ""},
		"fine, unit length":      {`{"data":[{"index":0,"embedding":[0.6,0.8]},{"index":1,"embedding":[1,0]}]}`, ""},
	} {
		var calls atomic.Int32
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			calls.Add(1)
			io.WriteString(w, tc.body)
		})
		cfg := embeddings(base)
		cfg.Width, cfg.MaxAttempts = 2, 2
		var logged bytes.Buffer
		got, err := embedder(t, cfg, func(d *llm.Deps) {
			d.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}).Embed(t.Context(), []string{"one", "two"})
		if tc.says == "" {
			if err != nil || math.Abs(float64(got[0][0])-0.6) > 1e-6 || math.Abs(float64(got[0][1])-0.8) > 1e-6 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		// The first failure is in the log; the error is that of the halves, which are asked for one by one.
		if err == nil || !strings.Contains(logged.String(), tc.says) {
			t.Errorf("%s: got %v, logged %s; want %q", name, err, logged.String(), tc.says)
		}
		if calls.Load() < 2 {
			t.Errorf("%s: asked once only", name)
		}
	}
}

func TestEmbeddingsFailAtOnce(t *testing.T) {
	for body, kind := range map[string]llm.Kind{
		`{"error":{"message":"bad key","code":"invalid_api_key"}}`: llm.Auth,
		`{"error":{"message":"x","code":"insufficient_quota"}}`:    llm.Quota,
	} {
		var calls atomic.Int32
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			calls.Add(1)
			w.WriteHeader(map[llm.Kind]int{llm.Auth: 401, llm.Quota: 429}[kind])
			io.WriteString(w, body)
		})
		cfg := embeddings(base)
		cfg.Section = "summaries.embeddings"
		_, err := embedder(t, cfg, nil).Embed(t.Context(), numbered(9))
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != kind || calls.Load() != 1 {
			t.Errorf("%d calls, %v", calls.Load(), err)
		}
		if kind == llm.Auth && !strings.Contains(err.Error(), "AERIE_SUMMARIES_EMBEDDINGS_API_KEY") {
			t.Errorf("the variable isn't named: %v", err)
		}
	}
}

// A server that doesn't know encoding_format is asked without it from then on.
func TestEmbeddingsWithoutFormat(t *testing.T) {
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		calls.Add(1)
		if body["encoding_format"] != nil {
			w.WriteHeader(422)
			io.WriteString(w, `{"detail":"Extra inputs are not permitted: encoding_format"}`)
			return
		}
		io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0]}]}`)
	})
	e := embedder(t, embeddings(base), nil)
	for range 2 {
		if _, err := e.EmbedQuery(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestEmbedNothing(t *testing.T) {
	got, err := embedder(t, embeddings("http://127.0.0.1:1"), nil).Embed(t.Context(), nil)
	if len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzVectors(f *testing.F) {
	f.Add(`{"data":[{"index":0,"embedding":[1,2]}]}`)
	f.Add(`{"data":[{"index":0,"embedding":"AAAAAA=="}]}`)
	var body atomic.Value
	body.Store("")
	e, err := llm.NewEmbedder(embeddings("http://fuzz"), llm.Deps{Counter: counter{}, Jitter: noWait, Log: quiet(), Transport: roundTrip(func() string { return body.Load().(string) })})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) { // what isn't JSON is asked for again, with pauses
			return
		}
		body.Store(s)
		v, err := e.EmbedQuery(t.Context(), "q")
		if err != nil {
			return
		}
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-4 {
			t.Errorf("%s gives a vector of squared length %v", s, sum)
		}
	})
}

type roundTrip func() string

func (f roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f()))}, nil
}
