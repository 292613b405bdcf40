package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// world is a server of a real place, and what asks it.
type world struct {
	t     *testing.T
	place *servicetest.Place
	web   *httptest.Server
	token string
}

func newWorld(t *testing.T, cfg server.Config) *world {
	t.Helper()
	w := &world{t: t, place: servicetest.Open(t, t.TempDir()), token: cfg.Token}
	w.serve(cfg)
	return w
}

// serve starts a server on the place, as a coordinator that starts anew would.
func (w *world) serve(cfg server.Config) {
	w.t.Helper()
	w.web = httptest.NewServer(server.New(cfg, w.place.Service(w.t), nil).Handler())
	w.t.Cleanup(w.web.Close)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do asks; body is a text, nil, or anything that becomes JSON. headers are pairs.
func (w *world) do(method, path string, body any, headers ...string) answer {
	w.t.Helper()
	var src io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case string:
		src, kind = strings.NewReader(b), "application/x-ndjson"
	case io.Reader:
		src, kind = b, "application/x-ndjson"
	default:
		data, err := json.Marshal(b)
		if err != nil {
			w.t.Fatal(err)
		}
		src = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.web.URL+path, src)
	if err != nil {
		w.t.Fatal(err)
	}
	if src != nil {
		req.Header.Set("Content-Type", kind)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, data}
}

// want holds an answer to a status and reads it.
func want[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d\n%s", a.status, status, a.body)
	}
	var v T
	d := json.NewDecoder(bytes.NewReader(a.body))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, a.body)
	}
	return v
}

// problem holds an answer to be a problem that says something.
func problem(t *testing.T, a answer, status, exit int, says ...string) api.Problem {
	t.Helper()
	p := want[api.Problem](t, a, status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the problem comes as %s", got)
	}
	if p.Status != status || p.Exit != exit || p.Title == "" {
		t.Errorf("got status %d and exit %d, want %d and %d: %s", p.Status, p.Exit, status, exit, a.body)
	}
	for _, text := range says {
		if !strings.Contains(p.Detail+"\n"+p.Hint, text) {
			t.Errorf("the problem is %q (%q), which doesn't hold %q", p.Detail, p.Hint, text)
		}
	}
	return p
}

// birds are rows of JSONL about n birds.
func birds(n int) string {
	names := []string{"Herons wait in shallow water", "Kites circle over fields", "Owls listen in the dark", "Larks climb while they sing", "Swifts never land"}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"b%d","document_id":"birds-%d","text":"%s, number %d."}`+"\n", i, i%4, names[i%len(names)], i)
	}
	return b.String()
}

// TestMainJob: ingest, plan, build, query, ask, nodes, status, delete over HTTP, each in the JSON of the command line. FAULTS:
// infiniflow/ragflow 4162 (ready-made chunks by API), 11990 (what it would cost).
func TestMainJob(t *testing.T) {
	w := newWorld(t, server.Config{})
	report := want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	if report.Documents.Added != 4 || report.Leaves.Added != 40 || report.Leaves.Total != 40 {
		t.Errorf("%+v", report)
	}
	estimate := want[api.Estimate](t, w.do("GET", "/v1/corpora/birds/plan", nil), http.StatusOK)
	if !estimate.WouldBuild || len(estimate.Levels) == 0 {
		t.Errorf("%+v", estimate)
	}
	built := w.build("birds", nil)
	if built.Report.Outcome != api.OutcomeBuilt || built.Report.Generation != 1 {
		t.Errorf("%+v", built.Report)
	}
	found := want[retrieve.Result](t, w.do("POST", "/v1/corpora/birds/query", map[string]any{"query": "do owls listen", "top_k": 3}), http.StatusOK)
	if len(found.Hits) == 0 || len(found.Hits) > 3 {
		t.Errorf("%+v", found)
	}
	asked := want[api.Answer](t, w.do("POST", "/v1/corpora/birds/ask", map[string]any{"query": "do owls listen"}), http.StatusOK)
	if !asked.Quoted || len(asked.Sentences) == 0 {
		t.Errorf("%+v", asked)
	}
	status := want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
	if len(status.Corpora) != 1 || status.Corpora[0].Leaves != 40 || status.Corpora[0].Build.Build != built.Build {
		t.Errorf("%+v", status)
	}
	gone := want[api.IngestReport](t, w.do("DELETE", "/v1/corpora/birds/documents/birds-1", nil), http.StatusOK)
	if gone.Documents.Removed != 1 || gone.Leaves.Removed != 10 {
		t.Errorf("%+v", gone)
	}
	want[api.Collected](t, w.do("POST", "/v1/corpora/birds/gc", nil), http.StatusOK)
	want[api.IngestReport](t, w.do("DELETE", "/v1/corpora/birds", nil), http.StatusOK)
	problem(t, w.do("GET", "/v1/corpora/birds", nil), http.StatusNotFound, api.ExitFailed, `no corpus "birds"`)
}

// build starts a build and waits for its rest by its events.
func (w *world) build(corpus string, body any, headers ...string) api.Build {
	w.t.Helper()
	a := w.do("POST", "/v1/corpora/"+corpus+"/builds", body, headers...)
	b := want[api.Build](w.t, a, a.status)
	if a.status != http.StatusAccepted && a.status != http.StatusOK {
		w.t.Fatalf("status %d: %s", a.status, a.body)
	}
	if b.Resting {
		return b
	}
	events := w.do("GET", "/v1/corpora/"+corpus+"/builds/"+b.Build+"/events", nil)
	_, last, ok := strings.Cut(string(events.body), "event: rest\ndata: ")
	if !ok {
		w.t.Fatalf("no rest in\n%s", events.body)
	}
	return want[api.Build](w.t, answer{status: 200, body: []byte(last)}, 200)
}
