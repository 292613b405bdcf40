package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/mcp"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// talk connects a client to a server over pipes.
func talk(t *testing.T, cfg mcp.Config, service mcp.Service, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	cfg.Corpus, cfg.Version = "birds", "test"
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- mcp.New(cfg, service).RunStdio(t.Context(), toServer, fromServer) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, options)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = fromClient.Close() // the agent hangs up
		if err := <-ended; err != nil && !errors.Is(err, io.EOF) && t.Context().Err() == nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return session
}

// call calls a tool and returns its text.
func call(t *testing.T, s *sdk.ClientSession, name string, arguments map[string]any) (text string, result *sdk.CallToolResult) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result.Content[0].(*sdk.TextContent).Text, result
}

// built returns a service with a corpus of birds and its tree.
func built(t *testing.T) api.Service {
	t.Helper()
	svc := servicetest.Open(t, t.TempDir()).Service(t)
	var rows strings.Builder
	for i := range 60 {
		fmt.Fprintf(&rows, `{"id":"%d","text":"Bird %d is a heron. It waits at pond %d for fish of kind %d."}`+"\n", i, i, i%7, i%3)
	}
	if _, err := svc.Ingest(t.Context(), api.IngestRequest{Corpus: "birds", Stream: strings.NewReader(rows.String())}); err != nil {
		t.Fatal(err)
	}
	b, err := svc.Start(t.Context(), "birds", api.Start{})
	for err == nil && !b.Resting {
		runtime.Gosched()
		b, err = svc.Build(t.Context(), "birds", b.Build)
	}
	if err != nil || b.Report == nil || b.Report.Generation != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	return svc
}

// TestTools walks as an agent would: what is there, what it is about, where something stands, and all of it.
func TestTools(t *testing.T) {
	s := talk(t, mcp.Config{}, built(t), nil)
	listed, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	if len(listed.Tools) != 4 || len(body) > 1500*3 { // of ASCII, a token is more than three bytes
		t.Errorf("%d tools in %d bytes: %s", len(listed.Tools), len(body), body)
	}
	for _, tool := range listed.Tools {
		if !tool.Annotations.ReadOnlyHint || tool.Name == "ask" || (tool.OutputSchema != nil) != (tool.Name == "build_status") {
			t.Errorf("%+v", tool)
		}
	}

	text, result := call(t, s, "build_status", nil)
	var status api.Status
	data, _ := json.Marshal(result.StructuredContent)
	if err := json.Unmarshal(data, &status); err != nil || len(status.Corpora) != 1 || status.Corpora[0].Leaves != 60 {
		t.Errorf("%s: %v, %s", data, err, text)
	}

	text, _ = call(t, s, "outline", map[string]any{"depth": 3})
	if !strings.HasPrefix(text, "corpus birds, generation 1\n- L") || !strings.Contains(text, "\n  - L1-") {
		t.Errorf("outline:\n%s", text)
	}
	cluster := text[strings.Index(text, "- L")+2:][:11]
	text, _ = call(t, s, "fetch", map[string]any{"id": cluster})
	if !strings.Contains(text, "cluster "+cluster) || !strings.Contains(text, "children: ") {
		t.Errorf("fetch %s:\n%s", cluster, text)
	}

	text, result = call(t, s, "search", map[string]any{"query": "heron", "max_tokens": 100})
	if !strings.Contains(text, "\n[1] ") || !strings.Contains(text, "\nNext: fetch") || len(result.Content) < 2 {
		t.Fatalf("search:\n%s", text)
	}
	link := result.Content[1].(*sdk.ResourceLink)
	read, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI})
	if err != nil || !strings.Contains(text, strings.TrimSpace(read.Contents[0].Text)) {
		t.Errorf("%s: %+v, %v", link.URI, read, err)
	}
}

// TestBounded: no result is larger than was asked for, and each says how to go on.
func TestBounded(t *testing.T) {
	long := strings.Repeat("Kräne ziehen über das Land. 鶴は空を渡る。", 2000)
	s := talk(t, mcp.Config{}, &stub{show: api.Shown{Node: api.Node{Text: long}}}, nil)
	var whole strings.Builder
	next := 0
	for pages := 0; ; pages++ {
		arguments := map[string]any{"id": "x", "max_tokens": 500}
		if next > 0 {
			arguments["offset"] = next
		}
		text, _ := call(t, s, "fetch", arguments)
		if len(text) > 500*3+200 {
			t.Fatalf("%d bytes for 500 tokens", len(text))
		}
		at := strings.LastIndex(text, "\n\nNext: ")
		body := text[:at]
		whole.WriteString(body[strings.Index(body, "\n\n")+2:])
		if _, err := fmt.Sscanf(text[strings.LastIndex(text, " offset ")+1:], "offset %d reads on", &next); err != nil {
			break
		}
		if pages > 1000 {
			t.Fatal("it never ends")
		}
	}
	if whole.String() != long {
		t.Errorf("%d bytes came in pages, of %d", whole.Len(), len(long))
	}
}

// TestWrongArguments names the right ones, and none of it ends the session.
func TestWrongArguments(t *testing.T) {
	s := talk(t, mcp.Config{}, &stub{}, nil)
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		says      string
	}{
		{"search", nil, `"query" is missing; search takes query (required), corpus, max_tokens`},
		{"search", map[string]any{"q": "x", "query": "y"}, `there is no argument "q"; search takes`},
		{"search", map[string]any{"query": 5}, `"query" is 5; it must be a text`},
		{"search", map[string]any{"query": " "}, `it must be a text`},
		{"search", map[string]any{"query": "x", "max_tokens": 9000}, `"max_tokens" is 9000; it must be a whole number from 1 to 8000`},
		{"search", map[string]any{"query": "x", "max_tokens": 1.5}, `it must be a whole number`},
		{"fetch", map[string]any{"id": "x", "max_tokens": "many"}, `it must be a whole number`},
		{"outline", map[string]any{"depth": 0}, `it must be a whole number from 1 to 20`},
	} {
		text, result := call(t, s, c.tool, c.arguments)
		if !result.IsError || !strings.Contains(text, c.says) {
			t.Errorf("%s %v: %q, want %q", c.tool, c.arguments, text, c.says)
		}
	}
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"question": "x"}}); err == nil {
		t.Error("ask is offered though nobody allowed it")
	}
	if text, result := call(t, s, "search", map[string]any{"query": "x", "max_tokens": "100", "corpus": nil}); result.IsError {
		t.Errorf("a number as a text: %s", text)
	}
}

// TestMistakes: what goes wrong in a tool is told to the agent, and the session goes on.
func TestMistakes(t *testing.T) {
	broken := &stub{query: func(context.Context, string) error { panic("oops") }}
	s := talk(t, mcp.Config{
		May: func(_ context.Context, corpus string) error {
			return map[string]error{"secret": errors.New("not yours")}[corpus]
		},
		Explain: func(err error) string { return "explained: " + err.Error() },
	}, broken, nil)
	if text, result := call(t, s, "search", map[string]any{"query": "x"}); !result.IsError || !strings.Contains(text, "its log says where") {
		t.Errorf("a panic: %q", text)
	}
	for _, tool := range []string{"search", "fetch"} {
		if text, result := call(t, s, tool, map[string]any{"query": "x", "id": "x", "corpus": "secret"}); !result.IsError || strings.Contains(text, "hit") {
			t.Errorf("%s of another's corpus: %q", tool, text)
		}
	}
	if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "aerie://secret/x"}); err == nil || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("a node of another's corpus: %v", err)
	}
	broken.query = func(context.Context, string) error { return errors.New("no such corpus") }
	if text, _ := call(t, s, "search", map[string]any{"query": "x"}); text != "explained: no such corpus" {
		t.Errorf("%q", text)
	}
}

// TestProgressAndCancel: a call that takes long says so, and ends when the agent gives up.
func TestProgressAndCancel(t *testing.T) {
	told, ended := make(chan struct{}, 100), make(chan struct{})
	slow := &stub{query: func(ctx context.Context, _ string) error {
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}}
	s := talk(t, mcp.Config{Progress: time.Millisecond}, slow, &sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { told <- struct{}{} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	params := &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"query": "x"}}
	params.SetProgressToken("p")
	go func() { <-told; <-told; cancel() }()
	if _, err := s.CallTool(ctx, params); err == nil {
		t.Error("the call came to an end by itself")
	}
	<-ended
}

// stub is a service of which a test says what it does.
type stub struct {
	mcp.Service
	show  api.Shown
	query func(ctx context.Context, corpus string) error
}

func (s *stub) Show(context.Context, string, string) (api.Shown, error) { return s.show, nil }

func (s *stub) Query(ctx context.Context, corpus string, _ api.Query) (retrieve.Result, error) {
	if s.query == nil {
		return retrieve.Result{}, nil
	}
	return retrieve.Result{}, s.query(ctx, corpus)
}
