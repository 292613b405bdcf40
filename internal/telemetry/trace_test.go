package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/worker"
)

// receiver is an OTLP receiver over HTTP.
type receiver struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	spans    []*otlp.Span
	services map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, services: map[string]bool{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			r.t.Error(err)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &export)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: %v", req.URL.Path, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		r.services[textOf(resource.GetResource().GetAttributes(), "service.name")] = true
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) named(name string) []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var some []*otlp.Span
	for _, s := range r.spans {
		if s.GetName() == name {
			some = append(some, s)
		}
	}
	return some
}

func find(attributes []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue()
		}
	}
	return nil
}

func textOf(attributes []*common.KeyValue, key string) string {
	return find(attributes, key).GetStringValue()
}
func numberOf(s *otlp.Span, key string) int64 { return find(s.GetAttributes(), key).GetIntValue() }

// twice hands each task out, and at once gives it back, before its second delivery reaches the worker.
type twice struct {
	queue.Queue
	mu   sync.Mutex
	seen map[string]bool
	back int
}

func (q *twice) Receive(ctx context.Context) (queue.Delivery, error) {
	for {
		d, err := q.Queue.Receive(ctx)
		if err != nil {
			return nil, err
		}
		task := d.Task()
		q.mu.Lock()
		first := !q.seen[task.ID.String()]
		q.seen[task.ID.String()] = true
		if first {
			q.back++
		}
		q.mu.Unlock()
		if !first {
			return d, nil
		}
		if err := d.Retry(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// TestTracesOfABuild runs a build whose every task is delivered a second time by JetStream, and reads its traces from an
// OTLP receiver: tasks are traces of their own, linked to the span of their level, and hold the calls; no span holds text.
func TestTracesOfABuild(t *testing.T) {
	to := newReceiver(t)
	again := &twice{seen: map[string]bool{}}
	r := newRig(t, rigConfig{
		tracing:  telemetry.Tracing{Endpoint: to.url + "/"},
		endpoint: llmtest.Config{Seed: 2, Faults: map[llmtest.Fault]float64{llmtest.RateLimit: 0.3}},
		wrap:     func(q queue.Queue) queue.Queue { again.Queue = q; return again },
	})
	report := r.build(false)
	if report.Outcome != api.OutcomeBuilt {
		t.Fatalf("the build ended as %s: %s", report.Outcome, report.Why)
	}
	r.tel.Close(context.Background())

	if diff := cmp.Diff(map[string]bool{"aerie": true}, to.services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	levels := map[int64]*otlp.Span{}
	for _, s := range to.named("raptor.level") {
		levels[numberOf(s, "raptor.level")] = s
	}
	tasks := to.named("raptor.task")
	const first, second = leafCount / clusterOf, 2 // clusters of level 1 and 2
	if len(levels) != 2 || len(tasks) != first+second || again.back != first+second {
		t.Fatalf("%d levels, %d tasks, of which %d were given back; want 2, %d and all", len(levels), len(tasks), again.back, first+second)
	}
	for level, want := range map[int64][3]int64{1: {first, clusterOf, leafCount}, 2: {second, clusterOf, first}} {
		got := [3]int64{numberOf(levels[level], "raptor.cluster.count"), numberOf(levels[level], "raptor.cluster.max.size"), numberOf(levels[level], "raptor.level.nodes_in")}
		if got != want {
			t.Errorf("level %d has clusters, largest, nodes %v, want %v", level, got, want)
		}
	}
	checkTasks(t, tasks, levels)
	checkCalls(t, to, tasks, r.endpoint.Counts())
	for _, name := range []string{"raptor.clustering", "raptor.publish", "raptor.work"} {
		for _, s := range to.named(name) {
			level := slices.IndexFunc([]*otlp.Span{levels[1], levels[2]}, func(l *otlp.Span) bool { return bytes.Equal(l.GetSpanId(), s.GetParentSpanId()) })
			if level < 0 {
				t.Errorf("%s is no child of a level", name)
			}
		}
		if got := len(to.named(name)); got != 2 {
			t.Errorf("%d spans %s, want one for each of 2 levels", got, name)
		}
	}
	if builds := to.named("raptor.build"); len(builds) != 1 || textOf(builds[0].GetAttributes(), "aerie.build") != report.Build ||
		textOf(builds[0].GetAttributes(), "aerie.build.outcome") != "built" {
		t.Errorf("spans of builds: %v", builds)
	}
	checkNoText(t, to.spans)
}

// checkTasks holds that each task is a trace of its own, with one link: to the span of its level.
func checkTasks(t *testing.T, tasks []*otlp.Span, levels map[int64]*otlp.Span) {
	t.Helper()
	traces := map[string]bool{}
	for _, s := range tasks {
		level := levels[numberOf(s, "raptor.level")]
		links := s.GetLinks()
		if len(links) != 1 || !bytes.Equal(links[0].GetTraceId(), level.GetTraceId()) || !bytes.Equal(links[0].GetSpanId(), level.GetSpanId()) {
			t.Errorf("a task of level %d is linked to %v, its level is %x in %x", numberOf(s, "raptor.level"), links, level.GetSpanId(), level.GetTraceId())
		}
		if len(s.GetParentSpanId()) != 0 {
			t.Errorf("a task has parent %x", s.GetParentSpanId())
		}
		if got := textOf(s.GetAttributes(), "aerie.task.outcome"); got != "done" {
			t.Errorf("a task's outcome is %q", got)
		}
		traces[hex.EncodeToString(s.GetTraceId())] = true
	}
	if len(traces) != len(tasks) {
		t.Errorf("%d tasks are in %d traces", len(tasks), len(traces))
	}
}

// checkCalls holds that each request that the endpoint had for a task is a child of it, with the tokens.
func checkCalls(t *testing.T, to *receiver, tasks []*otlp.Span, counts llmtest.Counts) {
	t.Helper()
	calls := to.named("call " + chatModel)
	if len(calls) != counts.Chat {
		t.Errorf("%d spans of calls, the endpoint had %d", len(calls), counts.Chat)
	}
	good, throttled := 0, 0
	for _, s := range calls {
		if !slices.ContainsFunc(tasks, func(task *otlp.Span) bool { return bytes.Equal(task.GetSpanId(), s.GetParentSpanId()) }) {
			t.Errorf("a call is no child of a task")
		}
		switch textOf(s.GetAttributes(), "error.type") {
		case "":
			good++
			if numberOf(s, "gen_ai.usage.input_tokens") == 0 || numberOf(s, "gen_ai.usage.output_tokens") == 0 {
				t.Errorf("a call has no tokens: %v", s.GetAttributes())
			}
		case "throttled":
			throttled++
		}
	}
	if good != counts.ChatOK || throttled == 0 || good+throttled != len(calls) {
		t.Errorf("%d calls were good and %d throttled; the endpoint answered %d of %d", good, throttled, counts.ChatOK, counts.Chat)
	}
}

// checkNoText holds that no attribute, event or status holds words of a document or a summary.
func checkNoText(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	for _, s := range spans {
		raw, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"Sentence", "nest", "eggs"} {
			if strings.Contains(string(raw), word) {
				t.Errorf("span %s holds %q: %v", s.GetName(), word, s)
			}
		}
	}
}

// TestBuriedTaskIsLoggedWithItsTrace finds the span of a task by the line that says that it is buried.
func TestBuriedTaskIsLoggedWithItsTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	var lines bytes.Buffer // a slog handler writes one line at a time
	log, err := telemetry.NewLogger(&lines, "error", "json")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, rigConfig{tracing: telemetry.Tracing{Exporter: spans}, log: log, endpoint: llmtest.Config{
		Chat: func(prompt string, _ int) string {
			if strings.Contains(prompt, leafText(12)) {
				return "I'm sorry, but I can't assist with that."
			}
			return "A summary of it."
		},
	}})
	r.build(false)
	var line struct {
		Task    string `json:"task"`
		TraceID string `json:"trace_id"`
		SpanID  string `json:"span_id"`
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatalf("one line is wanted: %v in %s", err, &lines)
	}
	for _, span := range spans.GetSpans() {
		if span.SpanContext.SpanID().String() != line.SpanID {
			continue
		}
		attributes := fmt.Sprint(span.Attributes)
		if span.Name != "raptor.task" || span.SpanContext.TraceID().String() != line.TraceID || !strings.Contains(attributes, line.Task) ||
			!strings.Contains(attributes, "refusal") {
			t.Errorf("the line %s leads to span %s with %s", &lines, span.Name, attributes)
		}
		return
	}
	t.Errorf("no span %s, which the line names: %s", line.SpanID, &lines)
}

// TestTaskUnderASpanIsATraceOfItsOwn: a worker that runs under a span, as an embedded one may, still makes a trace for
// each task, and an error's words stay out of it.
func TestTaskUnderASpanIsATraceOfItsOwn(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tel, err := telemetry.New(telemetry.Config{Program: "worker", Tracing: telemetry.Tracing{Exporter: spans}})
	if err != nil {
		t.Fatal(err)
	}
	outer := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	observer := tel.Worker(1, 0)
	for _, header := range []string{"", "nonsense", "00-" + outer.TraceID().String() + "-" + outer.SpanID().String() + "-01"} {
		task := queue.Task{Corpus: "c", Build: "b", Level: 1, Headers: map[string]string{"traceparent": header}}
		ctx := observer.Taken(trace.ContextWithSpanContext(t.Context(), outer), &task)
		observer.Settled(ctx, &task, worker.End{Outcome: worker.Buried, Cause: "refusal", Err: errors.New("words of a document")})
		got := spans.GetSpans()
		if len(got) != 1 {
			t.Fatalf("%d spans, want 1", len(got))
		}
		span := got[0]
		if span.Parent.IsValid() || span.SpanContext.TraceID() == outer.TraceID() {
			t.Errorf("header %q: the task is a child of %v", header, span.Parent)
		}
		if links := len(span.Links); links > 1 || (links == 1) != (len(header) > 20) {
			t.Errorf("header %q: %d links", header, links)
		}
		if strings.Contains(fmt.Sprint(span), "words") || span.Status.Code != codes.Error {
			t.Errorf("header %q: status %v of %v", header, span.Status, span.Attributes)
		}
		spans.Reset()
	}
}
