package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/tree"
)

// raw sends a request line as it stands, which no client would, and returns the answer.
func (w *world) raw(method, target string) answer {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.web.URL, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, target)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, body}
}

// TestA2Paths: a path that isn't its own shortest form, also once decoded, is nothing, whatever it would become; there are no
// redirects, and nothing is deleted.
func TestA2Paths(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(12)), http.StatusOK)
	var targets []string
	for _, tail := range []string{
		"/documents/..", "/documents/%2e%2e", "/documents/%2E.", "/documents/.", "/documents/%2e", "/documents/%2e%2e%2f", "/documents/x%2f..", "/documents/x%2F..%2F..",
		"/documents/x/../..", "/documents/x/..", "/documents//", "//", "/", "/.", "/documents/birds-1/", "//documents/birds-1", "/./documents/birds-1", "/documents/%00",
		"/documents/x%0d%0a", "/documents/%2fetc", "/documents/a%2F%2Fb", "/builds/..", "/builds/%2e%2e", "/builds/../../birds", "/%2e%2e/birds",
	} {
		targets = append(targets, "/v1/corpora/birds"+tail)
	}
	targets = append(targets, "//v1/corpora/birds", "/x/../v1/corpora/birds", "/v1/../v1/corpora/birds", "/metrics/../v1/corpora/birds", "/v1/corpora//birds",
		"/v1/corpora/x/%2e%2e/birds", "/%76%31/corpora/birds/", "/v1/corpora/..", "/v1/corpora/%2e%2e")
	for _, target := range targets {
		for _, method := range []string{"DELETE", "POST", "GET"} {
			a := w.raw(method, target)
			if a.status != http.StatusNotFound || a.header.Get("Location") != "" {
				t.Errorf("%s %s: status %d, Location %q, want 404 and none", method, target, a.status, a.header.Get("Location"))
			}
		}
	}
	if s := want[api.CorpusStatus](t, w.do("GET", "/v1/corpora/birds", nil), http.StatusOK); s.Leaves != 12 || s.Documents != 4 {
		t.Errorf("%+v", s)
	}
	for _, id := range []string{".", ".."} {
		row := fmt.Sprintf(`{"id":"x","document_id":%q,"text":"a text"}`+"\n"+`{"document":{"id":%q,"text":"a text"}}`+"\n", id, id)
		if r := want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", row), http.StatusOK); r.ErrorCount != 2 || r.Leaves.Total != 12 {
			t.Errorf("id %q was taken: %+v", id, r)
		}
	}
	slashes := `{"id":"x","document_id":"a/b","text":"a text"}` + "\n"
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", slashes), http.StatusOK)
	want[api.IngestReport](t, w.do("DELETE", "/v1/corpora/birds/documents/a%2Fb", nil), http.StatusOK)
}

// endless is a service whose trees have no end, whose handlers panic, and whose plans can be asked for.
type endless struct {
	api.Service
	begun chan struct{}
	ended chan error
}

func (e endless) Nodes(_ context.Context, _ api.TreeRequest, head func(api.TreeHead) error, emit func(*api.Node) error) (err error) {
	defer func() { e.ended <- err }()
	e.begun <- struct{}{}
	if err := head(api.TreeHead{Corpus: "birds"}); err != nil {
		return err
	}
	for n := (api.Node{ID: tree.ID{1}, Text: strings.Repeat("x", 4096)}); ; {
		if err := emit(&n); err != nil {
			return err
		}
	}
}

func (endless) Status(context.Context, string) (api.Status, error) { panic("a bird in the works") }

func (endless) Plan(context.Context, string, bool) (api.Estimate, error) {
	return api.Estimate{}, nil
}

// TestA7SlowReaders: who doesn't read is dropped, and no more whole trees are read at once than there is room for.
func TestA7SlowReaders(t *testing.T) {
	const many = 60
	e := endless{begun: make(chan struct{}, many), ended: make(chan error, many)}
	w := &world{t: t}
	w.web = httptest.NewServer(server.New(server.Config{Slow: 100 * time.Millisecond, Turn: 50 * time.Millisecond}, e, nil).Handler())
	t.Cleanup(w.web.Close)
	address := strings.TrimPrefix(w.web.URL, "http://")
	conns := make([]net.Conn, many)
	for i := range conns {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		fmt.Fprint(conn, "GET /v1/corpora/birds/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/x-ndjson\r\n\r\n")
	}
	refused := 0
	for i, conn := range conns {
		head, err := bufio.NewReader(conn).ReadString('\n') // and no more of it
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if strings.Contains(head, " 429 ") {
			refused++
		} else if !strings.Contains(head, " 200 ") {
			t.Errorf("connection %d was answered %q", i, head)
		}
	}
	for i := range many - refused {
		<-e.begun
		if err := <-e.ended; err == nil {
			t.Errorf("read %d of a tree without end has ended by itself", i)
		}
	}
	if refused == 0 {
		t.Error("sixty reads of whole trees were let in")
	}
}

// TestA11SlowBody: a body that comes byte by byte, each before the time that it may stand still is over, ends all the same; what waits
// for its turn meanwhile is told so after a while.
func TestA11SlowBody(t *testing.T) {
	w := newWorld(t, server.Config{BodyIdle: 300 * time.Millisecond, BodyRate: 1 << 20})
	row := birds(1)
	conn := w.post("/v1/corpora/birds/documents", "Content-Length: 1000000", "")
	stop, dripping := make(chan struct{}), sync.WaitGroup{}
	dripping.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := conn.Write([]byte{row[i%len(row)]}); err != nil {
					return
				}
			}
		}
	})
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	close(stop)
	dripping.Wait()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", res.StatusCode)
	}
}

// logs is a log that may be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestA21Panic: a handler that panics is a line at error and an answer, and everything is counted by route and status.
func TestA21Panic(t *testing.T) {
	var log logs
	var mu sync.Mutex
	counted := map[string]int{}
	w := &world{t: t}
	w.web = httptest.NewServer(server.New(server.Config{
		Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Observe: func(route string, status int) {
			mu.Lock()
			defer mu.Unlock()
			counted[fmt.Sprint(route, " ", status)]++
		},
	}, endless{}, nil).Handler())
	t.Cleanup(w.web.Close)
	problem(t, w.do("GET", "/v1/status", nil), http.StatusInternalServerError, api.ExitFailed, "made a mistake")
	if text := log.String(); !strings.Contains(text, `"level":"ERROR"`) || !strings.Contains(text, "a bird in the works") || !strings.Contains(text, "door_test.go") {
		t.Errorf("the log says %s", text)
	}
	want[api.Estimate](t, w.do("GET", "/v1/corpora/birds/plan", nil), http.StatusOK)
	w.do("GET", "/v1/openapi.json", nil)
	w.do("GET", "/v1/nothing", nil)
	w.do("GET", "/v1//nothing", nil)
	mu.Lock()
	defer mu.Unlock()
	for _, key := range []string{"get-status 500", "get-plan 200", "openapi 200", "none 404"} {
		if counted[key] == 0 {
			t.Errorf("%s wasn't counted: %v", key, counted)
		}
	}
}

// TestA25OtherOrigins: a page of another origin gets nothing, also where it only reads, and the log says so.
func TestA25OtherOrigins(t *testing.T) {
	var log logs
	handler := server.New(server.Config{Log: slog.New(slog.NewJSONHandler(&log, nil))}, endless{}, nil).Handler()
	for _, headers := range []map[string]string{
		{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"},
	} {
		r := httptest.NewRequest("GET", "/v1/corpora/birds/plan", nil)
		r.Host = "127.0.0.1:7744"
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%v: status %d", headers, w.Code)
		}
	}
	if !strings.Contains(log.String(), "a page of another origin") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestA25Bounds: what one request may ask for is bounded, and refused at once.
func TestA25Bounds(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(8)), http.StatusOK)
	many := make([]string, 250_000)
	for i := range many {
		many[i] = fmt.Sprint("d", i)
	}
	metadata := map[string]any{}
	for i := range 101 {
		metadata[fmt.Sprint(i)] = i
	}
	for what, body := range map[string]map[string]any{
		"documents": {"query": "owls", "documents": many}, "pool": {"query": "owls", "pool": 1_000_000}, "metadata": {"query": "owls", "metadata": metadata},
		"per-level": {"query": "owls", "mode": "traversal", "per_level": 1 << 40}, "candidates": {"query": "owls", "mode": "boost", "candidates": 1 << 30},
		"bytes": {"query": strings.Repeat("owl ", 20_000)},
	} {
		problem(t, w.do("POST", "/v1/corpora/birds/query", body), http.StatusUnprocessableEntity, api.ExitUsage, what)
	}
}
