package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// serve starts an endpoint that answers with fn.
func serve(t *testing.T, fn func(w http.ResponseWriter, r *http.Request, body map[string]any)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("the body can't be read: %v", err)
		}
		fn(w, r, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func summarizer(t *testing.T, cfg llm.SummariesConfig, change func(*llm.Deps)) mapreduce.Summarizer {
	t.Helper()
	deps := llm.Deps{Counter: counter{}, Jitter: noWait, Log: quiet(), Transport: transport(t)}
	if change != nil {
		change(&deps)
	}
	s, err := llm.NewSummarizer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// transport is closed with the test, so that no connection outlives it.
func transport(t *testing.T) *http.Transport {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func ask(t *testing.T, s mapreduce.Summarizer) (mapreduce.Answer, error) {
	t.Helper()
	return s.Summarize(t.Context(), mapreduce.Call{
		Prompt: "Summarize: {chunks}", Texts: []string{"The first passage is here.", "The second one too."}, MaxOutputTokens: 50, Build: "b",
	})
}

const fine = `{"choices":[{"message":{"content":"A summary."},"finish_reason":"stop"}],"usage":{"prompt_tokens":21,"completion_tokens":4}}`

func TestChatRequest(t *testing.T) {
	var got map[string]any
	var auth, path string
	base := serve(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		got, auth, path = body, r.Header.Get("Authorization"), r.URL.String()
		io.WriteString(w, fine)
	})
	cfg := summaries(base)
	cfg.APIKey = " sk-secret\n"
	cfg.Temperature = 0.5
	cfg.Extra = map[string]any{"top_p": 0.9, "chat_template_kwargs": map[string]any{"enable_thinking": false}}
	a, err := ask(t, summarizer(t, cfg, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"model": "fake", "stream": false, "temperature": 0.5, "max_tokens": 50.0, "top_p": 0.9,
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
		"messages":             []any{map[string]any{"role": "user", "content": "Summarize: The first passage is here.\n\nThe second one too."}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if auth != "Bearer sk-secret" || path != "/v1/chat/completions" {
		t.Errorf("authorization %q, path %q", auth, path)
	}
	if diff := cmp.Diff(mapreduce.Answer{Text: "A summary.", Usage: tree.Usage{Calls: 1, InputTokens: 21, OutputTokens: 4}}, a); diff != "" {
		t.Error(diff)
	}
}

func TestBaseURL(t *testing.T) {
	var path string
	base := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		path = r.URL.String()
		io.WriteString(w, fine)
	})
	for suffix, want := range map[string]string{
		"":                      "/v1/chat/completions",
		"/":                     "/v1/chat/completions",
		"/v1":                   "/v1/chat/completions",
		"/v1/":                  "/v1/chat/completions",
		"/v1/chat/completions":  "/v1/chat/completions",
		"/openai":               "/openai/chat/completions",
		"/deploy/x?version=1.2": "/deploy/x/chat/completions?version=1.2",
	} {
		if _, err := ask(t, summarizer(t, summaries(base+suffix), nil)); err != nil || path != want {
			t.Errorf("%q: path %q, want %q: %v", suffix, path, want, err)
		}
	}
	for _, bad := range []string{"localhost:8000", "ftp://x/v1", "http://", "::", "http://user:pw@ host"} {
		cfg := summaries(bad)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), "summaries.base_url") || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// What an endpoint refuses once is not sent again.
// FAULTS: infiniflow/ragflow 8324.
func TestChatLearnsParameters(t *testing.T) {
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		calls.Add(1)
		refuse := func(message, param string) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":%q,"param":%q,"code":"unsupported_parameter"}}`, message, param)
		}
		switch {
		case body["max_tokens"] != nil:
			refuse("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens")
		case body["temperature"] != nil:
			refuse("Unsupported value: 'temperature' does not support 0 with this model.", "temperature")
		case body["max_completion_tokens"] != 50.0:
			t.Errorf("body %v", body)
		default:
			io.WriteString(w, fine)
		}
	})
	s := summarizer(t, summaries(base), nil)
	for range 3 {
		if _, err := ask(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != 5 {
		t.Errorf("%d requests for 3 calls, want 2 refused and 3", n)
	}
}

func TestChatRepliesInAllShapes(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want mapreduce.Answer
	}{
		"parts": {`{"choices":[{"message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"One "},{"type":"text","text":"two."}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
			mapreduce.Answer{Text: "One two.", Usage: tree.Usage{Calls: 1, InputTokens: 5, OutputTokens: 2}}},
		"no usage": {`{"choices":[{"message":{"content":"One two.","reasoning_content":"hm hm"},"finish_reason":"stop"}]}`,
			mapreduce.Answer{Text: "One two.", Usage: tree.Usage{Calls: 1, InputTokens: 15, OutputTokens: 5}}},
		"null fields": {`{"error":{},"choices":[{"message":{"content":" One two.\n","refusal":false,"reasoning":null},"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
			mapreduce.Answer{Text: "One two.", Usage: tree.Usage{Calls: 1, InputTokens: 5, OutputTokens: 2}}},
	} {
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { io.WriteString(w, tc.body) })
		got, err := ask(t, summarizer(t, summaries(base), nil))
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestChatFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		kind   llm.Kind
		says   string
	}{
		"no key":        {401, `{"error":{"message":"bad key sk-secret"}}`, llm.Auth, "AERIE_SUMMARIES_API_KEY"},
		"no such model": {404, `{"error":{"message":"no such model"}}`, llm.Auth, "summaries.model"},
		"redirect":      {307, ``, llm.Auth, "redirects"},
		"quota":         {429, `{"error":{"code":"insufficient_quota","message":"pay"}}`, llm.Quota, "pay"},
		"not JSON":      {200, `<html>`, llm.Transient, "<html>"},
		"half of it":    {200, `{"choices":[{"mess`, llm.Transient, "isn't JSON"},
		"no choices":    {200, `{"choices":[]}`, llm.Transient, "choices"},
		"error object":  {200, `{"error":{"message":"engine died"}}`, llm.Transient, "engine died"},
		"error as text": {200, `{"choices":[{"message":{"content":"{\"error\":\"engine died\"}"},"finish_reason":"stop"}]}`, llm.Transient, "engine died"},
		"too long":      {400, `{"error":{"code":"context_length_exceeded","message":"maximum context length is 10"}}`, llm.TooLong, "maximum"},
		"refusal field": {200, `{"choices":[{"message":{"content":null,"refusal":"I won't."},"finish_reason":"stop"}]}`, llm.BadAnswer, "I won't."},
		"filtered":      {200, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, llm.BadAnswer, "content_filter"},
	} {
		base := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.WriteHeader(tc.status)
			io.WriteString(w, tc.body)
		})
		cfg := summaries(base)
		cfg.APIKey = "sk-secret"
		var logged bytes.Buffer
		_, err := ask(t, summarizer(t, cfg, func(d *llm.Deps) {
			d.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}))
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != tc.kind || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %s with %q", name, err, tc.kind, tc.says)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", err, err, e, logged.String()), "sk-secret") {
			t.Errorf("%s: the key is told: %v", name, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for name, base := range map[string]string{"refused": "http://" + addr} {
		_, err := ask(t, summarizer(t, summaries(base), nil))
		if !errors.Is(err, llm.ErrUnreachable) || !strings.Contains(err.Error(), strings.TrimPrefix(base, "http")) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	var calls atomic.Int32
	release := make(chan struct{})
	base := serve(t, func(http.ResponseWriter, *http.Request, map[string]any) {
		calls.Add(1)
		<-release
	})
	defer close(release)
	cfg := summaries(base)
	cfg.Timeout = 20 * time.Millisecond
	stats := &llm.Stats{}
	_, err := ask(t, summarizer(t, cfg, func(d *llm.Deps) { d.Stats = stats }))
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.Transient || !e.Sent || !strings.Contains(err.Error(), "summaries.timeout") {
		t.Errorf("got %v", err)
	}
	if calls.Load() != 1 || stats.MaybePaid.Load() != 1 {
		t.Errorf("%d calls, %d maybe paid", calls.Load(), stats.MaybePaid.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = summarizer(t, summaries(base), nil).Summarize(ctx, mapreduce.Call{Prompt: "{chunks}", Texts: []string{"x"}, MaxOutputTokens: 9})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	var auth string
	base := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		auth = r.Header.Get("Authorization")
		io.WriteString(w, fine)
	})
	cfg := summaries(base)
	cfg.APIKeyFile = filepath.Join(t.TempDir(), "key")
	if _, err := llm.NewSummarizer(cfg, llm.Deps{Counter: counter{}}); err == nil || !strings.Contains(err.Error(), "summaries.api_key_file") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(cfg.APIKeyFile, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, summarizer(t, cfg, nil)); err != nil || auth != "Bearer from-file" {
		t.Errorf("authorization %q: %v", auth, err)
	}
}
