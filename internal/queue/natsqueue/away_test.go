package natsqueue

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// TestServerAway: calls fail with queue.ErrUnavailable while the server is away, and go on by themselves when it
// is back. The lease of what is in hand is not given up for a missing connection alone.
func TestServerAway(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	c, err := Connect(p.url(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tasks := queuetest.Tasks("corpus", "build", 1, 3)
	publish(t, c, tasks...)
	d := receive(t, c)
	// The server writes leases down a moment after it has given or extended them. What it writes first may be older
	// than this one.
	for range 2 {
		before := p.leasesWritten()
		if err := d.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return p.leasesWritten().After(before) })
	}
	p.kill()

	var calls sync.WaitGroup
	for what, call := range map[string]func() error{
		"extend":  func() error { return d.Extend(t.Context()) },
		"done":    func() error { return d.Done(t.Context()) },
		"publish": func() error { return c.Queue().Publish(t.Context(), tasks) },
		"queued": func() error {
			_, err := c.Queue().Queued(t.Context(), tasks[0].Of())
			return err
		},
		"lookup": func() error {
			_, err := c.Journal().Lookup(t.Context(), queuetest.JournalKey("key"))
			return err
		},
		"plan": func() error {
			_, err := c.Plans().Plan(t.Context(), tasks[0].Of())
			return err
		},
	} {
		calls.Go(func() { wantUnavailable(t, what, call()) })
	}
	calls.Wait()

	waiting := make(chan queue.Delivery)
	go func() {
		d, err := c.Queue().Receive(t.Context())
		if err != nil {
			t.Errorf("receive: %v", err)
		}
		waiting <- d
	}()
	p.start()
	if again := <-waiting; again != nil {
		if again.Task().ID == d.Task().ID {
			t.Error("the task in hand was delivered a second time")
		}
		done(t, again)
	}
	if err := d.Extend(t.Context()); err != nil {
		t.Errorf("extend after the server is back: %v", err)
	}
	done(t, d)
	done(t, receive(t, c))
}

// eventually waits for a condition that nothing signals.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the condition was not met in 30 s")
		}
	}
}

func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("%s: got error %v, want %v", what, err, queue.ErrUnavailable)
	}
}

// TestLeaseEndsWithoutContact: a worker that can't reach the server stops when its lease may have ended.
func TestLeaseEndsWithoutContact(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	c, err := Connect(p.url(), Config{AckWait: lease, CallTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 1)...)
	start, d := time.Now(), receive(t, c)
	p.kill()
	beat := time.NewTicker(lease / 5)
	defer beat.Stop()
	for range beat.C {
		err := d.Extend(t.Context())
		if errors.Is(err, queue.ErrLost) {
			break
		}
		wantUnavailable(t, "extend", err)
	}
	if took := time.Since(start); took < lease/2 || took > 10*lease {
		t.Errorf("the lease was given up after %v, want about %v", took, lease)
	}
}
