package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/worker"
)

// TestSuspectThatWaitsIsNotBlamed: of two suspects one runs alone and may end the process; the other has not begun meanwhile, or it
// would be buried for its neighbor's deaths.
func TestSuspectThatWaitsIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		ctx := context.Background()
		for _, task := range b.tasks[:2] {
			for range b.cfg.MaxAttempts {
				if _, err := b.journal.Begin(ctx, buildName, task.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		ok := b.summarize
		underWay := make([]int, 0, 2) // attempts of both that nobody has ended, less the deaths, while one runs
		b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
			<-time.After(time.Minute) // the other has all the time to wait
			n := 0
			for _, task := range b.tasks[:2] {
				a, err := b.journal.Begin(ctx, buildName, task.ID)
				if err != nil {
					t.Error(err)
				}
				if _, err := b.journal.End(ctx, buildName, task.ID, false); err != nil {
					t.Error(err)
				}
				n += a.Started - 1 - a.Failed - a.Returned - b.cfg.MaxAttempts
			}
			underWay = append(underWay, n)
			return ok(ctx, c)
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var settled atomic.Int64
		w, err := worker.New(b.cfg, worker.Deps{
			Queue: b.queue, Store: b.nodes, Barrier: b.records, Plans: b.records, Builds: b.records, Journal: slowJournal{b.journal},
			Summarizer: b, Embedder: unit{}, Marked: func() {
				if settled.Add(1) == 2 {
					stop()
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		// The first runs, and the second waits; then the second runs, and the first, which succeeded, stays counted.
		if len(underWay) != 2 || underWay[0] != 1 || underWay[1] != 2 {
			t.Errorf("while each suspect ran, %v attempts were under way; want [1 2]", underWay)
		}
	})
}

// slowJournal takes a second to begin an attempt, so that both suspects do so at a time.
type slowJournal struct{ *queuetest.MemoryJournal }

func (j slowJournal) Begin(ctx context.Context, build string, task tree.ID) (journal.Attempts, error) {
	<-time.After(time.Second)
	return j.MemoryJournal.Begin(ctx, build, task)
}

// TestLostLeaseIsNoFailure: a worker that was paused beyond its lease on a task gives up its work on it. That is no failed attempt.
func TestLostLeaseIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		q := &forgetful{Queue: b.queue}
		ok := b.summarize
		b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
			if q.lost.CompareAndSwap(false, true) { // the first time, until the heartbeat finds out
				<-ctx.Done()
				return mapreduce.Answer{}, ctx.Err()
			}
			return ok(ctx, c)
		}
		ctx, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		if err := b.worker(q, nil).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if c := b.count(); c.Done != 1 {
			t.Fatalf("%+v", c)
		}
		n, err := b.journal.Begin(context.Background(), buildName, b.tasks[0].ID)
		if err != nil || n.Failed != 0 || n.Returned != 1 {
			t.Errorf("attempts are %+v, %v; none failed, one was given back", n, err)
		}
	})
}

// forgetful is a queue that takes the lease on a task away once.
type forgetful struct {
	queue.Queue
	lost atomic.Bool // set by the work: from then on the lease is gone
	told atomic.Bool
}

func (q *forgetful) Receive(ctx context.Context) (queue.Delivery, error) {
	d, err := q.Queue.Receive(ctx)
	return forgotten{d, q}, err
}

type forgotten struct {
	queue.Delivery
	q *forgetful
}

func (d forgotten) Extend(ctx context.Context) error {
	if d.q.lost.Load() && d.q.told.CompareAndSwap(false, true) {
		return queue.ErrLost
	}
	return d.Delivery.Extend(ctx)
}
