package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// event is one server-sent event, or a comment.
type event struct{ id, name, data, comment string }

// open opens an event stream.
func (w *world) open(path string, headers ...string) (next func() (event, bool), hangUp func()) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.web.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("status %d, %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() (event, bool) {
		var e event
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if value != "" {
					e.comment = value
				} else if e != (event{}) {
					return e, true
				}
			case "retry":
			default:
				w.t.Errorf("a line of the stream is %q", lines.Text())
			}
		}
		return e, false
	}, func() { res.Body.Close() }
}

// TestEvents: a stream begins with the build as it is, shows that it lives, goes on after the event that was read last, and is over
// for good when the end was read. FAULTS: infiniflow/ragflow 1272, 4173 (looks stuck, no progress).
func TestEvents(t *testing.T) {
	w := newWorld(t, server.Config{Look: 5 * time.Millisecond, Heartbeat: 20 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	b := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	path := "/v1/corpora/birds/builds/" + b.Build + "/events"
	next, hangUp := w.open(path)
	var last event
	for beats := 0; beats < 2; {
		e, ok := next()
		switch {
		case !ok:
			t.Fatal("the stream ended")
		case e.comment != "":
			beats++
		case e.name != "progress" || e.id == "" || e.id == last.id:
			t.Fatalf("event %+v after %+v", e, last)
		default:
			last, beats = e, 0
		}
	}
	var shown api.Build
	if err := json.Unmarshal([]byte(last.data), &shown); err != nil || shown.Build != b.Build || shown.Resting || len(shown.Steps) == 0 {
		t.Errorf("%v: %s", err, last.data)
	}
	hangUp()
	next, _ = w.open(path, "Last-Event-ID", last.id)
	if e, ok := next(); !ok || e.comment == "" { // what was read doesn't come again
		t.Errorf("after %s comes %+v", last.id, e)
	}
	free()
	seen := map[string]bool{last.id: true}
	for {
		e, ok := next()
		if !ok {
			t.Fatal("the stream ended before the build")
		}
		if e.comment != "" {
			continue
		}
		if seen[e.id] {
			t.Errorf("event %s came twice", e.id)
		}
		seen[e.id] = true
		if e.name == "rest" {
			last = e
			break
		}
	}
	if _, ok := next(); ok {
		t.Error("something comes after the end")
	}
	if a := w.do("GET", path, nil, "Last-Event-ID", last.id); a.status != http.StatusNoContent {
		t.Errorf("who has read the end gets status %d", a.status)
	}
	if a := w.do("GET", path, nil); !strings.Contains(string(a.body), "event: rest") {
		t.Errorf("who comes late gets %s", a.body)
	}
	want[api.IngestReport](t, w.do("DELETE", "/v1/corpora/birds", nil), http.StatusOK)
	problem(t, w.do("GET", path, nil), http.StatusNotFound, api.ExitFailed, "no corpus")
}

// TestSlowReader: who doesn't read is dropped, so that nobody waits for it for ever.
func TestSlowReader(t *testing.T) {
	w := newWorld(t, server.Config{Look: 100 * time.Microsecond, Heartbeat: time.Nanosecond, Slow: 50 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, _ := held(w)
	b := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	// A pipe holds nothing: the first byte that isn't read stops the writer.
	ours, theirs := net.Pipe()
	listener := &oneConn{conn: theirs, closed: make(chan struct{})}
	done := make(chan struct{})
	web := &http.Server{Handler: w.web.Config.Handler, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(done)
		}
	}}
	go web.Serve(listener)
	t.Cleanup(func() { web.Close() })
	fmt.Fprintf(ours, "GET /v1/corpora/birds/builds/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", b.Build)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a reader that doesn't read is still waited for")
	}
}

// TestEndStreams: a coordinator that stops lets go of who follows a build.
func TestEndStreams(t *testing.T) {
	place := servicetest.Open(t, t.TempDir())
	w := &world{t: t, place: place}
	s := server.New(server.Config{Look: time.Hour}, place.Service(t), nil)
	w.web = httptest.NewServer(s.Handler())
	t.Cleanup(w.web.Close)
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, _ := held(w)
	b := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	next, _ := w.open("/v1/corpora/birds/builds/" + b.Build + "/events")
	if e, ok := next(); !ok || e.name != "progress" {
		t.Fatalf("%+v", e)
	}
	s.EndStreams()
	if e, ok := next(); ok {
		t.Errorf("after the end comes %+v", e)
	}
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	var conn net.Conn
	l.once.Do(func() { conn = l.conn })
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// TestAskStream: sentences come as events and the whole answer last; what fails first is a problem.
func TestAskStream(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	body := map[string]any{"query": "do owls listen in the dark"}
	a := w.do("POST", "/v1/corpora/birds/ask", body, "Accept", "text/event-stream")
	whole := want[api.Answer](t, w.do("POST", "/v1/corpora/birds/ask", body), http.StatusOK)
	var spoken []string
	var last string
	for part := range strings.SplitSeq(string(a.body), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		switch {
		case !ok:
		case name == "sentence":
			var s api.Spoken
			if err := json.Unmarshal([]byte(data), &s); err != nil {
				t.Fatal(err)
			}
			spoken = append(spoken, s.Gap+s.Text)
		default:
			last = name + " " + data
		}
	}
	if got := strings.Join(spoken, ""); got != whole.Text || len(spoken) == 0 {
		t.Errorf("spoken was %q, the answer is %q", got, whole.Text)
	}
	data, ok := strings.CutPrefix(last, "answer ")
	if diff := cmp.Diff(whole, want[api.Answer](t, answer{200, nil, []byte(data)}, 200)); !ok || diff != "" {
		t.Errorf("the last event is %s: (-JSON +event)\n%s", last, diff)
	}
	problem(t, w.do("POST", "/v1/corpora/brids/ask", body, "Accept", "text/event-stream"), http.StatusNotFound, api.ExitFailed, "birds")
}

// TestPages: lists come page by page in a fixed order, whatever is added in between, and a cursor of a tree that was replaced is gone.
func TestPages(t *testing.T) {
	w := newWorld(t, server.Config{Look: 5 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	w.build("birds", nil)
	first := want[api.DocumentPage](t, w.do("GET", "/v1/corpora/birds/documents?limit=3", nil), http.StatusOK)
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", `{"id":"x","document_id":"a first","text":"A new one."}`), http.StatusOK)
	rest := want[api.DocumentPage](t, w.do("GET", "/v1/corpora/birds/documents?limit=3&cursor="+first.NextCursor, nil), http.StatusOK)
	var ids []string
	for _, d := range append(first.Documents, rest.Documents...) {
		ids = append(ids, fmt.Sprint(d.ID, " ", d.Leaves))
	}
	if diff := cmp.Diff([]string{"birds-0 10", "birds-1 10", "birds-2 10", "birds-3 10"}, ids); diff != "" || rest.NextCursor != "" {
		t.Errorf("then %q (-want +got)\n%s", rest.NextCursor, diff)
	}
	prefixed := want[api.DocumentPage](t, w.do("GET", "/v1/corpora/birds/documents?prefix=a", nil), http.StatusOK)
	if len(prefixed.Documents) != 1 {
		t.Errorf("%+v", prefixed)
	}

	lines := w.do("GET", "/v1/corpora/birds/nodes?vectors=true", nil, "Accept", "application/x-ndjson")
	if lines.header.Get("Aerie-Generation") != "1" || lines.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v", lines.header)
	}
	var all []api.Node
	for line := range strings.Lines(string(lines.body)) {
		all = append(all, want[api.Node](t, answer{200, nil, []byte(line)}, 200))
	}
	var paged []api.Node
	page := api.NodePage{}
	for query := "?limit=7&vectors=true"; ; query = "?limit=7&vectors=true&cursor=" + page.NextCursor {
		page = want[api.NodePage](t, w.do("GET", "/v1/corpora/birds/nodes"+query, nil), http.StatusOK)
		paged = append(paged, page.Nodes...)
		if page.NextCursor == "" {
			break
		}
	}
	if diff := cmp.Diff(all, paged); diff != "" || len(all) < 45 || page.Generation != 1 {
		t.Errorf("%d nodes of generation %d; (-all +paged)\n%s", len(all), page.Generation, diff)
	}
	sorted := slices.IsSortedFunc(all, func(a, b api.Node) int {
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		return a.ID.Compare(b.ID)
	})
	if !sorted {
		t.Error("the nodes are not in the order of level and id")
	}
	w.checkParts(all)
	page = want[api.NodePage](t, w.do("GET", "/v1/corpora/birds/nodes?limit=7&text=false", nil), http.StatusOK)
	if page.Nodes[0].Text != "" || page.Nodes[0].Vector != nil {
		t.Errorf("%+v", page.Nodes[0])
	}
	w.build("birds", map[string]any{"force": true})
	problem(t, w.do("GET", "/v1/corpora/birds/nodes?limit=7&cursor="+page.NextCursor, nil), http.StatusGone, api.ExitFailed, "newer generation", "begin again")
}

// checkParts asks for parts of a tree.
func (w *world) checkParts(all []api.Node) {
	w.t.Helper()
	root := all[len(all)-1]
	under := want[api.NodePage](w.t, w.do("GET", "/v1/corpora/birds/nodes?root="+root.ID.String(), nil), http.StatusOK)
	if got := under.Nodes[len(under.Nodes)-1].ID; got != root.ID || len(under.Nodes) != 1+root.NLeaves && root.Level == 1 {
		w.t.Errorf("below %s are %d nodes up to %s", root.ID, len(under.Nodes), got)
	}
	direct := want[api.NodePage](w.t, w.do("GET", "/v1/corpora/birds/nodes?depth=2&root="+root.ID.String(), nil), http.StatusOK)
	if len(direct.Nodes) != 1+len(root.ChildIDs) {
		w.t.Errorf("two levels from %s are %d nodes, want itself and %d children", root.ID, len(direct.Nodes), len(root.ChildIDs))
	}
	ids := []tree.ID{all[0].ID, root.ID, {1, 2, 3}}
	found := want[struct{ Texts map[string]string }](w.t, w.do("POST", "/v1/corpora/birds/nodes/texts", map[string]any{"ids": ids}), http.StatusOK)
	if diff := cmp.Diff(map[string]string{all[0].ID.String(): all[0].Text, root.ID.String(): root.Text}, found.Texts); diff != "" {
		w.t.Errorf("(-want +got)\n%s", diff)
	}
	hash := want[api.TreeHash](w.t, w.do("GET", "/v1/corpora/birds/tree", nil), http.StatusOK)
	if hash.Generation != 1 || len(hash.Hash) != 32 {
		w.t.Errorf("%+v", hash)
	}
}
