package queuetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestFlakyWithoutFaults: the decorator itself keeps the contract.
func TestFlakyWithoutFaults(t *testing.T) {
	t.Parallel()
	Run(t, func(_ *testing.T, lease time.Duration) Opened {
		m := NewMemory(MemoryConfig{Lease: lease})
		f := NewFlaky(m, func(int, Op, tree.ID) Fault { return None })
		return Opened{
			Queue: f, DropsLeases: true,
			Restart: func() queue.Queue { m.Restart(); return f },
		}
	})
}

// once decides for one fault at the first call of a kind.
func once(op Op, fault Fault) Decide {
	var mu sync.Mutex
	happened := false
	return func(_ int, o Op, _ tree.ID) Fault {
		mu.Lock()
		defer mu.Unlock()
		if o != op || happened {
			return None
		}
		happened = true
		return fault
	}
}

func TestFlakyPublish(t *testing.T) {
	tasks := Tasks("corpus", "build", 1, 2)
	for fault, want := range map[Fault][]queue.Task{Before: nil, After: tasks} {
		f := NewFlaky(NewMemory(MemoryConfig{}), once(OpPublish, fault))
		wantError(t, "publish", f.Publish(t.Context(), tasks), queue.ErrUnavailable)
		wantQueued(t, f, tasks[0].Of(), want...)
		publish(t, f, tasks...)
		wantQueued(t, f, tasks[0].Of(), tasks...)
		if n := f.Faults(fault); n != 1 {
			t.Errorf("%d faults were counted, want 1", n)
		}
	}
}

func TestFlakyDone(t *testing.T) {
	task := Tasks("corpus", "build", 1, 1)[0]
	for _, fault := range []Fault{Before, After} {
		f := NewFlaky(NewMemory(MemoryConfig{}), once(OpDone, fault))
		publish(t, f, task)
		d := receive(t, f)
		wantError(t, "done", d.Done(t.Context()), queue.ErrUnavailable)
		if fault == Before {
			wantQueued(t, f, task.Of(), task)
		} else {
			wantQueued(t, f, task.Of())
		}
		done(t, d)
		wantQueued(t, f, task.Of())
		wantError(t, "done again", d.Done(t.Context()), queue.ErrSettled)
	}
}

func TestFlakyLostLease(t *testing.T) {
	task := Tasks("corpus", "build", 1, 1)[0]
	f := NewFlaky(NewMemory(MemoryConfig{}), once(OpExtend, Lose))
	publish(t, f, task)
	first := receive(t, f)
	wantError(t, "extend", first.Extend(t.Context()), queue.ErrLost)
	wantError(t, "extend", first.Extend(t.Context()), queue.ErrLost)
	second := receive(t, f)
	wantError(t, "bury", first.Bury(t.Context(), "cause", "message"), queue.ErrLost)
	wantQueued(t, f, task.Of(), task)
	done(t, second)
	wantQueued(t, f, task.Of())
}

func TestFlakyLateDoneCounts(t *testing.T) {
	task := Tasks("corpus", "build", 1, 1)[0]
	f := NewFlaky(NewMemory(MemoryConfig{}), once(OpDone, Lose))
	publish(t, f, task)
	done(t, receive(t, f))
	wantQueued(t, f, task.Of())
	wantNone(t, f, 10*time.Millisecond)
	publish(t, f, task)
	done(t, receive(t, f))
}

func TestFlakyTwice(t *testing.T) {
	task := Tasks("corpus", "build", 1, 1)[0]
	f := NewFlaky(NewMemory(MemoryConfig{}), once(OpReceive, Twice))
	publish(t, f, task)
	first, second := receive(t, f), receive(t, f)
	if first.Task().ID != second.Task().ID {
		t.Fatal("received two tasks, want the same twice")
	}
	done(t, first)
	done(t, second)
	wantNone(t, f, 10*time.Millisecond)
}

func TestFlakyReceiveLosesReply(t *testing.T) {
	task := Tasks("corpus", "build", 1, 1)[0]
	f := NewFlaky(NewMemory(MemoryConfig{}), once(OpReceive, After))
	publish(t, f, task)
	_, err := f.Receive(t.Context())
	wantError(t, "receive", err, queue.ErrUnavailable)
	done(t, receive(t, f))
}

// TestFlakyConverges: workers that do what the contract asks of them finish everything, whatever fails.
func TestFlakyConverges(t *testing.T) {
	for seed := range uint64(20) {
		tasks := Tasks("corpus", "build", 1, 40)
		m := NewMemory(MemoryConfig{Lease: 20 * time.Millisecond})
		f := NewFlaky(m, Seeded(seed, EveryFault(0.1)))
		again(t, func() error { return f.Publish(t.Context(), tasks) })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var mu sync.Mutex
		finished := map[tree.ID]bool{}
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() { work(ctx, f, cancel, &mu, finished, len(tasks)) })
		}
		workers.Wait()
		cancel()
		for _, task := range tasks {
			if !finished[task.ID] {
				t.Fatalf("seed %d: task %d was not finished", seed, task.Position)
			}
		}
	}
}

// work does tasks until all are done, each after a first delivery that it gives back. A task of which Done fails comes
// back after its lease, unless Done had its effect.
func work(ctx context.Context, q queue.Queue, stop func(), mu *sync.Mutex, finished map[tree.ID]bool, total int) {
	for {
		d, err := q.Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		if err := d.Extend(ctx); errors.Is(err, queue.ErrLost) {
			continue
		}
		mu.Lock()
		_, seen := finished[d.Task().ID]
		if !seen {
			finished[d.Task().ID] = false
		}
		mu.Unlock()
		if !seen && d.Retry(ctx, time.Millisecond) == nil {
			continue
		}
		mu.Lock()
		finished[d.Task().ID] = true
		left := total
		for _, is := range finished {
			if is {
				left--
			}
		}
		mu.Unlock()
		_ = d.Done(ctx)
		if left == 0 {
			stop()
		}
	}
}

func again(t *testing.T, call func() error) {
	t.Helper()
	for range 100 {
		if call() == nil {
			return
		}
	}
	t.Fatal("the call failed 100 times")
}
