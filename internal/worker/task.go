package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// delivery is one task in hand.
type delivery struct {
	queue.Delivery
	task  queue.Task
	begun atomic.Bool // an attempt was counted
	end   End         // as far as it is known; of whoever settles
	lost  atomic.Bool
}

// settle works on one delivery until it is done, given back or buried. work ends when the worker gives up what is
// in hand.
func (w *Worker) settle(work context.Context, q queue.Delivery) {
	d := &delivery{Delivery: q, task: q.Task()}
	w.mu.Lock()
	w.hand[d] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.hand, d)
		w.mu.Unlock()
	}()

	taken := time.Now()
	observed := w.deps.Observer.Taken(work, &d.task)
	defer func() {
		d.end.Took, d.end.LeaseLost = time.Since(taken), d.lost.Load()
		w.deps.Observer.Settled(observed, &d.task, d.end)
	}()
	ctx, cancel := context.WithTimeoutCause(observed, w.cfg.TaskTimeout, &late{w.cfg.TaskTimeout})
	defer cancel()
	stopBeating := w.beat(ctx, cancel, d)
	outcome, err := w.bounded(ctx, d)
	stopBeating() // joined before settling: a late heartbeat must not revive a settled task
	if err == nil {
		d.end.Outcome = outcome
		return
	}
	// What is to be said of the task must still be said when the worker is shutting down.
	settling, done := context.WithTimeout(context.WithoutCancel(observed), 15*time.Second)
	defer done()
	w.conclude(settling, work, d, err)
}

// beat extends the lease until it is stopped; a lost lease cancels the work. The returned function stops the beat
// and waits for it.
func (w *Worker) beat(ctx context.Context, cancel context.CancelFunc, d *delivery) func() {
	stop := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(w.cfg.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := d.Extend(ctx); errors.Is(err, queue.ErrLost) {
				w.deps.Log.WarnContext(ctx, "the lease on a task is lost; another worker may have it", "task", d.task.ID)
				d.lost.Store(true)
				cancel()
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(stop); beating.Wait() })
}

// attempt does everything for one task, and acks it. Each step may have been done before.
func (w *Worker) attempt(ctx context.Context, d *delivery, held *holding) (Outcome, error) {
	t := &d.task
	if t.Recipe != w.cfg.Recipe {
		return "", &mismatch{t.Recipe, w.cfg.Recipe}
	}
	nodes, err := w.deps.Store.Get(ctx, t.Corpus, []tree.ID{t.ID}, store.Fields{})
	if err != nil {
		return "", &dependency{fmt.Errorf("looking the node up: %w", err)}
	}
	if len(nodes) > 0 && !nodes[0].Emptied() {
		return Reused, w.finish(ctx, d, tree.Usage{Reused: 1})
	}
	if err := w.check(ctx, t); err != nil {
		return "", err
	}
	// The place comes before the attempt: one that waits while another runs alone, and may end the process, has not begun.
	if err := held.take(ctx, w.places, 1); err != nil {
		return "", err
	}
	alone, err := w.begin(ctx, d)
	if err != nil {
		return "", err
	}
	if alone {
		// So it is with a suspect that waits for another one.
		if err := w.takeBack(ctx, d); err != nil {
			return "", err
		}
		held.give(w.places)
		if err := held.take(ctx, w.places, int64(w.cfg.hands())); err != nil {
			return "", err
		}
		if _, err := w.begin(ctx, d); err != nil {
			return "", err
		}
	}
	usage, err := w.make(ctx, t, held)
	if err != nil {
		w.spent(ctx, t, usage)
		return "", err
	}
	return Done, w.finish(ctx, d, usage)
}

// spent books what an attempt has cost that came to nothing: answers that were refused, and those that the journal will give the next one.
func (w *Worker) spent(ctx context.Context, t *queue.Task, usage tree.Usage) {
	if usage.Calls == 0 {
		return
	}
	usage.Reused = 0 // the attempt that ends well counts them
	mark := levels.Mark{Position: t.Position, Outcome: levels.Spent, Usage: usage}
	if _, err := w.deps.Barrier.Mark(context.WithoutCancel(ctx), t.Of(), t.Digest, mark); err != nil {
		w.deps.Log.WarnContext(ctx, "what an attempt has cost was not booked", "task", t.ID, "calls", usage.Calls, "error", err)
	}
}

// begin counts the attempt, and says whether the task must run alone.
func (w *Worker) begin(ctx context.Context, d *delivery) (alone bool, err error) {
	n, err := w.deps.Journal.Begin(ctx, d.task.Build, d.task.ID)
	if err != nil {
		return false, &dependency{fmt.Errorf("counting the attempt: %w", err)}
	}
	d.begun.Store(true)
	died := n.Started - n.Failed - n.Returned - 1
	const blamed = 2 // attempts alone that a task may end with its process
	switch {
	case n.Failed >= w.cfg.MaxAttempts:
		return false, queue.Permanent("attempts", fmt.Errorf("%d attempts have failed", n.Failed))
	case died >= w.cfg.MaxAttempts+blamed:
		return false, queue.Permanent("worker_died", fmt.Errorf("%d attempts have ended with the worker's process", died))
	}
	return died >= w.cfg.MaxAttempts, nil
}

// takeBack makes an attempt uncounted that was begun.
func (w *Worker) takeBack(ctx context.Context, d *delivery) error {
	if _, err := w.deps.Journal.End(ctx, d.task.Build, d.task.ID, false); err != nil {
		return &dependency{fmt.Errorf("taking the attempt back: %w", err)}
	}
	d.begun.Store(false)
	return nil
}

// make summarizes the children and writes the node.
func (w *Worker) make(ctx context.Context, t *queue.Task, held *holding) (tree.Usage, error) {
	children, err := w.children(ctx, t)
	if err != nil {
		return tree.Usage{}, err
	}
	passages := make([]mapreduce.Child, len(children))
	for i := range children {
		passages[i] = mapreduce.Child{Text: children[i].Text, Tokens: children[i].Tokens}
	}
	reduce := w.cfg.Reduce
	reduce.Build, reduce.Corpus = t.Build, t.Corpus
	embedder := w.deps.Embedder
	if w.deps.EmbedderOf != nil { // before anything is paid
		if embedder, err = w.deps.EmbedderOf(ctx, t.Corpus); err != nil {
			return tree.Usage{}, &dependency{fmt.Errorf("the embedder of corpus %s: %w", t.Corpus, err)}
		}
	}
	if err := w.mayCall(ctx); err != nil {
		return tree.Usage{}, err
	}
	if err := held.takeSlot(ctx, w.slots); err != nil {
		return tree.Usage{}, err
	}
	answer, err := mapreduce.Summarize(ctx, w.deps.Summarizer, reduce, passages)
	w.called(answer.Usage, err)
	held.give(w.slots) // the answer is in the journal: what follows costs no call
	if err != nil {
		return answer.Usage, fmt.Errorf("summarizing: %w", err)
	}
	vectors, err := embedder.Embed(ctx, []string{answer.Text})
	if err != nil {
		return answer.Usage, fmt.Errorf("embedding: %w", err)
	}
	w.answered()
	node := tree.Node{
		ID: t.ID, Level: t.Level, DocumentID: t.DocumentID, ChunkIndex: -1, Scope: t.Scope,
		Children: sortedIDs(children), Text: answer.Text, Tokens: w.cfg.Reduce.Counter.Count(answer.Text),
		NLeaves: t.NLeaves, Recipe: t.Recipe, Unseen: t.Unseen, Formed: t.Formed, Born: t.Generation, Died: tree.Alive, Vector: vectors[0],
	}
	if err := w.deps.Store.Put(ctx, t.Corpus, []tree.Node{node}); err != nil {
		if errors.Is(err, store.ErrWidth) || errors.Is(err, store.ErrInvalid) {
			return answer.Usage, queue.Permanent("vector", err)
		}
		return answer.Usage, &dependency{fmt.Errorf("writing the node: %w", err)}
	}
	return answer.Usage, nil
}

func sortedIDs(nodes []tree.Node) []tree.ID {
	ids := make([]tree.ID, len(nodes))
	for i := range nodes {
		ids[i] = nodes[i].ID
	}
	slices.SortFunc(ids, tree.ID.Compare)
	return ids
}

// children reads the nodes to summarize, in the plan's order.
func (w *Worker) children(ctx context.Context, t *queue.Task) ([]tree.Node, error) {
	ids := t.Children
	if len(ids) == 0 {
		plan, err := w.deps.Plans.Plan(ctx, t.Of())
		switch {
		case errors.Is(err, levels.ErrNotFound):
			return nil, queue.Permanent("plan_gone", fmt.Errorf("the plan that lists its children is gone: %w", err))
		case err != nil:
			return nil, &dependency{fmt.Errorf("reading the plan: %w", err)}
		case plan.Digest != t.Digest || t.Position >= len(plan.Clusters):
			return nil, queue.Permanent("plan_gone", errors.New("the plan that lists its children was replaced"))
		}
		ids = plan.Clusters[t.Position].Children
	}
	nodes, err := w.deps.Store.Get(ctx, t.Corpus, ids, store.Fields{Text: true})
	if err != nil {
		return nil, &dependency{fmt.Errorf("reading the children: %w", err)}
	}
	if len(nodes) != len(ids) {
		return nil, &gone{len(ids) - len(nodes), len(ids)}
	}
	return nodes, nil
}

// gone says that children don't exist. A store that has just come back may not have all of them yet, so it is a failure that is
// tried again before the task is buried.
type gone struct{ missing, children int }

func (e *gone) Error() string {
	return fmt.Sprintf("%d of its %d children don't exist", e.missing, e.children)
}

// finish marks the barrier, then acks.
func (w *Worker) finish(ctx context.Context, d *delivery, usage tree.Usage) error {
	mark := levels.Mark{Position: d.task.Position, Outcome: levels.Done, Usage: usage}
	if _, err := w.deps.Barrier.Mark(ctx, d.task.Of(), d.task.Digest, mark); err != nil {
		return &dependency{fmt.Errorf("marking the barrier: %w", err)}
	}
	w.deps.Full.Clear() // there is room
	w.deps.Marked()
	if err := d.Done(ctx); err != nil {
		// The work is done and marked; the task comes again, and its node is found.
		w.deps.Log.WarnContext(ctx, "a task was not acked", "task", d.task.ID, "error", err)
	}
	return nil
}

// dependency is the failure of a server that the worker needs; the task is not to blame.
type dependency struct{ err error }

func (e *dependency) Error() string { return e.err.Error() }
func (e *dependency) Unwrap() error { return e.err }

// mismatch says that worker and build were configured differently.
type mismatch struct{ task, worker string }

func (e *mismatch) Error() string {
	return fmt.Sprintf("the task's recipe is %.12s, this worker's %.12s: summaries, embeddings or prompt are configured differently from the coordinator's", e.task, e.worker)
}

// conclude decides what becomes of a task that was not finished.
func (w *Worker) conclude(ctx, work context.Context, d *delivery, err error) {
	t := &d.task
	d.end = End{Outcome: Returned, Err: err}
	log := w.deps.Log.With("task", t.ID, "level", t.Level, "build", t.Build)
	var permanent *queue.PermanentError
	var call *llm.Error
	var dep *dependency
	var differs *mismatch
	var rests *resting
	switch {
	case errors.As(err, &permanent):
		w.bury(ctx, d, permanent.Cause, err)
	case errors.As(err, &differs):
		w.mismatched(t.Build)
		log.ErrorContext(ctx, "a task is given back", "error", err)
		w.giveBack(ctx, d, 30*time.Second)
	case errors.As(err, &rests):
		w.giveBack(ctx, d, rests.after())
	case work.Err() != nil, d.lost.Load(), errors.Is(err, llm.ErrLeaving), errors.Is(err, errQueued): // the end of the work is not the task's fault
		w.giveBack(ctx, d, 0)
	case errors.Is(err, llm.ErrBudget):
		w.stop(ctx, t, levels.Stop{Status: levels.Paused, Cause: levels.CauseBudget, Sentence: levels.SentenceBudget + err.Error()})
		w.giveBack(ctx, d, 0)
	case space.Is(err):
		if w.full(err) {
			w.stop(ctx, t, levels.Stop{Status: levels.Paused, Cause: levels.CauseFull, Sentence: space.Plain(err).Error()})
		}
		w.giveBack(ctx, d, w.jitter(5, 5*time.Second))
	case errors.As(err, &dep):
		log.WarnContext(ctx, "a task is given back until a dependency answers", "error", err)
		w.giveBack(ctx, d, w.jitter(5, 5*time.Second))
	case errors.As(err, &call):
		w.concludeCall(ctx, d, call, err)
	default:
		w.fail(ctx, d, err)
	}
}

// longestThrottle is how long tasks wait for an endpoint that says when it may be asked again. Beyond that the build pauses and says until
// when.
const longestThrottle = 2 * time.Hour

// concludeCall decides after a call to a model failed for good in the client's eyes.
func (w *Worker) concludeCall(ctx context.Context, d *delivery, call *llm.Error, err error) {
	t := &d.task
	switch call.Kind {
	case llm.Auth:
		w.stop(ctx, t, levels.Stop{Status: levels.Failed, Cause: levels.CauseAuth, Sentence: err.Error()})
		w.giveBack(ctx, d, 0)
	case llm.Quota:
		w.stop(ctx, t, levels.Stop{Status: levels.Failed, Cause: levels.CauseQuota, Sentence: err.Error()})
		w.giveBack(ctx, d, 0)
	case llm.Unreachable:
		if w.unreachable() {
			w.stop(ctx, t, levels.Stop{Status: levels.Paused, Cause: levels.CauseUnreachable, Sentence: levels.SentenceUnreachable + err.Error()})
		}
		w.giveBack(ctx, d, w.jitter(5, 5*time.Second))
	case llm.Throttled:
		if call.RetryAfter >= longestThrottle {
			w.stop(ctx, t, levels.Stop{Status: levels.Paused, Cause: levels.CauseUnreachable, Sentence: levels.SentenceUnreachable + err.Error()})
			w.giveBack(ctx, d, 0)
			return
		}
		w.giveBack(ctx, d, max(call.RetryAfter, w.jitter(5, 5*time.Second)))
	case llm.Invalid, llm.TooLong, llm.BadAnswer:
		w.bury(ctx, d, call.Cause(), err)
	case llm.Transient:
		alike, lasts := w.failsAlike(t.ID, call)
		switch {
		case !alike:
			w.fail(ctx, d, err)
			return
		case lasts >= w.patience():
			w.stop(ctx, t, levels.Stop{Status: levels.Paused, Cause: levels.CauseUnreachable, Sentence: levels.SentenceUnreachable + "every call fails alike: " + err.Error()})
		}
		w.giveBack(ctx, d, 0)
	default:
		w.fail(ctx, d, err)
	}
}

// fail counts a failed attempt, and buries the task when there were too many.
func (w *Worker) fail(ctx context.Context, d *delivery, err error) {
	t := &d.task
	var missing *gone
	isGone := errors.As(err, &missing)
	n, endErr := w.deps.Journal.End(ctx, t.Build, t.ID, true)
	switch {
	case endErr != nil:
		w.deps.Log.WarnContext(ctx, "a failed attempt was not counted", "task", t.ID, "error", endErr)
	case n.Failed >= w.cfg.MaxAttempts:
		cause := "attempts"
		if isGone {
			cause = "child_gone"
		}
		w.bury(ctx, d, cause, fmt.Errorf("%d attempts have failed, the last: %w", n.Failed, err))
		return
	}
	w.deps.Log.WarnContext(ctx, "a task failed and is tried again", "task", t.ID, "failed", n.Failed, "error", err)
	d.end.Outcome = Failed
	after := w.jitter(n.Failed+3, 30*time.Second)
	if isGone {
		after += 2 * time.Second // for a store that is still reading its files
	}
	w.requeue(ctx, d, after)
}

// giveBack returns a task whose attempt doesn't count.
func (w *Worker) giveBack(ctx context.Context, d *delivery, after time.Duration) {
	if d.begun.Load() {
		if err := w.takeBack(ctx, d); err != nil && !space.Is(err) {
			w.deps.Log.WarnContext(ctx, "an attempt that doesn't count still does", "task", d.task.ID, "error", err)
		}
	}
	w.requeue(ctx, d, after)
}

func (w *Worker) requeue(ctx context.Context, d *delivery, after time.Duration) {
	if err := d.Retry(ctx, after); err != nil && !space.Is(err) {
		w.deps.Log.WarnContext(ctx, "a task was not given back and comes again when its lease ends", "task", d.task.ID, "error", err)
	}
}

// bury gives a task up: first among the dead, then in the barrier.
func (w *Worker) bury(ctx context.Context, d *delivery, cause string, err error) {
	t := &d.task
	w.deps.Log.ErrorContext(ctx, "a task is buried", "task", t.ID, "level", t.Level, "build", t.Build, "cause", cause, "error", err)
	if err := d.Bury(ctx, cause, err.Error()); err != nil {
		w.deps.Log.WarnContext(ctx, "a task was not buried and comes again when its lease ends", "task", t.ID, "error", err)
		return
	}
	d.end.Outcome, d.end.Cause = Buried, cause
	mark := levels.Mark{Position: t.Position, Outcome: levels.Dead}
	if _, err := w.deps.Barrier.Mark(ctx, t.Of(), t.Digest, mark); err != nil {
		w.deps.Log.WarnContext(ctx, "a buried task was not marked; the next reconciliation does", "task", t.ID, "error", err)
	}
	w.deps.Marked()
}

// full notes that nothing can be written, in one line however many tasks meet it, and reports whether that is news.
func (w *Worker) full(err error) bool {
	first := w.deps.Full.Raise(err)
	if first {
		w.deps.Log.Error("nothing can be written: the build pauses, and what was paid is kept", "error", space.Plain(err))
	}
	w.deps.Marked()
	return first
}

// stop asks the coordinator to bring the build to rest.
func (w *Worker) stop(ctx context.Context, t *queue.Task, stop levels.Stop) {
	if err := w.deps.Builds.RequestStop(ctx, t.Corpus, t.Build, stop); err != nil && !space.Is(err) { // whoever coordinates finds that out too
		w.deps.Log.ErrorContext(ctx, "the build was not asked to stop", "build", t.Build, "error", err)
	}
	w.deps.Marked()
}

// answered notes that the endpoints can be reached.
func (w *Worker) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached, w.lost = time.Now(), time.Time{}
}

// unreachable notes that an endpoint can't be reached, and reports whether patience has run out.
func (w *Worker) unreachable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.lost.IsZero() {
		w.lost = now
	}
	return now.Sub(w.lost) >= w.enough()
}

// patience is how long an endpoint may be away before the build is asked to pause.
func (w *Worker) patience() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enough()
}

// enough is patience; w.mu is held.
func (w *Worker) enough() time.Duration {
	if w.reached.IsZero() {
		return w.cfg.Patience / 10
	}
	return w.cfg.Patience
}
