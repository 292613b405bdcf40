package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

func bury(t *testing.T, d queue.Delivery, cause, message string) {
	t.Helper()
	if err := d.Bury(t.Context(), cause, message); err != nil {
		t.Fatalf("bury: %v", err)
	}
}

func testBury(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	publish(t, o.Queue, task)
	before := time.Now().Add(-time.Second)
	bury(t, receive(t, o.Queue), "refused", "the model refused: »nein«")
	wantQueued(t, o.Queue, task.Of())
	got := dead(t, o.second(), "corpus", "build")
	want := []queue.Buried{{Task: task, Cause: "refused", Error: "the model refused: »nein«"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(queue.Buried{}, "At")); diff != "" {
		t.Fatalf("dead (-want +got):\n%s", diff)
	}
	if at := got[0].At; at.Before(before) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("buried at %v, want now", at)
	}
	wantNone(t, o.Queue, 3*brief/2)
}

func testBuryTwice(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	// The second reason is longer than any queue has room for beside the largest task.
	task.Children = nil
	for _, reason := range []string{"first", strings.Repeat("long ", queue.MaxTaskBytes)} {
		publish(t, o.Queue, task)
		bury(t, receive(t, o.Queue), "cause", reason)
	}
	got := dead(t, o.Queue, "corpus", "build")
	if len(got) != 1 {
		t.Fatalf("%d are dead, want 1", len(got))
	}
	if !strings.HasPrefix(got[0].Error, "long long") {
		t.Errorf("the reason is %.20q…, want the last", got[0].Error)
	}
}

func testDeadOrder(t *testing.T, o Opened) {
	var want []string
	for _, level := range []int{2, 1, 11} {
		publish(t, o.Queue, Tasks("corpus", "build", level, 4)...)
	}
	publish(t, o.Queue, Tasks("corpus", "build-2", 1, 2)...)
	publish(t, o.Queue, Tasks("corpus-2", "build", 1, 2)...)
	for range 16 {
		bury(t, receive(t, o.Queue), "cause", "message")
	}
	for _, level := range []int{1, 2, 11} {
		for position := range 4 {
			want = append(want, fmt.Sprintf("level %d position %d", level, position))
		}
	}
	var got []string
	for _, b := range dead(t, o.Queue, "corpus", "build") {
		got = append(got, fmt.Sprintf("level %d position %d", b.Task.Level, b.Task.Position))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead (-want +got):\n%s", diff)
	}
}

func testExhume(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3)
	publish(t, o.Queue, tasks...)
	for range tasks {
		bury(t, receive(t, o.Queue), "cause", "message")
	}
	if err := o.Queue.Exhume(t.Context(), tasks[:2]); err != nil {
		t.Fatal(err)
	}
	if err := o.Queue.Exhume(t.Context(), tasks[:2]); err != nil {
		t.Fatalf("exhume of what isn't dead: %v", err)
	}
	got := dead(t, o.Queue, "corpus", "build")
	if len(got) != 1 || got[0].Task.ID != tasks[2].ID {
		t.Errorf("dead: %v, want task 2 alone", got)
	}
	publish(t, o.Queue, tasks[:2]...)
	done(t, receive(t, o.Queue))
	done(t, receive(t, o.Queue))
}

func testPurge(t *testing.T, o Opened) {
	builds := []string{"build", "build-2"}
	for _, build := range builds {
		publish(t, o.Queue, Tasks("corpus", build, 1, 1)...)
		bury(t, receive(t, o.Queue), "cause", "message")
	}
	for _, build := range builds {
		publish(t, o.Queue, Tasks("corpus", build, 2, 2)...)
		publish(t, o.Queue, Tasks("corpus", build, 3, 1)...)
	}
	if err := o.Queue.Purge(t.Context(), "corpus", "build"); err != nil {
		t.Fatal(err)
	}
	for _, level := range []int{1, 2, 3} {
		wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: "build", Level: level})
	}
	if list := dead(t, o.Queue, "corpus", "build"); len(list) != 0 {
		t.Errorf("dead of the purged build: %v, want none", list)
	}
	if list := dead(t, o.Queue, "corpus", "build-2"); len(list) != 1 {
		t.Errorf("dead of the other build: %v, want one", list)
	}
	for range 3 {
		d := receive(t, o.Queue)
		if got := d.Task().Build; got != "build-2" {
			t.Errorf("received a task of build %s", got)
		}
		done(t, d)
	}
	wantNone(t, o.Queue, quiet)
}

func testWithdraw(t *testing.T, o Opened) {
	for _, build := range []string{"build", "build-2"} {
		publish(t, o.Queue, Tasks("corpus", build, 1, 1)...)
		bury(t, receive(t, o.Queue), "cause", "message")
	}
	mine, other := Tasks("corpus", "build", 2, 2), Tasks("corpus", "build-2", 2, 1)
	publish(t, o.Queue, mine...)
	publish(t, o.Queue, other...)
	for range 2 { // nothing to withdraw is no error
		if err := o.Queue.Withdraw(t.Context(), "corpus", "build"); err != nil {
			t.Fatal(err)
		}
	}
	wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: "build", Level: 2})
	for _, build := range []string{"build", "build-2"} {
		if list := dead(t, o.Queue, "corpus", build); len(list) != 1 {
			t.Errorf("dead of %s: %v, want one", build, list)
		}
	}
	d := receive(t, o.Queue)
	if got := d.Task().Build; got != "build-2" {
		t.Errorf("received a task of build %s", got)
	}
	done(t, d)
	publish(t, o.Queue, mine...) // they can come back
	done(t, receive(t, o.Queue))
	done(t, receive(t, o.Queue))
	wantNone(t, o.Queue, quiet)
}

func testPurgeInHand(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3)
	publish(t, o.Queue, tasks...)
	first, second, third := receive(t, o.Queue), receive(t, o.Queue), receive(t, o.Queue)
	if err := o.Queue.Purge(t.Context(), "corpus", "build"); err != nil {
		t.Fatal(err)
	}
	wantError(t, "extend", first.Extend(t.Context()), queue.ErrLost)
	done(t, first)
	wantError(t, "bury", second.Bury(t.Context(), "cause", "message"), queue.ErrLost)
	if err := third.Retry(t.Context(), 0); err != nil && !errors.Is(err, queue.ErrLost) {
		t.Errorf("retry: %v", err)
	}
	if list := dead(t, o.Queue, "corpus", "build"); len(list) != 0 {
		t.Errorf("dead of the purged build: %v, want none", list)
	}
	wantNone(t, o.Queue, 3*brief/2)
}

func testRestart(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 6)
	publish(t, o.Queue, tasks...)
	var held []queue.Delivery
	for range 4 {
		held = append(held, receive(t, o.Queue))
	}
	done(t, held[0])
	bury(t, held[1], "cause", "message")
	left := map[tree.ID]bool{}
	for _, task := range tasks {
		left[task.ID] = task.ID != held[0].Task().ID && task.ID != held[1].Task().ID
	}
	q := o.Restart()
	for range 4 {
		d := receive(t, q)
		if !left[d.Task().ID] {
			t.Errorf("task %d was settled, and is delivered again", d.Task().Position)
		}
		left[d.Task().ID] = false
		done(t, d)
	}
	wantQueued(t, q, tasks[0].Of())
	if list := dead(t, q, "corpus", "build"); len(list) != 1 {
		t.Errorf("%d are dead after the restart, want 1", len(list))
	}
}

// testRestartInHand holds tasks under a lease that outlives the test: a queue that drops leases delivers them at
// once, any other still has them.
func testRestartInHand(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3)
	publish(t, o.Queue, tasks...)
	receive(t, o.Queue)
	if err := receive(t, o.Queue).Retry(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	q := o.Restart()
	wantQueued(t, q, tasks[0].Of(), tasks...)
	if o.DropsLeases {
		for range tasks {
			done(t, receive(t, q))
		}
		wantQueued(t, q, tasks[0].Of())
	}
}

// testRestartDuplicate: nats-io/nats-server issue 3272, duplicates accepted after a server restart.
func testRestartDuplicate(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 4)
	publish(t, o.Queue, tasks...)
	receive(t, o.Queue)
	finished := receive(t, o.Queue)
	done(t, finished)
	q := o.Restart()
	var unfinished []queue.Task
	for _, task := range tasks {
		if task.ID != finished.Task().ID {
			unfinished = append(unfinished, task)
		}
	}
	publish(t, q, unfinished...)
	wantQueued(t, q, tasks[0].Of(), unfinished...)
	for range unfinished {
		done(t, receive(t, q))
	}
	wantNone(t, q, 3*brief/2)
}

// testSum settles at random from several workers, some of whom walk away, and checks
// expected = done + queued + dead at rest, as every test of faults does.
func testSum(t *testing.T, o Opened) {
	const n, workers = 200, 4
	tasks := Tasks("corpus", "build", 1, n)
	publish(t, o.Queue, tasks...)
	var mu sync.Mutex
	finished := map[tree.ID]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	clients := []queue.Queue{o.Queue, o.second()}
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(11, uint64(w)))
			for range n / workers {
				d, err := clients[w%2].Receive(ctx)
				if err != nil {
					t.Errorf("receive: %v", err)
					return
				}
				switch random.IntN(8) {
				case 0: // walks away
				case 1:
					err = d.Bury(ctx, "cause", "message")
				case 2:
					err = d.Retry(ctx, time.Duration(random.IntN(20))*time.Millisecond)
				default:
					mu.Lock()
					finished[d.Task().ID] = true
					mu.Unlock()
					err = d.Done(ctx)
				}
				if err != nil && !errors.Is(err, queue.ErrLost) {
					t.Errorf("settle: %v", err)
				}
			}
		})
	}
	wait.Wait()
	queued, err := o.Queue.Queued(t.Context(), tasks[0].Of())
	if err != nil {
		t.Fatal(err)
	}
	where := map[tree.ID]string{}
	for id := range finished {
		where[id] = "done"
	}
	for _, b := range dead(t, o.Queue, "corpus", "build") {
		where[b.Task.ID] += "dead"
	}
	for _, id := range queued {
		where[id] += "queued"
	}
	for _, task := range tasks {
		switch where[task.ID] {
		case "done", "dead", "queued":
		default:
			t.Errorf("task %d is %q, want one of done, queued, dead", task.Position, where[task.ID])
		}
	}
}
