package coordinator_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// killSwitch ends a process at its call number at: with after, the effect of that call has happened and only the
// reply is lost. From then on nothing that the process tries has any effect, as after kill -9. A zero at never kills.
type killSwitch struct {
	at    int
	after bool
	die   func()

	mu    sync.Mutex
	calls int
	dead  bool
}

var errKilled = errors.New("killed")

func (k *killSwitch) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	return nil
}

// do runs one effect, unless the process is dead or dies now.
func (k *killSwitch) do(effect func() error) error {
	k.mu.Lock()
	if k.dead {
		k.mu.Unlock()
		return errKilled
	}
	k.calls++
	now := k.at > 0 && k.calls == k.at
	if now {
		k.dead = true
	}
	k.mu.Unlock()
	if !now {
		return effect()
	}
	if k.after {
		_ = effect()
	}
	k.die()
	return errKilled
}

type killedStore struct {
	store.Store
	k *killSwitch
}

func (s *killedStore) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	return s.k.do(func() error { return s.Store.Put(ctx, corpus, nodes) })
}

func (s *killedStore) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	return s.k.do(func() error { return s.Store.SetLife(ctx, corpus, ids, born, died) })
}

func (s *killedStore) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	return s.k.do(func() error { return s.Store.Delete(ctx, corpus, ids) })
}

type killedBarrier struct {
	levels.Barrier
	k *killSwitch
}

func (b *killedBarrier) Open(ctx context.Context, l tree.Level, digest string, total int) error {
	return b.k.do(func() error { return b.Barrier.Open(ctx, l, digest, total) })
}

func (b *killedBarrier) Mark(ctx context.Context, l tree.Level, digest string, marks ...levels.Mark) (c levels.Count, err error) {
	err = b.k.do(func() (err error) { c, err = b.Barrier.Mark(ctx, l, digest, marks...); return err })
	return c, err
}

func (b *killedBarrier) Drop(ctx context.Context, corpus, build string) error {
	return b.k.do(func() error { return b.Barrier.Drop(ctx, corpus, build) })
}

type killedPlans struct {
	levels.Plans
	k *killSwitch
}

func (p *killedPlans) PutPlan(ctx context.Context, plan *levels.Plan) error {
	return p.k.do(func() error { return p.Plans.PutPlan(ctx, plan) })
}

func (p *killedPlans) DropPlans(ctx context.Context, corpus, build string) error {
	return p.k.do(func() error { return p.Plans.DropPlans(ctx, corpus, build) })
}

func (p *killedPlans) PutTree(ctx context.Context, c *levels.Corpus) error {
	return p.k.do(func() error { return p.Plans.PutTree(ctx, c) })
}

type killedCorpora struct {
	levels.Corpora
	k *killSwitch
}

func (c *killedCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	return c.k.do(func() error { return c.Corpora.Update(ctx, name, change) })
}

// killedBuilds lets Release through also when the process is dead: that leases run out is tested with the ports, and
// time is not what these tests are about.
type killedBuilds struct {
	levels.Builds
	k *killSwitch
}

func (b *killedBuilds) Save(ctx context.Context, lease levels.Lease, s *levels.State) error {
	return b.k.do(func() error { return b.Builds.Save(ctx, lease, s) })
}

func (b *killedBuilds) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) error {
	return b.k.do(func() error { return b.Builds.RequestStop(ctx, corpus, build, wish) })
}

type killedQueue struct {
	queue.Queue
	k *killSwitch
}

func (q *killedQueue) Publish(ctx context.Context, tasks []queue.Task) error {
	return q.k.do(func() error { return q.Queue.Publish(ctx, tasks) })
}

func (q *killedQueue) Purge(ctx context.Context, corpus, build string) error {
	return q.k.do(func() error { return q.Queue.Purge(ctx, corpus, build) })
}

func (q *killedQueue) Receive(ctx context.Context) (queue.Delivery, error) {
	d, err := q.Queue.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return &killedDelivery{d, q.k}, nil
}

type killedDelivery struct {
	queue.Delivery
	k *killSwitch
}

func (d *killedDelivery) Done(ctx context.Context) error {
	return d.k.do(func() error { return d.Delivery.Done(ctx) })
}

func (d *killedDelivery) Retry(ctx context.Context, after time.Duration) error {
	return d.k.do(func() error { return d.Delivery.Retry(ctx, after) })
}

func (d *killedDelivery) Bury(ctx context.Context, cause, message string) error {
	return d.k.do(func() error { return d.Delivery.Bury(ctx, cause, message) })
}

type killedJournal struct {
	journal.Journal
	k *killSwitch
}

func (j *killedJournal) Record(ctx context.Context, key string, e journal.Entry) error {
	return j.k.do(func() error { return j.Journal.Record(ctx, key, e) })
}

func (j *killedJournal) Begin(ctx context.Context, build string, task tree.ID) (a journal.Attempts, err error) {
	err = j.k.do(func() (err error) { a, err = j.Journal.Begin(ctx, build, task); return err })
	return a, err
}

func (j *killedJournal) End(ctx context.Context, build string, task tree.ID, failed bool) (a journal.Attempts, err error) {
	err = j.k.do(func() (err error) { a, err = j.Journal.End(ctx, build, task, failed); return err })
	return a, err
}
