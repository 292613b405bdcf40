package queuetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

func testReceiveContext(t *testing.T, o Opened) {
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() {
		_, err := o.Queue.Receive(ctx)
		errs <- err
	}()
	cancel()
	wantError(t, "receive", <-errs, context.Canceled)

	_, err := o.Queue.Receive(ctx)
	wantError(t, "receive under a context that has ended", err, context.Canceled)
	wantNone(t, o.Queue, 20*time.Millisecond)
}

// testCancelledReceive cancels receivers while tasks are arriving: what a cancelled one was given must reach
// another without waiting for a lease to end.
func testCancelledReceive(t *testing.T, o Opened) {
	const tasks = 50
	q, random := o.second(), rand.New(rand.NewPCG(3, 7))
	var received sync.Map
	var receivers sync.WaitGroup
	for _, task := range Tasks("corpus", "build", 1, tasks) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
		receivers.Go(func() {
			defer cancel()
			d, err := q.Receive(ctx)
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("receive: %v", err)
				}
				return
			}
			received.Store(d.Task().ID, true)
			if err := d.Done(t.Context()); err != nil {
				t.Errorf("done: %v", err)
			}
		})
		publish(t, o.Queue, task)
	}
	receivers.Wait()
	left, err := o.Queue.Queued(t.Context(), tree.Level{Corpus: "corpus", Build: "build", Level: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range left {
		d := receive(t, o.Queue)
		if _, twice := received.LoadOrStore(d.Task().ID, true); twice {
			t.Errorf("task %d was delivered again after Done", d.Task().Position)
		}
		done(t, d)
	}
	wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: "build", Level: 1})
}

func testReceiveWakes(t *testing.T, o Opened) {
	q := o.second()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan queue.Delivery, 3)
	var receivers sync.WaitGroup
	for range 3 {
		receivers.Go(func() {
			d, err := q.Receive(ctx)
			if err != nil {
				t.Errorf("receive: %v", err)
				return
			}
			got <- d
		})
	}
	publish(t, o.Queue, Tasks("corpus", "build", 1, 3)...)
	receivers.Wait()
	close(got)
	for d := range got {
		done(t, d)
	}
}

func testExpiry(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	receive(t, o.Queue)
	start := time.Now()
	again := receive(t, o.second())
	if took := time.Since(start); took < brief/2 {
		t.Errorf("delivered again after %v, under a lease of %v", took, brief)
	}
	if diff := cmp.Diff(task, again.Task()); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	done(t, again)
	wantQueued(t, o.Queue, task.Of())
}

// testExtend is a task that takes two leases: with heartbeats it runs once.
func testExtend(t *testing.T, o Opened) {
	publish(t, o.Queue, Tasks("corpus", "build", 1, 1)...)
	d := receive(t, o.Queue)
	other := o.second()
	ctx, cancel := context.WithTimeout(t.Context(), 2*beaten)
	defer cancel()
	stolen := make(chan error, 1)
	go func() {
		_, err := other.Receive(ctx)
		stolen <- err
	}()
	beat := time.NewTicker(beaten / 10)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if err := d.Extend(t.Context()); err != nil {
				t.Fatalf("extend: %v", err)
			}
		case err := <-stolen:
			wantError(t, "receive while the task is held", err, context.DeadlineExceeded)
			done(t, d)
			wantNone(t, o.Queue, quiet)
			return
		}
	}
}

// testExtendLost looks a whole lease after the expiry: a client may count from the moment at which the task arrived,
// later than the queue does.
func testExtendLost(t *testing.T, o Opened) {
	publish(t, o.Queue, Tasks("corpus", "build", 1, 1)...)
	first := receive(t, o.Queue)
	receive(t, o.second())
	third := receive(t, o.Queue)
	wantError(t, "extend", first.Extend(t.Context()), queue.ErrLost)
	done(t, third)
}

func testLateDone(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	first := receive(t, o.Queue)
	second := receive(t, o.second())
	done(t, first)
	wantQueued(t, o.Queue, task.Of())
	wantError(t, "extend of a task that another holder finished", second.Extend(t.Context()), queue.ErrLost)
	done(t, second)
	wantNone(t, o.Queue, 3*brief/2)
}

// testLateDoneNextCopy lets an expired holder settle after the task was done and published again.
func testLateDoneNextCopy(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	first := receive(t, o.Queue)
	done(t, receive(t, o.second()))
	publish(t, o.Queue, task)
	done(t, first)
	wantQueued(t, o.Queue, task.Of(), task)
	done(t, receive(t, o.Queue))
}

func testLateRetryAndBury(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	first := receive(t, o.Queue)
	second := receive(t, o.Queue)
	receive(t, o.Queue)
	fourth := receive(t, o.Queue)
	wantError(t, "retry", first.Retry(t.Context(), 0), queue.ErrLost)
	wantError(t, "bury", second.Bury(t.Context(), "cause", "message"), queue.ErrLost)
	wantNone(t, o.Queue, quiet)
	wantQueued(t, o.Queue, task.Of(), task)
	if list := dead(t, o.Queue, "corpus", "build"); len(list) != 0 {
		t.Errorf("dead: %v, want none", list)
	}
	done(t, fourth)
}

func testRetryDelay(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 2)
	publish(t, o.Queue, tasks[0])
	d := receive(t, o.Queue)
	delay := brief / 2
	start := time.Now()
	if err := d.Retry(t.Context(), delay); err != nil {
		t.Fatal(err)
	}
	// What waits out a delay is in nobody's way.
	publish(t, o.Queue, tasks[1])
	other := receive(t, o.Queue)
	if other.Task().ID != tasks[1].ID {
		t.Fatalf("received task %d first, want the one without a delay", other.Task().Position)
	}
	done(t, other)
	again := receive(t, o.second())
	if took := time.Since(start); took < delay*9/10 {
		t.Errorf("came back after %v, want %v", took, delay)
	}
	if diff := cmp.Diff(tasks[0], again.Task()); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	done(t, again)
}

func testRetryNow(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	for range 5 {
		d := receive(t, o.Queue)
		if err := d.Retry(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	done(t, receive(t, o.Queue))
}

func testSettledOnce(t *testing.T, o Opened) {
	publish(t, o.Queue, Tasks("corpus", "build", 1, 1)...)
	settle := map[string]func(queue.Delivery) error{
		"done":  func(d queue.Delivery) error { return d.Done(t.Context()) },
		"retry": func(d queue.Delivery) error { return d.Retry(t.Context(), 0) },
		"bury":  func(d queue.Delivery) error { return d.Bury(t.Context(), "cause", "message") },
	}
	for _, first := range []string{"retry", "bury", "done"} {
		publish(t, o.Queue, Tasks("corpus", "build", 1, 1)...)
		d := receive(t, o.Queue)
		if err := settle[first](d); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		for second, f := range settle {
			wantError(t, second+" after "+first, f(d), queue.ErrSettled)
		}
		wantError(t, "extend after "+first, d.Extend(t.Context()), queue.ErrSettled)
	}
}
