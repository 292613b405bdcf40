package telemetry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
)

// Model watches the calls to one model. It is the llm.Observer of whoever calls it.
type Model struct {
	t     *Telemetry
	name  string
	stats llm.Stats

	mu       sync.Mutex
	waited   time.Duration // for limits, in sum
	waiting  int
	underWay int
	limits   map[string]concurrency // by endpoint
}

// concurrency is a limiter that knows how many calls may be under way at a time; 0 is without bound.
type concurrency interface {
	Concurrency(endpoint string) int
}

// Model returns what watches a model, the same for the same name. The name is the label's value: that of the
// configuration, such as "qwen3:8b".
func (t *Telemetry) Model(name string) *Model {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.models[name]
	if m == nil {
		m = &Model{t: t, name: name, limits: map[string]concurrency{}}
		t.models[name] = m
		t.add(Calls, 0, name, OutcomeOK)
	}
	return m
}

// Watch returns the deps with this model's observer, counts and limiter in their places. An embedder and a summarizer of
// different models need deps of their own, which may share the limiter that is passed in.
func (m *Model) Watch(deps llm.Deps) llm.Deps {
	deps.Stats, deps.Observer = &m.stats, m
	if deps.Limiter == nil {
		deps.Limiter = llm.NewLimiter(llm.LimiterConfig{Jitter: deps.Jitter})
	}
	deps.Limiter = &watchedLimiter{Limiter: deps.Limiter, m: m}
	return deps
}

// Calling implements llm.Observer.
func (m *Model) Calling(ctx context.Context) (context.Context, func(llm.Need, error)) {
	began := time.Now()
	m.mu.Lock()
	m.underWay++
	m.mu.Unlock()
	ctx, span := m.t.traces.call(ctx, m.name)
	return ctx, func(used llm.Need, err error) {
		m.mu.Lock()
		m.underWay--
		m.mu.Unlock()
		o := callOutcome(err)
		m.t.add(Calls, 1, m.name, o)
		m.t.observe(CallSeconds, time.Since(began).Seconds(), m.name, o)
		endCall(span, used, o)
	}
}

// callOutcome is the kind of an error of package llm.
func callOutcome(err error) string {
	var call *llm.Error
	switch {
	case err == nil:
		return OutcomeOK
	case errors.As(err, &call) && slices.Contains(callOutcomes, string(call.Kind)):
		return string(call.Kind)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeCancelled
	}
	return OutcomeError
}

// watchedLimiter measures how long calls wait.
type watchedLimiter struct {
	llm.Limiter
	m *Model
}

func (l *watchedLimiter) Acquire(ctx context.Context, endpoint string, need llm.Need) (llm.Permit, error) {
	m, began := l.m, time.Now()
	m.mu.Lock()
	m.waiting++
	if c, ok := l.Limiter.(concurrency); ok {
		m.limits[endpoint] = c
	}
	m.mu.Unlock()
	permit, err := l.Limiter.Acquire(ctx, endpoint, need)
	m.mu.Lock()
	m.waiting--
	m.waited += time.Since(began)
	m.mu.Unlock()
	return permit, err
}

// fillModels exports what is counted by package llm and by limiters.
func (t *Telemetry) fillModels(to send) {
	t.mu.Lock()
	models := maps.Clone(t.models)
	t.mu.Unlock()
	for _, m := range models {
		m.fill(to)
	}
}

func (m *Model) fill(to send) {
	s := &m.stats
	to(InputTokens, float64(s.InputTokens.Load()+s.EmbeddingTokens.Load()), m.name)
	to(OutputTokens, float64(s.OutputTokens.Load()), m.name)
	to(ReusedAnswers, float64(s.Reused.Load()), m.name)
	to(ThrottledCalls, float64(s.Throttled.Load()), m.name)
	for reason, n := range s.RefusedByReason() {
		to(RefusedAnswers, float64(n), m.name, string(reason))
	}
	m.mu.Lock()
	waited, waiting, underWay, limits := m.waited, m.waiting, m.underWay, maps.Clone(m.limits)
	m.mu.Unlock()
	to(LimitWait, waited.Seconds(), m.name)
	to(CallsWaiting, float64(waiting), m.name)
	to(CallsUnderWay, float64(underWay), m.name)
	most := 0
	for endpoint, limiter := range limits { // a model has one endpoint, or several of which the sum counts
		n := limiter.Concurrency(endpoint)
		if n == 0 {
			return
		}
		most += n
	}
	if most > 0 {
		to(ConcurrencyLimit, float64(most), m.name)
	}
}
