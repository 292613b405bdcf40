package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/server"
)

// held makes every summary wait until free is called, and closes begun with the first.
func held(w *world) (begun <-chan struct{}, free func()) {
	first, gate := make(chan struct{}), make(chan struct{})
	var once, open sync.Once
	w.place.Summarize = func(ctx context.Context) error {
		once.Do(func() { close(first) })
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	free = func() { open.Do(func() { close(gate) }) }
	w.t.Cleanup(free)
	return first, free
}

// post opens a connection by hand and writes the beginning of a request.
func (w *world) post(path, head, body string) net.Conn {
	w.t.Helper()
	u, err := url.Parse(w.web.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\n%s\r\n\r\n%s", path, u.Host, head, body)
	return conn
}

// TestClientGoesAwayMidIngest: what was stored before the connection broke stands, nothing that was there is taken for gone, and
// the same request goes on.
func TestClientGoesAwayMidIngest(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	all := birds(2000)
	conn := w.post("/v1/corpora/birds/documents", fmt.Sprintf("Content-Length: %d", len(all)), all[:len(all)/2]) // in the middle of a row
	var stood api.CorpusStatus
	for stood.Leaves <= 40 {
		stood = want[api.CorpusStatus](t, w.do("GET", "/v1/corpora/birds", nil), http.StatusOK)
	}
	conn.Close()
	again := want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", all), http.StatusOK) // waits for the first to end
	if again.Leaves.Total != 2000 || again.Leaves.Added > 2000-stood.Leaves || again.Leaves.Removed != 0 || again.ErrorCount != 0 {
		t.Errorf("the second request, after %d leaves stood: %+v", stood.Leaves, again)
	}
}

// TestStreamWithoutItsEnd: a stream that names its sources must end with the word that it is complete, also if whatever passed it
// on closed it properly.
func TestStreamWithoutItsEnd(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	cut := `{"source":{"name":"birds.jsonl","line":1}}` + "\n" + birds(3)
	p := problem(t, w.do("POST", "/v1/corpora/birds/documents", cut), http.StatusBadRequest, api.ExitFailed, "broke off")
	if p.Report.Leaves.Total != 40 {
		t.Errorf("%+v", p.Report)
	}
	whole := want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", cut+`{"end":{}}`+"\n"), http.StatusOK)
	if whole.Leaves.Total != 3+10 { // birds-3 wasn't named
		t.Errorf("%+v", whole)
	}
}

// TestIdleBody: a body that stands still is not waited for without end.
func TestIdleBody(t *testing.T) {
	w := newWorld(t, server.Config{BodyIdle: 50 * time.Millisecond})
	conn := w.post("/v1/corpora/birds/documents", "Content-Length: 100000", birds(5))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestSlowAnswer: a handler may take longer than a body may stand still.
func TestSlowAnswer(t *testing.T) {
	w := newWorld(t, server.Config{BodyIdle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	b := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", map[string]any{"force": true}), http.StatusAccepted)
	<-begun
	time.AfterFunc(400*time.Millisecond, free)
	if events := w.do("GET", "/v1/corpora/birds/builds/"+b.Build+"/events", nil); !strings.Contains(string(events.body), "event: rest") {
		t.Errorf("the stream ended early:\n%s", events.body)
	}
}

// stuck is a service whose queries end with their context.
type stuck struct{ api.Service }

func (stuck) Query(ctx context.Context, _ string, _ api.Query) (retrieve.Result, error) {
	<-ctx.Done()
	return retrieve.Result{}, fmt.Errorf("weaviate: search: %w", ctx.Err())
}

// TestStuckQuery: a query whose store doesn't answer is given up.
func TestStuckQuery(t *testing.T) {
	w := &world{t: t}
	w.web = httptest.NewServer(server.New(server.Config{Answer: 20 * time.Millisecond}, stuck{}, nil).Handler())
	t.Cleanup(w.web.Close)
	a := w.do("POST", "/v1/corpora/birds/query", map[string]any{"query": "do owls listen"})
	problem(t, a, http.StatusServiceUnavailable, api.ExitFailed, "gave up", "20ms")
}

// TestTwoBuildsAtOnce: the second request is answered with the build that runs, and a retry is refused. FAULTS:
// infiniflow/ragflow 14101, 3416.
func TestTwoBuildsAtOnce(t *testing.T) {
	w := newWorld(t, server.Config{})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	first := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	second := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", map[string]any{"force": true}), http.StatusAccepted)
	if first.Attached || !second.Attached || first.Build == "" || first.Build != second.Build {
		t.Errorf("first %s (attached %v), second %s (attached %v)", first.Build, first.Attached, second.Build, second.Attached)
	}
	for _, path := range []string{"/retry", "/gc"} {
		problem(t, w.do("POST", "/v1/corpora/birds"+path, nil), http.StatusConflict, api.ExitFailed, first.Build)
	}
	problem(t, w.do("DELETE", "/v1/corpora/birds", nil), http.StatusConflict, api.ExitFailed, first.Build)
	free()
	if last := w.build("birds", nil); last.Report.Generation != 1 {
		t.Errorf("%+v", last.Report)
	}
}

// TestIngestBesideBuild: documents come and go while a build runs, which ends with the leaves that it was planned with.
func TestIngestBesideBuild(t *testing.T) {
	w := newWorld(t, server.Config{Look: 10 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	b := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	more := want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", strings.ReplaceAll(birds(8), "birds-", "new-")), http.StatusOK)
	gone := want[api.IngestReport](t, w.do("DELETE", "/v1/corpora/birds/documents/birds-0", nil), http.StatusOK)
	if more.Leaves.Added != 8 || gone.Leaves.Removed != 10 || gone.Leaves.Total != 38 {
		t.Errorf("%+v, then %+v", more, gone)
	}
	free()
	w.do("GET", "/v1/corpora/birds/builds/"+b.Build+"/events", nil)
	built := want[api.Build](t, w.do("GET", "/v1/corpora/birds/builds/"+b.Build, nil), http.StatusOK)
	if built.Report.Outcome != api.OutcomeBuilt || built.Report.Levels[0].NodesIn != 40 {
		t.Errorf("%+v", built.Report)
	}
}

// TestIdempotencyKey: the same key stands for the same build, while it runs, when it rests, and after a restart of the coordinator.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, server.Config{Look: 10 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	force := map[string]any{"force": true}
	start := func(body any, key string) answer {
		return w.do("POST", "/v1/corpora/birds/builds", body, "Idempotency-Key", key)
	}
	first := want[api.Build](t, start(force, "k1"), http.StatusAccepted)
	<-begun
	if again := want[api.Build](t, start(force, "k1"), http.StatusAccepted); again.Build != first.Build {
		t.Errorf("the same key is answered with %s, not %s", again.Build, first.Build)
	}
	problem(t, start(nil, "k1"), http.StatusUnprocessableEntity, api.ExitUsage, "k1", "another body")
	free()
	w.do("GET", "/v1/corpora/birds/builds/"+first.Build+"/events", nil)
	for range 2 {
		again := want[api.Build](t, start(force, "k1"), http.StatusOK)
		if again.Build != first.Build || again.Report.Generation != 1 {
			t.Errorf("the same key at rest is answered with %s: %+v", again.Build, again.Report)
		}
		problem(t, start(nil, "k1"), http.StatusUnprocessableEntity, api.ExitUsage, "k1")
		w.serve(server.Config{Look: 10 * time.Millisecond}) // as after a restart: nothing is remembered but what is durable
	}
	if other := w.build("birds", force, "Idempotency-Key", "k2"); other.Build == first.Build || other.Report.Generation != 2 {
		t.Errorf("another key is answered with %s: %+v", other.Build, other.Report)
	}
}

// TestPauseAndCancel: a build pauses when it is asked to, goes on, and ends for good when it is cancelled, running or paused. FAULTS:
// infiniflow/ragflow 7835, 11993 (can't be cancelled).
func TestPauseAndCancel(t *testing.T) {
	w := newWorld(t, server.Config{Look: 10 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	begun, free := held(w)
	first := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", nil), http.StatusAccepted)
	<-begun
	stop := func(build, verb string) answer { return w.do("POST", "/v1/corpora/birds/builds/"+build+"/"+verb, nil) }
	want[api.Build](t, stop(first.Build, "pause"), http.StatusAccepted)
	free()
	w.do("GET", "/v1/corpora/birds/builds/"+first.Build+"/events", nil)
	paused := want[api.Build](t, stop(first.Build, "pause"), http.StatusOK)
	if paused.State != levels.Paused || paused.Report.Outcome != api.OutcomePaused {
		t.Fatalf("%s: %+v", paused.State, paused.Report)
	}
	cancelled := want[api.Build](t, stop(first.Build, "cancel"), http.StatusOK)
	if cancelled.State != levels.Cancelled {
		t.Errorf("the paused build is %s after it was cancelled", cancelled.State)
	}
	begun, free = held(w)
	second := want[api.Build](t, w.do("POST", "/v1/corpora/birds/builds", map[string]any{"force": true}), http.StatusAccepted)
	if second.Build == first.Build {
		t.Fatal("a cancelled build went on")
	}
	<-begun
	want[api.Build](t, stop(second.Build, "cancel"), http.StatusAccepted)
	free()
	w.do("GET", "/v1/corpora/birds/builds/"+second.Build+"/events", nil)
	if b := want[api.Build](t, w.do("GET", "/v1/corpora/birds/builds/"+second.Build, nil), http.StatusOK); b.State != levels.Cancelled {
		t.Errorf("the running build is %s after it was cancelled", b.State)
	}
	problem(t, stop(first.Build, "pause"), http.StatusNotFound, api.ExitFailed, second.Build)
}

// errEndpoint is what a broken endpoint says.
var errEndpoint = errors.New("the endpoint is broken")

// TestRetry: buried tasks are named by the build's report, and run again on request.
func TestRetry(t *testing.T) {
	w := newWorld(t, server.Config{Look: 10 * time.Millisecond})
	want[api.IngestReport](t, w.do("POST", "/v1/corpora/birds/documents", birds(40)), http.StatusOK)
	w.place.Summarize = func(context.Context) error { return errEndpoint }
	b := w.build("birds", nil)
	if b.Report.Outcome != api.OutcomeDegraded || len(b.Report.Buried) == 0 {
		t.Fatalf("%+v", b.Report)
	}
	w.place.Summarize = nil
	none := want[api.Build](t, w.do("POST", "/v1/corpora/birds/retry", map[string]any{"cause": "no such cause"}), http.StatusOK)
	if none.Report.Outcome != api.OutcomeNothingToDo {
		t.Errorf("%+v", none.Report)
	}
	again := want[api.Build](t, w.do("POST", "/v1/corpora/birds/retry", nil), http.StatusAccepted)
	w.do("GET", "/v1/corpora/birds/builds/"+again.Build+"/events", nil)
	last := want[api.Build](t, w.do("GET", "/v1/corpora/birds/builds/"+again.Build, nil), http.StatusOK)
	if last.Build != b.Build || last.Report.Outcome != api.OutcomeBuilt {
		t.Errorf("%s after %s: %+v", last.Build, b.Build, last.Report)
	}
}
