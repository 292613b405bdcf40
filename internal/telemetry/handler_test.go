package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/worker"
)

func newTelemetry(t *testing.T, program string) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(telemetry.Config{Program: program})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// probe is the answer of a probe.
type probe struct {
	Code   int
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func ask(t *testing.T, h http.Handler, path string) probe {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	p := probe{Code: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v in %q", path, err, w.Body)
	}
	return p
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, "worker")
		var down atomic.Bool
		var asked atomic.Int64
		down.Store(true)
		h := tel.Handler(
			telemetry.Check{Name: "queue", Ask: func(context.Context) error {
				asked.Add(1)
				if down.Load() {
					return errors.New("connection refused")
				}
				return nil
			}},
			telemetry.Check{Name: "state", Ask: func(context.Context) error { return nil }},
		)
		want := probe{Code: 503, Status: "failing", Checks: map[string]string{"queue": "connection refused", "state": "ok"}}
		for range 5 {
			if diff := cmp.Diff(want, ask(t, h, "/readyz")); diff != "" {
				t.Errorf("while the queue is down (-want +got):\n%s", diff)
			}
		}
		if got := asked.Load(); got != 1 {
			t.Errorf("the queue was asked %d times within a second, want 1", got)
		}
		if got := ask(t, h, "/healthz"); got.Code != 200 {
			t.Errorf("/healthz is %d while the queue is down: %v", got.Code, got.Checks)
		}
		down.Store(false)
		<-time.After(1100 * time.Millisecond)
		want = probe{Code: 200, Status: "ok", Checks: map[string]string{"queue": "ok", "state": "ok"}}
		if diff := cmp.Diff(want, ask(t, h, "/readyz")); diff != "" {
			t.Errorf("after the queue is back (-want +got):\n%s", diff)
		}
	})
}

// TestReadyWithoutProbes: where nobody asks /readyz, the gauge still tells whether the process is ready.
func TestReadyWithoutProbes(t *testing.T) {
	for want, err := range map[string]error{"aerie_ready 1\n": nil, "aerie_ready 0\n": errors.New("connection refused")} {
		h := newTelemetry(t, "worker").Handler(telemetry.Check{Name: "queue", Ask: func(context.Context) error { return err }})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("with the answer %v: no %q", err, want)
		}
	}
}

// TestReadyDoesNotHang asks a dependency that never answers, and one that doesn't even heed the end of its context.
func TestReadyDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, "coordinator")
		deaf := make(chan struct{})
		var begun atomic.Int64
		h := tel.Handler(
			telemetry.Check{Name: "store", Ask: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			telemetry.Check{Name: "queue", Ask: func(context.Context) error { begun.Add(1); <-deaf; return nil }},
		)
		for range 3 {
			start := time.Now()
			got := ask(t, h, "/readyz")
			if got.Code != 503 || !strings.HasPrefix(got.Checks["store"], "no answer within 2s") || got.Checks["queue"] != "no answer within 2s" {
				t.Errorf("%d %v", got.Code, got.Checks)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("the answer took %v", took)
			}
			<-time.After(2 * time.Second)
		}
		if got := begun.Load(); got != 1 {
			t.Errorf("the check that hangs was begun %d times, want once", got)
		}
		close(deaf)
		synctest.Wait()
		if got := ask(t, h, "/readyz"); got.Checks["queue"] != "ok" {
			t.Errorf("after it has answered: %v", got.Checks)
		}
	})
}

// TestStuckLoopIsNotAlive: a loop that doesn't beat, or a task that outlives its deadline, makes /healthz fail.
func TestStuckLoopIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, "worker")
		h := tel.Handler()
		pulse := tel.Pulse("reports", time.Minute)
		observer := tel.Worker(2, 10*time.Minute)
		<-time.After(59 * time.Second)
		if got := ask(t, h, "/healthz"); got.Code != 200 {
			t.Fatalf("%d %v", got.Code, got.Checks)
		}
		<-time.After(2 * time.Second)
		if got := ask(t, h, "/healthz"); got.Code != 503 || !strings.Contains(got.Checks["reports"], "no sign for 1m1s") {
			t.Errorf("without a beat: %d %v", got.Code, got.Checks)
		}
		pulse.Beat()
		if got := ask(t, h, "/healthz"); got.Code != 200 {
			t.Errorf("after a beat: %d %v", got.Code, got.Checks)
		}
		pulse.Stop()
		task := queue.Task{Corpus: "c", Level: 1}
		ctx := observer.Taken(t.Context(), &task)
		<-time.After(11 * time.Minute)
		if got := ask(t, h, "/healthz"); got.Code != 200 {
			t.Errorf("a task within its time: %d %v", got.Code, got.Checks)
		}
		<-time.After(time.Second)
		if got := ask(t, h, "/healthz"); got.Code != 503 || !strings.Contains(got.Checks["tasks"], "in hand for 11m1s") {
			t.Errorf("a task that is stuck: %d %v", got.Code, got.Checks)
		}
		observer.Settled(ctx, &task, worker.End{Outcome: worker.Returned})
		if got := ask(t, h, "/healthz"); got.Code != 200 {
			t.Errorf("after it was settled: %d %v", got.Code, got.Checks)
		}
	})
}

// TestLostLeases moves what an undisturbed build doesn't.
func TestLostLeases(t *testing.T) {
	tel := newTelemetry(t, "aerie")
	observer := tel.Worker(1, 0)
	task := queue.Task{Corpus: "c", Level: 3}
	observer.Settled(observer.Taken(t.Context(), &task), &task, worker.End{Outcome: worker.Returned, LeaseLost: true})
	tel.Coordinator().Lease("c", coordinator.LeaseTaken)
	tel.Coordinator().Lease("c", coordinator.LeaseLost)
	tel.Coordinator().Lease("c", coordinator.LeaseReleased)
	r := rig{t: t, tel: tel}
	got := r.gather()
	for name, want := range map[string]float64{telemetry.LeaseLosses: 1, telemetry.Leader: 0} {
		if v := got.at(t, name, "corpus=c"); v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if v := got.at(t, telemetry.TaskLeaseLosses, "corpus=c", "level=3"); v != 1 {
		t.Errorf("%s is %v, want 1", telemetry.TaskLeaseLosses, v)
	}
}

// TestQueriesByOutcome tells a failure from a request that can't be answered.
func TestQueriesByOutcome(t *testing.T) {
	tel := newTelemetry(t, "coordinator")
	for _, err := range []error{
		nil, context.Canceled, fmt.Errorf("c: %w", retrieve.ErrEmpty), fmt.Errorf("d: %w", &retrieve.UsageError{}), errors.New("connection refused"),
	} {
		tel.Query("c")(1, err)
	}
	r := rig{t: t, tel: tel}
	got := r.gather()
	for outcome, want := range map[string]float64{"ok": 2, "refused": 2, "error": 1} {
		if v := got.at(t, telemetry.Queries, "corpus=c", "outcome="+outcome); v != want {
			t.Errorf("%v queries are counted as %s, want %v", v, outcome, want)
		}
	}
	if v := got.at(t, telemetry.QueryHits, "corpus=c"); v != 1 {
		t.Errorf("hits of %v queries are counted, want that of the one that was answered", v)
	}
}

// TestHistogramsAreBoth reads a histogram as text, with classic buckets, and as protobuf, with native ones beside them.
func TestHistogramsAreBoth(t *testing.T) {
	tel := newTelemetry(t, "coordinator")
	tel.Query("c")(3, nil)
	server := httptest.NewServer(tel.Handler())
	defer server.Close()
	get := func(accept string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close(); server.Client().CloseIdleConnections() })
		return res
	}
	raw, err := io.ReadAll(get("text/plain").Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, line := range []string{
		`aerie_query_hits_bucket{corpus="c",le="5"} 1`, `aerie_query_hits_count{corpus="c"} 1`, `aerie_store_calls_total{outcome="error"} 0`,
		"go_goroutines ", "process_start_time_seconds ", "go_build_info{",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the text has no %s", line)
		}
	}
	if strings.Contains(text, telemetry.Slots) {
		t.Error("a coordinator exports the worker's slots")
	}
	res := get(string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	decoder := expfmt.NewDecoder(res.Body, expfmt.ResponseFormat(res.Header))
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); err != nil {
			t.Fatalf("no family %s: %v", telemetry.QueryHits, err)
		}
		if f.GetName() != telemetry.QueryHits {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSchema() == 0 || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 {
			t.Errorf("native and classic buckets are wanted, got %v", h)
		}
		return
	}
}

func TestOtherPathsAreNotFound(t *testing.T) {
	h := newTelemetry(t, "worker").Handler()
	for _, path := range []string{"/", "/debug/pprof/", "/metrics/x"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 {
			t.Errorf("%s is %d, want 404", path, w.Code)
		}
	}
}
