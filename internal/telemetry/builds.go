package telemetry

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// builds is the coordinator.Observer.
type builds struct {
	t *Telemetry

	mu     sync.Mutex
	status map[string]buildStatus // the newest build of each corpus
	levels map[tree.Level]*levelSpan
}

type buildStatus struct {
	build  string
	status levels.Status
}

func newBuilds(t *Telemetry) *builds {
	return &builds{t: t, status: map[string]buildStatus{}, levels: map[tree.Level]*levelSpan{}}
}

// Coordinator returns the observer of this process's coordinators.
func (t *Telemetry) Coordinator() coordinator.Observer { return t.builds }

// Lease implements coordinator.Observer.
func (b *builds) Lease(corpus string, event coordinator.LeaseEvent) {
	b.t.add(LeaseLosses, 0, corpus)
	switch event {
	case coordinator.LeaseTaken:
		b.t.set(Leader, 1, corpus)
	case coordinator.LeaseLost:
		b.t.add(LeaseLosses, 1, corpus)
		b.t.set(Leader, 0, corpus)
	case coordinator.LeaseReleased:
		b.t.set(Leader, 0, corpus)
		b.endLevels(corpus)
	}
}

// Planning implements coordinator.Observer.
func (b *builds) Planning(level tree.Level) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.levels[level]; old != nil {
		old.end() // planned again
	}
	b.levels[level] = b.t.traces.level(level, false)
}

// Planned implements coordinator.Observer.
func (b *builds) Planned(level tree.Level, plan *levels.Plan, clustering time.Duration) {
	label := strconv.Itoa(level.Level)
	if plan != nil {
		b.t.observe(ClusteringSeconds, clustering.Seconds(), level.Corpus, label)
		for _, c := range plan.Clusters {
			b.t.observe(ClusterTokens, float64(c.Tokens), level.Corpus, label)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.levels[level]
	if s == nil {
		return
	}
	if plan == nil {
		s.unplanned()
		s.end()
		delete(b.levels, level)
		return
	}
	s.planned(plan)
	s.clustered(clustering)
}

// Published implements coordinator.Observer.
func (b *builds) Published(plan *levels.Plan, tasks int, took time.Duration) {
	level := plan.Of()
	label := strconv.Itoa(level.Level)
	b.t.observe(ReconcileSeconds, took.Seconds(), level.Corpus, label)
	b.t.add(PublishedTasks, float64(tasks), level.Corpus, label)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spanOf(level)
	s.planned(plan)
	s.published(tasks, took)
	s.end()
}

// spanOf returns the span of a level; one that was planned by a process before gets another. The caller holds mu.
func (b *builds) spanOf(level tree.Level) *levelSpan {
	s := b.levels[level]
	if s == nil {
		s = b.t.traces.level(level, true)
		b.levels[level] = s
	}
	return s
}

// trace returns the tasks with the trace of their level, in a list of their own.
func (b *builds) trace(tasks []queue.Task) []queue.Task {
	if !b.t.traces.on || len(tasks) == 0 {
		return tasks
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	tasks = slices.Clone(tasks)
	for i := range tasks {
		headers := map[string]string{}
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(b.t.traces.base, b.spanOf(tasks[i].Of()).context()), propagation.MapCarrier(headers))
		if queue.CheckHeaders(headers) == nil {
			tasks[i].Headers = headers
		}
	}
	return tasks
}

// buildOutcomeOf names the outcomes as the reports of coordinators do.
var buildOutcomeOf = map[levels.Status]string{
	levels.Built: "built", levels.Degraded: "degraded", levels.Failed: "failed", levels.Cancelled: "cancelled", levels.Paused: "paused",
}

// Saved implements coordinator.Observer.
func (b *builds) Saved(state *levels.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.status[state.Corpus]
	b.status[state.Corpus] = buildStatus{state.Build, state.Status}
	for i := range state.Levels {
		l := &state.Levels[i]
		level := tree.Level{Corpus: state.Corpus, Build: state.Build, Level: l.Level}
		if s := b.levels[level]; s != nil && (l.Phase == levels.Sealed || state.Resting()) {
			s.worked(l)
			s.end()
			delete(b.levels, level)
		}
	}
	if !state.Resting() || before == b.status[state.Corpus] {
		return
	}
	outcome := buildOutcomeOf[state.Status]
	b.t.add(Builds, 1, state.Corpus, outcome, string(state.Stop().Cause))
	b.t.observe(BuildSeconds, time.Since(state.Started).Seconds(), state.Corpus, outcome)
	b.t.traces.build(state, outcome)
}

// endLevels ends the spans of a corpus's levels.
func (b *builds) endLevels(corpus string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for level, s := range b.levels {
		if level.Corpus == corpus {
			s.end()
			delete(b.levels, level)
		}
	}
}

func (b *builds) endAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for level, s := range b.levels {
		s.end()
		delete(b.levels, level)
	}
}
