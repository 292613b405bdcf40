package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/worker"
)

// tasks is the worker.Observer.
type tasks struct {
	t *Telemetry

	mu    sync.Mutex
	hand  map[*inHand]struct{}
	limit time.Duration // after which a task in hand means that its slot is stuck; 0 is none
}

type inHand struct {
	since time.Time
	span  trace.Span
}

func newTasks(t *Telemetry) *tasks { return &tasks{t: t, hand: map[*inHand]struct{}{}} }

// stuckAfter is how much longer than its total deadline a task may be in hand: it is settled within 15 s after that.
const stuckAfter = time.Minute

// Worker returns the observer of this process's worker. slots is how many tasks it has in hand at most, and taskTimeout
// worker.Config.TaskTimeout (0 is its default, an hour): a task that is in hand a minute longer than that makes
// /healthz fail, since its slot can't be alive.
func (t *Telemetry) Worker(slots int, taskTimeout time.Duration) worker.Observer {
	if taskTimeout == 0 {
		taskTimeout = time.Hour
	}
	t.tasks.mu.Lock()
	t.tasks.limit = taskTimeout + stuckAfter
	t.tasks.mu.Unlock()
	t.set(Slots, float64(slots))
	return t.tasks
}

type inHandKey struct{}

// Taken implements worker.Observer.
func (w *tasks) Taken(ctx context.Context, task *queue.Task) context.Context {
	one := &inHand{since: time.Now()}
	ctx, one.span = w.t.traces.task(ctx, task)
	w.mu.Lock()
	w.hand[one] = struct{}{}
	busy := len(w.hand)
	w.mu.Unlock()
	w.t.set(BusySlots, float64(busy))
	return context.WithValue(ctx, inHandKey{}, one)
}

// Settled implements worker.Observer.
func (w *tasks) Settled(ctx context.Context, task *queue.Task, end worker.End) {
	level := strconv.Itoa(task.Level)
	w.t.add(Tasks, 1, task.Corpus, level, string(end.Outcome))
	w.t.observe(TaskSeconds, end.Took.Seconds(), task.Corpus, level, string(end.Outcome))
	if end.Outcome == worker.Buried {
		w.t.add(BuriedTasks, 1, task.Corpus, level, end.Cause)
	}
	if end.LeaseLost {
		w.t.add(TaskLeaseLosses, 1, task.Corpus, level)
	}
	one, ok := ctx.Value(inHandKey{}).(*inHand)
	if !ok {
		return
	}
	w.mu.Lock()
	delete(w.hand, one)
	busy := len(w.hand)
	w.mu.Unlock()
	w.t.set(BusySlots, float64(busy))
	one.span.SetAttributes(attribute.String("aerie.task.outcome", string(end.Outcome)))
	if end.Cause != "" {
		one.span.SetAttributes(attribute.String("error.type", end.Cause))
	}
	if end.Err != nil { // its words may hold text of a document or a model
		one.span.SetStatus(codes.Error, string(end.Outcome))
	}
	one.span.End()
}

// alive returns an error if a task is in hand for longer than can be.
func (w *tasks) alive(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.hand {
		if age := now.Sub(one.since); w.limit > 0 && age > w.limit {
			return fmt.Errorf("a task has been in hand for %v, its deadline was after %v", age.Round(time.Second), w.limit-stuckAfter)
		}
	}
	return nil
}
