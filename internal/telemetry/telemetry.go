package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Config says what a process shows of itself.
type Config struct {
	// Program is "coordinator" or "worker", which export their own rows of [Metrics], or any other name, which exports
	// all. With aerie- before it, it is the service's name in traces.
	Program string
	// Version of the program, for traces; may be empty.
	Version string
	// Tracing says where traces go; the zero value makes none, unless Env does.
	Tracing Tracing
	// Env holds the environment as "NAME=value", of which the OTEL_* variables count; see [Tracing]. Nil is none.
	Env []string
	// Log receives warnings; nil means none.
	Log *slog.Logger
}

// service is the service's name in traces.
func (c Config) service() string {
	if c.Program == "aerie" {
		return c.Program
	}
	return "aerie-" + c.Program
}

// Telemetry is one process's metrics, traces and probes. Its methods may be called from many goroutines.
type Telemetry struct {
	cfg      Config
	registry *prometheus.Registry

	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec

	read   *reading // of corpora, builds and levels
	tasks  *tasks
	builds *builds
	pulses pulses
	traces *tracing

	mu     sync.Mutex
	models map[string]*Model
}

// New returns the telemetry of a process. The error is one of tracing's settings.
func New(cfg Config) (*Telemetry, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Telemetry{
		cfg: cfg, registry: prometheus.NewRegistry(),
		counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{}, models: map[string]*Model{},
	}
	var err error
	if t.traces, err = newTracing(cfg); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.tasks, t.builds = newTasks(t), newBuilds(t)
	t.read = newReading()
	t.register()
	return t, nil
}

// Traced reports whether traces are made.
func (t *Telemetry) Traced() bool { return t.traces.on }

// Close sends what is left of the traces. It waits until ctx ends at most. Traces that can't be sent are no failure of
// the program: that is logged.
func (t *Telemetry) Close(ctx context.Context) {
	t.builds.endAll()
	if err := t.traces.close(ctx); err != nil {
		t.cfg.Log.Warn("the last traces were not sent", "error", err)
	}
}

// Registry returns where the metrics are registered, for metrics of a program's own.
func (t *Telemetry) Registry() prometheus.Registerer { return t.registry }

// register makes every row of the table that the program exports.
func (t *Telemetry) register() {
	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	read, models := &collector{fill: t.read.fill}, &collector{fill: t.fillModels}
	for _, m := range Metrics {
		if !m.of(t.cfg.Program) {
			continue
		}
		switch {
		case readMetrics[m.Name]:
			read.add(m)
		case statsMetrics[m.Name]:
			models.add(m)
		default:
			t.instrument(m)
		}
	}
	for _, c := range []*collector{read, models} {
		if len(c.descs) > 0 {
			t.registry.MustRegister(c)
		}
	}
}

// instrument registers a row that is written to as things happen. Series whose labels are known beforehand exist from
// the start, so that their rates are right from the first event on.
func (t *Telemetry) instrument(m Metric) {
	var known [][]string
	switch {
	case len(m.Labels) == 0:
		known = [][]string{nil}
	case len(m.Labels) == 1 && m.Labels[0] == LabelOutcome:
		for _, o := range m.Outcomes {
			known = append(known, []string{o})
		}
	}
	switch m.Kind {
	case Counter:
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		t.registry.MustRegister(vec)
		t.counters[m.Name] = vec
		for _, values := range known {
			vec.WithLabelValues(values...)
		}
	case Gauge:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
		t.registry.MustRegister(vec)
		t.gauges[m.Name] = vec
		for _, values := range known {
			vec.WithLabelValues(values...)
		}
	case Histogram:
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: m.Name, Help: m.Help, Buckets: m.Buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, m.Labels)
		t.registry.MustRegister(vec)
		t.histograms[m.Name] = vec
	}
}

// add counts n; rows that the program doesn't export are passed over.
func (t *Telemetry) add(name string, n float64, labels ...string) {
	if vec := t.counters[name]; vec != nil {
		vec.WithLabelValues(labels...).Add(n)
	}
}

func (t *Telemetry) set(name string, v float64, labels ...string) {
	if vec := t.gauges[name]; vec != nil {
		vec.WithLabelValues(labels...).Set(v)
	}
}

func (t *Telemetry) observe(name string, v float64, labels ...string) {
	if vec := t.histograms[name]; vec != nil {
		vec.WithLabelValues(labels...).Observe(v)
	}
}

// did counts and times a call to a dependency.
func (t *Telemetry) did(calls, seconds string, began time.Time, err error) {
	o := outcomeOf(err)
	t.add(calls, 1, o)
	t.observe(seconds, time.Since(began).Seconds(), o)
}

// timed begins to time a call to a dependency; what it returns is deferred, and reads the call's error.
func (t *Telemetry) timed(calls, seconds string, err *error) func() {
	began := time.Now()
	return func() { t.did(calls, seconds, began, *err) }
}

// outcomeOf is "ok" or "error". An answer that is expected, such as that there is nothing, is no error; nor is a caller
// that has gone away.
func outcomeOf(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return OutcomeOK
	}
	for _, expected := range expectedErrors {
		if errors.Is(err, expected) {
			return OutcomeOK
		}
	}
	return OutcomeError
}

// Query takes note of a query that begins; the function that it returns is called once with how it ended.
func (t *Telemetry) Query(corpus string) func(hits int, err error) {
	began := time.Now()
	return func(hits int, err error) {
		o := outcomeOf(err)
		var usage *retrieve.UsageError
		if errors.As(err, &usage) || errors.Is(err, retrieve.ErrUnknown) || errors.Is(err, retrieve.ErrEmpty) {
			o = QueryRefused
		}
		t.add(Queries, 1, corpus, o)
		t.observe(QuerySeconds, time.Since(began).Seconds(), corpus, o)
		if err == nil {
			t.observe(QueryHits, float64(hits), corpus)
		}
	}
}

// Request takes note of a request that was answered.
func (t *Telemetry) Request(route string, status int) {
	t.add(Requests, 1, route, strconv.Itoa(status))
}

// Gather returns all metrics as they are now.
func (t *Telemetry) Gather() ([]*dto.MetricFamily, error) { return t.registry.Gather() }
