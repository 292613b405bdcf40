package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Tracing says where traces go. They are off unless Endpoint or Exporter is set, or one of the standard variables
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_TRACES_EXPORTER=otlp.
// OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED=true turn them off whatever else is set. Headers, certificates, time-out,
// sampler, batching and resource attributes are those of the OTEL_* variables, which the exporter reads itself from the
// process's environment.
type Tracing struct {
	// Endpoint is the base address of an OTLP receiver over HTTP, such as http://otel-collector:4318; /v1/traces is
	// added. It is stronger than the environment.
	Endpoint string
	// Ratio is the share of traces that is kept, 0 to 1; 0 and 1 leave it to OTEL_TRACES_SAMPLER, whose default is all.
	Ratio float64
	// Exporter, if not nil, takes the spans instead, at once: for tests.
	Exporter sdk.SpanExporter
}

// tracing makes spans, or none.
type tracing struct {
	on       bool
	provider *sdk.TracerProvider // nil when off
	tracer   trace.Tracer
	base     context.Context // an empty one
}

const scope = "github.com/aerie-rag/aerie"

func newTracing(cfg Config) (*tracing, error) {
	t := &tracing{tracer: noop.NewTracerProvider().Tracer(scope), base: context.Background()}
	on, err := cfg.Tracing.wanted(cfg.Env)
	if err != nil || !on {
		return t, err
	}
	exporter := sdk.WithSyncer(cfg.Tracing.Exporter)
	if cfg.Tracing.Exporter == nil {
		var options []otlptracehttp.Option
		if cfg.Tracing.Endpoint != "" {
			options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(cfg.Tracing.Endpoint, "/")+"/v1/traces"))
		}
		otlp, err := otlptracehttp.New(t.base, options...)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		exporter = sdk.WithBatcher(otlp)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", cfg.service())}
	if cfg.Version != "" {
		attributes = append(attributes, attribute.String("service.version", cfg.Version))
	}
	// The environment comes last: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
	res, err := resource.New(t.base, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	options := []sdk.TracerProviderOption{exporter, sdk.WithResource(res)}
	if ratio := cfg.Tracing.Ratio; ratio > 0 && ratio < 1 {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(ratio))))
	}
	otel.SetErrorHandler(&complaints{log: cfg.Log}) // the library's own writes lines of its own form to stderr
	t.on, t.provider = true, sdk.NewTracerProvider(options...)
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version))
	return t, nil
}

// complaints logs what goes wrong with sending traces, not more often than once a minute: a receiver may be away for long,
// and a batch is sent every few seconds.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= time.Minute {
		c.last = now
		c.log.Warn("traces were not sent", "error", err)
	}
}

// wanted reports whether traces are on, and what is wrong with what the environment says of them.
func (c Tracing) wanted(env []string) (bool, error) {
	get := func(name string) string {
		for _, pair := range slices.Backward(env) {
			if n, v, _ := strings.Cut(pair, "="); n == name {
				return v
			}
		}
		return ""
	}
	exporter := get("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(get("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case c.Exporter != nil:
		return true, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; it must be otlp or none", exporter)
	case c.Endpoint == "" && exporter == "" && get("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return false, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := get(name); protocol != "" {
			if protocol != "http/protobuf" {
				return false, fmt.Errorf("%s is %q; traces are sent over http/protobuf only, mostly to port 4318", name, protocol)
			}
			break
		}
	}
	if c.Endpoint == "" {
		return true, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, errors.New("telemetry.otlp_endpoint must be an address such as http://otel-collector:4318")
	}
	return true, nil
}

func (t *tracing) close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// task begins the span of a task in hand: a trace of its own, linked to the level that asked for it. A child would make
// one trace of a build of many hours.
func (t *tracing) task(ctx context.Context, task *queue.Task) (context.Context, trace.Span) {
	if !t.on {
		return ctx, noop.Span{}
	}
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(levelAttributes(task.Of()), attribute.String("aerie.task", task.ID.String()))...),
	}
	level := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.base, propagation.MapCarrier(task.Headers)))
	if level.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: level}))
	}
	return t.tracer.Start(ctx, "raptor.task", options...)
}

// call begins the span of a request to a model.
func (t *tracing) call(ctx context.Context, model string) (context.Context, trace.Span) {
	if !t.on {
		return ctx, noop.Span{}
	}
	return t.tracer.Start(ctx, "call "+model, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("gen_ai.request.model", model)))
}

// build leaves a span for a build that has come to rest, from its start on. It is made at the end, since one that is open
// for hours is lost with its process.
func (t *tracing) build(state *levels.State, outcome string) {
	if !t.on {
		return
	}
	var usage struct{ calls, reused, in, out int }
	for _, l := range state.Levels {
		usage.calls, usage.reused = usage.calls+l.Usage.Calls, usage.reused+l.Usage.Reused
		usage.in, usage.out = usage.in+l.Usage.InputTokens, usage.out+l.Usage.OutputTokens
	}
	_, span := t.tracer.Start(t.base, "raptor.build", trace.WithNewRoot(), trace.WithTimestamp(state.Started), trace.WithAttributes(
		attribute.String("aerie.corpus", state.Corpus), attribute.String("aerie.build", state.Build),
		attribute.String("aerie.build.outcome", outcome), attribute.Int("raptor.level.count", len(state.Levels)),
		attribute.Int("aerie.calls", usage.calls), attribute.Int("aerie.calls.reused", usage.reused),
		attribute.Int("gen_ai.usage.input_tokens", usage.in), attribute.Int("gen_ai.usage.output_tokens", usage.out),
	))
	span.End()
}

// levelSpan is the span of one level: of its planning and of the queuing of its tasks. What follows, the work of hours, is
// a child that is made when it is over.
type levelSpan struct {
	t    *tracing
	ctx  context.Context // of the span
	span trace.Span
}

// level begins the span of a level. resumed says that it was planned before.
func (t *tracing) level(level tree.Level, resumed bool) *levelSpan {
	if !t.on {
		return &levelSpan{t: t, ctx: t.base, span: noop.Span{}}
	}
	attributes := append(levelAttributes(level), attribute.Bool("aerie.level.resumed", resumed))
	ctx, span := t.tracer.Start(t.base, "raptor.level", trace.WithNewRoot(), trace.WithAttributes(attributes...))
	return &levelSpan{t: t, ctx: ctx, span: span}
}

func levelAttributes(level tree.Level) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("aerie.corpus", level.Corpus), attribute.String("aerie.build", level.Build), attribute.Int("raptor.level", level.Level),
	}
}

func (s *levelSpan) context() trace.SpanContext { return s.span.SpanContext() }

func (s *levelSpan) end() { s.span.End() }

// planned says what the plan is like: how many clusters, and how many children and tokens the largest ones have.
func (s *levelSpan) planned(plan *levels.Plan) {
	if !s.span.IsRecording() {
		return
	}
	size, tokens := 0, 0
	for _, c := range plan.Clusters {
		size, tokens = max(size, len(c.Children)), max(tokens, c.Tokens)
	}
	s.span.SetAttributes(
		attribute.Int("raptor.cluster.count", len(plan.Clusters)), attribute.Int("raptor.cluster.max.size", size),
		attribute.Int("raptor.cluster.max.tokens", tokens), attribute.Int("raptor.level.nodes_in", plan.NodesIn),
	)
}

// unplanned says that there is no such level.
func (s *levelSpan) unplanned() { s.span.SetAttributes(attribute.Int("raptor.cluster.count", 0)) }

func (s *levelSpan) clustered(took time.Duration) { s.past("raptor.clustering", took) }

func (s *levelSpan) published(tasks int, took time.Duration) {
	s.past("raptor.publish", took, attribute.Int("aerie.tasks.queued", tasks))
}

// worked says what became of the level's tasks.
func (s *levelSpan) worked(l *levels.Level) {
	if l.Started.IsZero() {
		return
	}
	s.past("raptor.work", time.Since(l.Started),
		attribute.Int("raptor.cluster.count", l.Total), attribute.Int("aerie.tasks.done", l.Done), attribute.Int("aerie.tasks.buried", l.Dead),
		attribute.Int("aerie.calls", l.Usage.Calls), attribute.Int("aerie.calls.reused", l.Usage.Reused),
		attribute.Int("gen_ai.usage.input_tokens", l.Usage.InputTokens), attribute.Int("gen_ai.usage.output_tokens", l.Usage.OutputTokens))
}

// past leaves a child for something that has just ended.
func (s *levelSpan) past(name string, took time.Duration, attributes ...attribute.KeyValue) {
	if !s.t.on {
		return
	}
	_, span := s.t.tracer.Start(s.ctx, name, trace.WithTimestamp(time.Now().Add(-took)), trace.WithAttributes(attributes...))
	span.End()
}

// endCall ends the span of a request. No text goes into it, not even the endpoint's message.
func endCall(span trace.Span, used llm.Need, outcome string) {
	if used.InputTokens > 0 {
		span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", used.InputTokens))
	}
	if used.OutputTokens > 0 {
		span.SetAttributes(attribute.Int("gen_ai.usage.output_tokens", used.OutputTokens))
	}
	if outcome != OutcomeOK {
		span.SetAttributes(attribute.String("error.type", outcome))
		span.SetStatus(codes.Error, outcome)
	}
	span.End()
}
