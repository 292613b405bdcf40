package client_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// between stands between a client and a coordinator, and may be told to misbehave.
type between struct {
	place *servicetest.Place
	to    atomic.Pointer[httputil.ReverseProxy]
	// before, if not nil, may answer in the coordinator's place: then it returns true.
	before atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// after, if not nil, is called when the coordinator has answered; if it returns true the answer is lost.
	after atomic.Pointer[func(*http.Request) bool]
	web   *httptest.Server
}

func newBetween(t *testing.T) *between {
	t.Helper()
	b := &between{place: servicetest.Open(t, t.TempDir())}
	b.restart(t)
	b.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := b.before.Load(); before != nil && (*before)(w, r) {
			return
		}
		if after := b.after.Load(); after != nil {
			rec := httptest.NewRecorder()
			b.to.Load().ServeHTTP(rec, r)
			if (*after)(r) {
				panic(http.ErrAbortHandler)
			}
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes()) // who doesn't read it has gone
			return
		}
		b.to.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(b.web.Close)
	return b
}

// restart puts a new coordinator in the place of the one that is there.
func (b *between) restart(t *testing.T) {
	t.Helper()
	web := httptest.NewServer(server.New(server.Config{Look: 10 * time.Millisecond}, b.place.Service(t), nil).Handler())
	t.Cleanup(web.Close)
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	proxy.ErrorLog = nil
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	b.to.Store(proxy)
}

func (b *between) client(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.URL = b.web.URL
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// birds writes a file of rows and ingests it.
func birds(t *testing.T, c *client.Client, n int) api.IngestReport {
	t.Helper()
	var rows strings.Builder
	for i := range n {
		id := string(rune('a' + i%4))
		rows.WriteString(`{"id":"` + id + strings.Repeat("x", i) + `","document_id":"` + id + `","text":"Herons wait in water ` + strings.Repeat("very ", i) + `long."}` + "\n")
	}
	report, err := ingest.Remote{To: c}.Ingest(t.Context(), ingest.Request{Corpus: "birds", Paths: []string{"-"}, Stdin: strings.NewReader(rows.String())})
	if err != nil || report.Leaves.Total != n {
		t.Fatalf("%v: %+v", err, report)
	}
	return report
}

// TestLostAnswer: the answer to a start is lost after the coordinator has acted on it. The client asks again with the same key, and
// there is one build. FAULTS: Comfy-Org/ComfyUI pull/16204 (each retry is billed).
func TestLostAnswer(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{})
	birds(t, c, 40)
	var keys sync.Map
	var lost atomic.Int64
	after := func(r *http.Request) bool {
		keys.Store(r.Header.Get("Idempotency-Key"), true)
		return strings.HasSuffix(r.URL.Path, "/builds") && lost.Add(1) == 1
	}
	b.after.Store(&after)
	first, err := c.Start(t.Context(), "birds", api.Start{BuildRequest: api.BuildRequest{Force: true}})
	if err != nil || lost.Load() != 2 {
		t.Fatalf("%v after %d requests", err, lost.Load())
	}
	b.after.Store(nil)
	n := 0
	keys.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d keys were sent", n)
	}
	rest, err := c.Watch(t.Context(), "birds", first.Build, func(api.Build) {})
	if err != nil || rest.Report.Generation != 1 {
		t.Errorf("%v: %+v", err, rest.Report)
	}
}

// TestWatchAcrossRestarts: the stream breaks off, the coordinator is away for a while, and another one takes its place; whoever
// follows the build sees its end.
func TestWatchAcrossRestarts(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{})
	birds(t, c, 40)
	gate := make(chan struct{})
	b.place.Summarize = func(context.Context) error { <-gate; return nil }
	start, err := c.Start(t.Context(), "birds", api.Start{})
	if err != nil {
		t.Fatal(err)
	}
	streams := 0
	var lastIDs []string
	before := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return false
		}
		streams++
		lastIDs = append(lastIDs, r.Header.Get("Last-Event-ID"))
		switch streams {
		case 1: // one event, and then the connection breaks in the middle of the next
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "retry: 1\n\nid: one\nevent: progress\ndata: {\"build\":\""+start.Build+"\"}\n\nid: two\nevent: progress\nda")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		case 2: // a proxy whose backend is away
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		close(gate)
		return false
	}
	b.before.Store(&before)
	seen := 0
	rest, err := c.Watch(t.Context(), "birds", start.Build, func(api.Build) { seen++ })
	if err != nil || rest.Report.Outcome != api.OutcomeBuilt || seen < 2 {
		t.Errorf("%v after %d events: %+v", err, seen, rest.Report)
	}
	if want := []string{"", "one", "one"}; strings.Join(lastIDs, ",") != strings.Join(want, ",") {
		t.Errorf("the ids sent were %q, want %q", lastIDs, want)
	}
}

// TestWatchGivesUp: a coordinator that stays away is exit 5, and a build that another took the place of is told of.
func TestWatchGivesUp(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{Patience: time.Nanosecond})
	before := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	b.before.Store(&before)
	_, err := c.Watch(t.Context(), "birds", "b", func(api.Build) {})
	var e *api.Error
	if !errors.As(err, &e) || e.Exit != api.ExitUnreachable || !strings.Contains(e.Error(), b.web.URL) {
		t.Errorf("%v", err)
	}
	b.before.Store(nil)
	if _, err := c.Watch(t.Context(), "birds", "b", func(api.Build) {}); !errors.As(err, &e) || e.Exit != api.ExitFailed {
		t.Errorf("%v", err)
	}
}

// TestIngestRefusedAtOnce: what the coordinator refuses before it has read a row comes back as what it is, however much is sent.
func TestIngestRefusedAtOnce(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{})
	endless := strings.NewReader(strings.Repeat(`{"id":"1","text":"Again and again."}`+"\n", 1_000_000))
	_, err := ingest.Remote{To: c}.Ingest(t.Context(), ingest.Request{Corpus: "no/name", Paths: []string{"-"}, Stdin: endless})
	var e *api.Error
	if !errors.As(err, &e) || e.Exit != api.ExitUsage || !strings.Contains(e.Error(), `"no/name"`) {
		t.Errorf("%v", err)
	}
	if endless.Len() < 20_000_000 {
		t.Errorf("most of the input was read all the same: %d bytes are left", endless.Len())
	}
}

// TestIngestInterrupted: standard input that never ends doesn't keep a client that is to stop.
func TestIngestInterrupted(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	t.Cleanup(func() { to.Close() })
	done := make(chan error, 1)
	go func() {
		_, err := ingest.Remote{To: c}.Ingest(ctx, ingest.Request{Corpus: "birds", Paths: []string{"-"}, Stdin: from})
		done <- err
	}()
	if _, err := io.WriteString(to, `{"id":"1","text":"One row."}`+"\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestPrune: documents under a folder whose files are gone here are removed there, and no others.
func TestPrune(t *testing.T) {
	b := newBetween(t)
	dir := t.TempDir()
	c := b.client(t, client.Config{})
	birds(t, c, 4)
	for _, name := range []string{"docs/a.md", "docs/b.md", "docs/deep/c.md", "other/d.md"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("The text of "+name+"."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{filepath.Join(dir, "docs"), filepath.Join(dir, "other")}
	if report, err := (ingest.Remote{To: c, Base: dir}).Ingest(t.Context(), ingest.Request{Corpus: "birds", Paths: all}); err != nil || report.Documents.Added != 4 {
		t.Fatalf("%v: %+v", err, report)
	}
	for _, name := range []string{"docs/b.md", "docs/deep/c.md", "other/d.md"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := ingest.Remote{To: c, Base: dir}.Ingest(t.Context(), ingest.Request{Corpus: "birds", Paths: all[:1], Prune: true})
	if err != nil || report.Documents.Removed != 2 || report.Documents.Unchanged != 1 || report.Leaves.Total != 6 {
		t.Errorf("%v: %+v", err, report)
	}
	page, err := c.Documents(t.Context(), api.DocumentsRequest{Corpus: "birds", Limit: 100})
	var left []string
	for _, d := range page.Documents {
		left = append(left, d.ID)
	}
	if got := strings.Join(left, " "); err != nil || got != "a b c d docs/a.md other/d.md" {
		t.Errorf("%v: %s", err, got)
	}
}

// TestBrokenAnswers: an answer that breaks off is none.
func TestBrokenAnswers(t *testing.T) {
	b := newBetween(t)
	c := b.client(t, client.Config{})
	for name, c := range map[string]struct {
		kind, body string
		ask        func() error
	}{
		"status": {"application/json", `{"corpora":[`, func() error { _, err := c.Status(t.Context(), ""); return err }},
		"nodes": {"application/x-ndjson", `{"id":"`, func() error {
			return c.Nodes(t.Context(), api.TreeRequest{Corpus: "x"}, func(api.TreeHead) error { return nil }, func(*api.Node) error { return nil })
		}},
		"answer": {"text/event-stream", "event: sentence\ndata: {\"text\":\"Half\"}\n\nevent: answer\ndata: {", func() error {
			_, err := c.Ask(t.Context(), "x", api.Ask{}, func(answer.Sentence) {})
			return err
		}},
		"a page": {"text/html", "<h1>Welcome</h1>", func() error { _, err := c.Plan(t.Context(), "x", false); return err }},
	} {
		before := func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Aerie-Generation", "1")
			_, _ = io.WriteString(w, c.body)
			return true
		}
		b.before.Store(&before)
		var e *api.Error
		if err := c.ask(); !errors.As(err, &e) || e.Exit == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTLS: a coordinator behind TLS is trusted by its own authority only.
func TestTLS(t *testing.T) {
	handler := server.New(server.Config{}, servicetest.Open(t, t.TempDir()).Service(t), nil).Handler()
	web := httptest.NewUnstartedServer(handler)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		ok   bool
	}{{file, true}, {"", false}} {
		cl, err := client.New(client.Config{URL: web.URL, CAFile: c.file})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		_, err = cl.Status(t.Context(), "")
		var e *api.Error
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &e) || e.Exit != api.ExitUnreachable || !strings.Contains(e.Error(), "certificate")) {
			t.Errorf("with %q: %v", c.file, err)
		}
	}
	for _, wrong := range []string{filepath.Join(t.TempDir(), "none"), os.Args[0]} {
		if _, err := client.New(client.Config{URL: web.URL, CAFile: wrong}); err == nil || !strings.Contains(err.Error(), "server.ca_file") {
			t.Errorf("%v", err)
		}
	}
}
