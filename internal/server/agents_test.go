package server_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
)

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// agent connects an agent over HTTP.
func (w *world) agent(token string) *sdk.ClientSession {
	w.t.Helper()
	transport := &sdk.StreamableClientTransport{Endpoint: w.web.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(w.t.Context(), transport, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// said calls a tool and returns what the agent reads.
func (w *world) said(s *sdk.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	w.t.Helper()
	result, err := s.CallTool(w.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		w.t.Fatalf("%s: %v", tool, err)
	}
	return result.Content[0].(*sdk.TextContent).Text, result.IsError
}

// TestAgents: /mcp offers what a token may read, and no more; it is guarded as every other route is.
func TestAgents(t *testing.T) {
	keys := newKeyring(t)
	reader, admin := keys.add("reader", access.Read, "birds"), keys.add("admin", access.Admin)
	w := newWorld(t, server.Config{Tokens: keys.open(slog.New(slog.DiscardHandler)), Corpus: "birds"})
	w.token = admin
	for _, corpus := range []string{"birds", "secret"} {
		want[api.IngestReport](t, w.do("POST", "/v1/corpora/"+corpus+"/documents", birds(40)), http.StatusOK)
	}

	s := w.agent(reader)
	if text, failed := w.said(s, "search", map[string]any{"query": "do owls listen"}); failed || !strings.Contains(text, "[1] passage of birds-") {
		t.Errorf("search: %q", text)
	}
	for tool, arguments := range map[string]map[string]any{
		"search": {"query": "do owls listen"}, "fetch": {"id": "0"}, "outline": {},
	} {
		arguments["corpus"] = "secret"
		if text, failed := w.said(s, tool, arguments); !failed || !strings.Contains(text, "no right to it") {
			t.Errorf("%s of another corpus: %q", tool, text)
		}
	}
	if text, failed := w.said(s, "build_status", nil); failed || !strings.Contains(text, "birds: 4 documents") || strings.Contains(text, "secret") {
		t.Errorf("build_status: %q", text)
	}
	if text, _ := w.said(w.agent(admin), "build_status", nil); !strings.Contains(text, "secret: 4 documents") {
		t.Errorf("build_status for who may read all: %q", text)
	}

	const hello = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	accept := []string{"Accept", "application/json, text/event-stream", "Content-Type", "application/json"}
	w.token = "wrong"
	if a := w.do("POST", "/mcp", hello, accept...); a.status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %s", a.status, a.body)
	}
	w.token = reader
	if a := w.do("POST", "/mcp", hello, append(accept, "Origin", "https://elsewhere.example")...); a.status != http.StatusForbidden {
		t.Errorf("another origin: %d %s", a.status, a.body)
	}
	if a := w.do("POST", "/mcp", hello, accept...); a.status != http.StatusOK || !strings.Contains(string(a.body), `"search"`) || strings.Contains(string(a.body), `"ask"`) {
		t.Errorf("tools/list: %d %s", a.status, a.body)
	}
	if a := w.do("GET", "/mcp", nil); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	if a := w.do("POST", "/mcp/x", hello, accept...); a.status != http.StatusNotFound {
		t.Errorf("below it: %d %s", a.status, a.body)
	}
}
