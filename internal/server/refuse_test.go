package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// TestRefused: what is wrong with a request is said in one sentence, and what is near.
func TestRefused(t *testing.T) {
	w := newWorld(t, server.Config{MaxBody: 1 << 10})
	w.do("POST", "/v1/corpora/birds/documents", birds(12))
	type object = map[string]any
	for _, c := range []struct {
		method, path string
		body         any
		status, exit int
		says         []string
	}{
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "top_kk": 1}, 422, 2, []string{"top_kk is not known", "did you mean top_k?"}},
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "top_k": "three"}, 422, 2, []string{"top_k"}},
		{"POST", "/v1/corpora/birds/query", object{"top_k": 1}, 422, 2, []string{"query"}},
		{"POST", "/v1/corpora/birds/query", object{"query": " "}, 422, 2, []string{"query is blank"}},
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "mode": "fuzzy"}, 422, 2, []string{`"fuzzy"`, "collapsed"}},
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "mode": "collapsed", "boost": 2}, 422, 2, []string{"boost has no effect"}},
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "budget": -1}, 422, 2, []string{"budget is -1"}},
		{"POST", "/v1/corpora/birds/query", object{"query": "x", "vector": []float32{1, 2}}, 409, 2, []string{"birds"}},
		{"POST", "/v1/corpora/birds/ask", object{"query": "x", "min_similarity": 2}, 422, 2, []string{"min_similarity is 2"}},
		{"POST", "/v1/corpora/birds/query", object{"query": strings.Repeat("x", 2000)}, 413, 2, []string{"too large"}},
		{"POST", "/v1/corpora/birds/builds", object{"forced": true}, 422, 2, []string{"did you mean force?"}},
		{"POST", "/v1/corpora/birds/builds", object{"max_tokens": -1}, 422, 2, []string{"max_tokens"}},
		{"POST", "/v1/corpora/brids/query", object{"query": "x"}, 404, 1, []string{`did you mean "birds"?`}},
		{"POST", "/v1/corpora/bi%2Frds/query", object{"query": "x"}, 422, 2, []string{`corpus is "bi/rds"`}},
		{"POST", "/v1/corpora/" + strings.Repeat("b", 65) + "/documents", birds(1), 422, 2, []string{"1 to 64"}},
		{"GET", "/v1/corpora/..%2Fbirds/plan", nil, 404, 2, []string{"nothing at"}},
		{"DELETE", "/v1/corpora/-x", nil, 422, 2, []string{"corpus is"}},
		{"GET", "/v1/corpora/birds/documents?limit=0", nil, 422, 2, []string{"limit"}},
		{"GET", "/v1/corpora/birds/documents?limt=5", nil, 422, 2, []string{"limt is not known", "did you mean limit?"}},
		{"GET", "/v1/corpora/birds/documents?cursor=nonsense", nil, 422, 2, []string{"cursor", "next_cursor"}},
		{"GET", "/v1/corpora/birds/nodes?cursor=bm9uc2Vuc2U", nil, 422, 2, []string{"cursor"}},
		{"GET", "/v1/corpora/birds/nodes?root=zzz", nil, 404, 1, []string{`"zzz"`}},
		{"POST", "/v1/corpora/birds/documents?chunk_tokens=7", birds(1), 422, 2, []string{"chunk_tokens"}},
		{"POST", "/v1/corpora/birds/documents/delete", object{"documents": []string{}}, 422, 2, []string{"documents"}},
		{"DELETE", "/v1/corpora/birds/documents/bird-1", nil, 404, 1, []string{"bird-1", "birds-1"}},
		{"GET", "/v1/corpora/birds/builds/nope", nil, 404, 1, []string{"no build"}},
		{"POST", "/v1/corpora/birds/builds/nope/pause", nil, 404, 1, []string{"no build"}},
		{"GET", "/v1/corpora/birds/builds/nope/events", nil, 404, 1, []string{"no build"}},
		{"GET", "/v1/nothing", nil, 404, 2, []string{"/v1/nothing", "openapi.json"}},
		{"GET", "/v1/corpora/birds/query", nil, 405, 2, []string{"POST", "GET"}},
		{"POST", "/v1/status", nil, 405, 2, []string{"takes GET"}},
		{"DELETE", "/v1/corpora/birds/documents", nil, 405, 2, []string{"GET and POST"}},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) { problem(t, w.do(c.method, c.path, c.body), c.status, c.exit, c.says...) })
	}
	problem(t, w.do("POST", "/v1/corpora/birds/query", strings.NewReader(`{"query":"x"}`), "Content-Type", "text/plain"), 415, 2, "application/json")
	problem(t, w.do("POST", "/v1/corpora/birds/query", strings.NewReader(`{"query":`), "Content-Type", "application/json"), 400, 2, "body")
}

// TestToken: with a token only who sends it comes in, and without one only this machine's names are let in.
func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	w := newWorld(t, server.Config{Token: token})
	want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
	want[api.Status](t, w.do("GET", "/v1/status", nil, "Host", "coordinator.example"), http.StatusOK)
	for _, wrong := range []string{"", "0123456789abcdeX", token + "0"} {
		w.token = wrong
		a := w.do("GET", "/v1/status", nil)
		problem(t, a, http.StatusUnauthorized, api.ExitUsage, "token")
		if a.header.Get("WWW-Authenticate") == "" || strings.Contains(string(a.body), token) {
			t.Errorf("%v: %s", a.header, a.body)
		}
		problem(t, w.do("GET", "/v1/openapi.json", nil), http.StatusUnauthorized, api.ExitUsage)
	}
}

// TestBrowsers: a page of another origin can neither read nor do anything, also when it reaches the listener by a name of its own.
func TestBrowsers(t *testing.T) {
	handler := server.New(server.Config{}, servicetest.Open(t, t.TempDir()).Service(t), nil).Handler()
	for _, c := range []struct {
		host, origin, site string
		status             int
	}{
		{"127.0.0.1:7744", "", "", 200}, {"localhost:7744", "", "", 200}, {"[::1]:7744", "", "", 200},
		{"127.0.0.1:7744", "https://evil.example", "cross-site", 403}, {"127.0.0.1:7744", "https://evil.example", "", 403},
		{"evil.example:7744", "http://evil.example:7744", "same-origin", 403}, {"evil.example", "", "", 403}, {"127.0.0.1.evil.example", "", "", 403},
	} {
		r := httptest.NewRequest("POST", "/v1/corpora/birds/documents", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: status %d", c, w.Code)
		}
	}
}

// TestExtra: what isn't under /v1 is somebody else's, and needs no token.
func TestExtra(t *testing.T) {
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	handler := server.New(server.Config{Token: "0123456789abcdef"}, nil, extra).Handler()
	starting := server.Starting(extra)
	for path, status := range map[string]int{"/healthz": 418, "/metrics": 418, "/v1x": 418, "/v1": 401, "/v1/status": 401} {
		w, early := httptest.NewRecorder(), httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		starting.ServeHTTP(early, httptest.NewRequest("GET", path, nil))
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
		if status == 418 {
			continue
		}
		problem(t, answer{early.Code, early.Header(), early.Body.Bytes()}, http.StatusServiceUnavailable, api.ExitUnreachable, "is starting")
	}
}
