package telemetry

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Queue returns a queue that counts and times its calls, and sends the trace of their level with the tasks that it
// publishes.
func (t *Telemetry) Queue(q queue.Queue) queue.Queue { return &watchedQueue{q, t} }

type watchedQueue struct {
	queue.Queue
	t *Telemetry
}

func (q *watchedQueue) timed(err *error) func() { return q.t.timed(QueueCalls, QueueCallSeconds, err) }

func (q *watchedQueue) Publish(ctx context.Context, tasks []queue.Task) (err error) {
	tasks = q.t.builds.trace(tasks)
	defer q.timed(&err)()
	return q.Queue.Publish(ctx, tasks)
}

// Receive counts failures only, and no time: it waits for tasks.
func (q *watchedQueue) Receive(ctx context.Context) (queue.Delivery, error) {
	d, err := q.Queue.Receive(ctx)
	if err != nil {
		if ctx.Err() == nil {
			q.t.add(QueueCalls, 1, OutcomeError)
		}
		return nil, err
	}
	q.t.add(QueueCalls, 1, OutcomeOK)
	return &watchedDelivery{d, q}, nil
}

func (q *watchedQueue) Queued(ctx context.Context, level tree.Level) (ids []tree.ID, err error) {
	defer q.timed(&err)()
	return q.Queue.Queued(ctx, level)
}

func (q *watchedQueue) Dead(ctx context.Context, corpus, build string) (dead []queue.Buried, err error) {
	defer q.timed(&err)()
	return q.Queue.Dead(ctx, corpus, build)
}

func (q *watchedQueue) Exhume(ctx context.Context, tasks []queue.Task) (err error) {
	defer q.timed(&err)()
	return q.Queue.Exhume(ctx, tasks)
}

func (q *watchedQueue) Withdraw(ctx context.Context, corpus, build string) (err error) {
	defer q.timed(&err)()
	return q.Queue.Withdraw(ctx, corpus, build)
}

func (q *watchedQueue) Purge(ctx context.Context, corpus, build string) (err error) {
	defer q.timed(&err)()
	return q.Queue.Purge(ctx, corpus, build)
}

type watchedDelivery struct {
	queue.Delivery
	q *watchedQueue
}

func (d *watchedDelivery) Extend(ctx context.Context) (err error) {
	defer d.q.timed(&err)()
	return d.Delivery.Extend(ctx)
}

func (d *watchedDelivery) Done(ctx context.Context) (err error) {
	defer d.q.timed(&err)()
	return d.Delivery.Done(ctx)
}

func (d *watchedDelivery) Retry(ctx context.Context, after time.Duration) (err error) {
	defer d.q.timed(&err)()
	return d.Delivery.Retry(ctx, after)
}

func (d *watchedDelivery) Bury(ctx context.Context, cause, message string) (err error) {
	defer d.q.timed(&err)()
	return d.Delivery.Bury(ctx, cause, message)
}

// Journal returns a journal that counts and times its calls, as calls to the queue, beside which it lives.
func (t *Telemetry) Journal(j journal.Journal) journal.Journal { return &watchedJournal{j, t} }

type watchedJournal struct {
	journal.Journal
	t *Telemetry
}

func (j *watchedJournal) timed(err *error) func() {
	return j.t.timed(QueueCalls, QueueCallSeconds, err)
}

func (j *watchedJournal) Lookup(ctx context.Context, key string) (e journal.Entry, err error) {
	defer j.timed(&err)()
	return j.Journal.Lookup(ctx, key)
}

func (j *watchedJournal) Record(ctx context.Context, key string, e journal.Entry) (err error) {
	defer j.timed(&err)()
	return j.Journal.Record(ctx, key, e)
}

func (j *watchedJournal) Erase(ctx context.Context, corpus string) (n int, err error) {
	defer j.timed(&err)()
	return j.Journal.Erase(ctx, corpus)
}

func (j *watchedJournal) Begin(ctx context.Context, build string, task tree.ID) (n journal.Attempts, err error) {
	defer j.timed(&err)()
	return j.Journal.Begin(ctx, build, task)
}

func (j *watchedJournal) End(ctx context.Context, build string, task tree.ID, failed bool) (n journal.Attempts, err error) {
	defer j.timed(&err)()
	return j.Journal.End(ctx, build, task, failed)
}

func (j *watchedJournal) Forget(ctx context.Context, build string, task tree.ID) (err error) {
	defer j.timed(&err)()
	return j.Journal.Forget(ctx, build, task)
}

// Plans returns plans that count and time their calls, as calls to the queue, beside which they live.
func (t *Telemetry) Plans(p levels.Plans) levels.Plans { return &watchedPlans{p, t} }

type watchedPlans struct {
	levels.Plans
	t *Telemetry
}

func (p *watchedPlans) timed(err *error) func() { return p.t.timed(QueueCalls, QueueCallSeconds, err) }

func (p *watchedPlans) PutPlan(ctx context.Context, plan *levels.Plan) (err error) {
	defer p.timed(&err)()
	return p.Plans.PutPlan(ctx, plan)
}

func (p *watchedPlans) Plan(ctx context.Context, level tree.Level) (plan *levels.Plan, err error) {
	defer p.timed(&err)()
	return p.Plans.Plan(ctx, level)
}

func (p *watchedPlans) DropPlans(ctx context.Context, corpus, build string) (err error) {
	defer p.timed(&err)()
	return p.Plans.DropPlans(ctx, corpus, build)
}

func (p *watchedPlans) PutTree(ctx context.Context, c *levels.Corpus) (err error) {
	defer p.timed(&err)()
	return p.Plans.PutTree(ctx, c)
}

func (p *watchedPlans) Tree(ctx context.Context, corpus string) (c *levels.Corpus, err error) {
	defer p.timed(&err)()
	return p.Plans.Tree(ctx, corpus)
}

func (p *watchedPlans) Trees(ctx context.Context) (names []string, err error) {
	defer p.timed(&err)()
	return p.Plans.Trees(ctx)
}

func (p *watchedPlans) PutState(ctx context.Context, s *levels.State) (err error) {
	defer p.timed(&err)()
	return p.Plans.PutState(ctx, s)
}

func (p *watchedPlans) State(ctx context.Context, corpus string) (s *levels.State, err error) {
	defer p.timed(&err)()
	return p.Plans.State(ctx, corpus)
}

func (p *watchedPlans) DropTree(ctx context.Context, corpus string) (err error) {
	defer p.timed(&err)()
	return p.Plans.DropTree(ctx, corpus)
}
