package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/worker"
)

// newest makes a state the newest of the bench's corpus.
func (b *bench) newest(state levels.State) {
	b.t.Helper()
	ctx := context.Background()
	lease, err := b.records.Acquire(ctx, corpusName, levels.RightBuild, "h", time.Hour, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	state.Corpus, state.Updated = corpusName, time.Now()
	if err := b.records.Save(ctx, lease, &state); err != nil {
		b.t.Fatal(err)
	}
}

// TestTasksOfARestingBuildWait: none is paid for, no attempt is counted, and they go on with the build.
func TestTasksOfARestingBuildWait(t *testing.T) {
	for _, status := range []levels.Status{levels.Paused, levels.Failed, levels.Degraded, levels.Cancelled, levels.Built} {
		t.Run(string(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3)
				b.newest(levels.State{Build: buildName, Status: status})
				ctx, stop := context.WithTimeout(context.Background(), time.Hour)
				defer stop()
				ended := make(chan error)
				go func() { ended <- b.worker(b.queue, nil).Run(ctx) }()
				<-time.After(30 * time.Minute)
				if n := b.calls.Load(); n != 0 {
					t.Errorf("%d calls were made for a build that is %s", n, status)
				}
				if queued, err := b.queue.Queued(ctx, b.level()); err != nil || len(queued) != 3 {
					t.Errorf("%d of 3 tasks are queued, %v", len(queued), err)
				}
				b.newest(levels.State{Build: buildName, Status: levels.Running})
				<-time.After(12 * time.Second) // ten at most, after the look before was a second old
				if c := b.count(); c.Done != 3 {
					t.Errorf("%+v a while after the build went on", c)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				for _, task := range b.tasks {
					n, err := b.journal.Begin(context.Background(), buildName, task.ID)
					if err != nil || n.Started-n.Returned != 2 || n.Failed != 0 { // the one that was made, and this one
						t.Errorf("attempts are %+v, %v; one counts", n, err)
					}
				}
			})
		})
	}
}

// TestTasksOfAnotherBuildAreDone: that the newest build rests says nothing about a task of another.
func TestTasksOfAnotherBuildAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		b.newest(levels.State{Build: "another", Status: levels.Paused})
		b.runUntil(2)
		if c := b.count(); c.Done != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// TestRestingBuildCostsLittle: the tasks of a build that rests all night are looked at now and then, and its state is read once a
// second at most, however many tasks there are.
func TestRestingBuildCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 40)
		b.newest(levels.State{Build: buildName, Status: levels.Paused})
		<-time.After(time.Hour) // it has rested for long
		builds := &countedBuilds{Builds: b.records}
		w, err := worker.New(b.cfg, worker.Deps{
			Queue: b.queue, Store: b.nodes, Barrier: b.records, Plans: b.records, Builds: builds, Journal: b.journal, Summarizer: b, Embedder: unit{},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
		defer stop()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		// Each ten seconds all tasks come at once, and one look serves them.
		if n := builds.loads.Load(); n < 50 || n > 130 {
			t.Errorf("the state was read %d times in ten minutes; about 60 are wanted", n)
		}
	})
}

type countedBuilds struct {
	levels.Builds
	loads atomic.Int64
}

func (c *countedBuilds) Load(ctx context.Context, corpus string) (*levels.State, error) {
	c.loads.Add(1)
	return c.Builds.Load(ctx, corpus)
}
