package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The tests of this file re-enact faults that other systems have had, each named in its comment. Those that the
// contract suite re-enacts for every queue: nats-server issues 4786 and 6937, a late ack counts (LateDoneIsHarmless);
// 3272, duplicates after a restart (RestartRefusesDuplicates); sbomscanner pull 281, a re-queue within the duplicate
// window is swallowed (DoneTaskMayBePublishedAgain); nats.go issue 1929, taskiq-nats issue 16 and celery issue 5935, a long
// task runs twice (ExtendKeeps).

// eachServer runs a test on an embedded queue and on a server of its own. restart ends the server abruptly, as far
// as an embedded one can be ended from within, and returns a client of the new one.
func eachServer(t *testing.T, lease time.Duration, test func(t *testing.T, c *Conn, restart func() *Conn)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		c := embeddedLease(t, dir, lease)
		test(t, c, func() *Conn {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			c = embeddedLease(t, dir, lease)
			return c
		})
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		p := startProcess(t)
		c := p.connectLease(t, lease)
		test(t, c, func() *Conn { p.restart(); return c })
	})
}

func publish(t *testing.T, c *Conn, tasks ...queue.Task) {
	t.Helper()
	if err := c.Queue().Publish(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c *Conn) queue.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d, err := c.Queue().Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func done(t *testing.T, d queue.Delivery) {
	t.Helper()
	if err := d.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantNone(t *testing.T, c *Conn, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if got, err := c.Queue().Receive(ctx); err == nil {
		t.Fatalf("received task %d, want none", got.Task().Position)
	}
}

func queued(t *testing.T, c *Conn, level tree.Level) []tree.ID {
	t.Helper()
	ids, err := c.Queue().Queued(t.Context(), level)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestHeartbeatSlowerThanLease: ragflow pull 18942. A heartbeat of 10 s under a lease of 5 s delivered early and
// burnt attempts.
func TestHeartbeatSlowerThanLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg   Config
		valid bool
	}{
		{Config{AckWait: 5 * time.Second, Heartbeat: 10 * time.Second}, false},
		{Config{AckWait: 60 * time.Second, Heartbeat: 21 * time.Second}, false},
		{Config{AckWait: 60 * time.Second, Heartbeat: 20 * time.Second}, true},
		{Config{Heartbeat: 20 * time.Second}, true}, // the default lease is 60 s
		{Config{Heartbeat: 30 * time.Second}, false},
	} {
		if err := c.cfg.Validate(); (err == nil) != c.valid {
			t.Errorf("heartbeat %v under a lease of %v: got error %v", c.cfg.Heartbeat, c.cfg.AckWait, err)
		}
		if conn, err := Embedded(t.TempDir(), c.cfg); err == nil {
			if !c.valid {
				t.Error("an embedded queue opened under a configuration that is not valid")
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTaskIsNeverExhausted: nats-server issues 5564, 6905, 7680. A message that reached MaxDeliver stayed in
// the stream, and no consumer ever delivered it again.
func TestTaskIsNeverExhausted(t *testing.T) {
	t.Parallel()
	eachServer(t, lease, func(t *testing.T, c *Conn, restart func() *Conn) {
		publish(t, c, queuetest.Tasks("corpus", "build", 1, 1)...)
		for i := range 50 {
			if i == 25 {
				c = restart()
			}
			if err := receive(t, c).Retry(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		done(t, receive(t, c))
	})
}

// TestAttemptsSurviveCrashes: nats-server issue 5346. The server's delivery counter was wrong after a crash, so
// attempts are counted in the journal.
func TestAttemptsSurviveCrashes(t *testing.T) {
	t.Parallel()
	eachServer(t, lease, func(t *testing.T, c *Conn, restart func() *Conn) {
		task := queuetest.Tasks("corpus", "build", 1, 1)[0]
		publish(t, c, task)
		for crash := range 3 {
			receive(t, c)
			got, err := c.Journal().Begin(t.Context(), "build", task.ID)
			if err != nil {
				t.Fatal(err)
			}
			if want := (journal.Attempts{Started: crash + 1}); got != want {
				t.Fatalf("after %d crashes: got %+v, want %+v", crash, got, want)
			}
			c = restart()
		}
	})
}

// TestDeadWorkersTaskComesBack: ragflow pull 18619. Messages that a killed worker held were never delivered again.
func TestDeadWorkersTaskComesBack(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	c, killed := p.connectLease(t, lease), p.connectLease(t, lease)
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 2)...)
	receive(t, killed)
	receive(t, killed)
	if err := killed.Close(); err != nil { // nothing is settled: to the server this is a kill
		t.Fatal(err)
	}
	done(t, receive(t, c))
	done(t, receive(t, c))
}

// TestDeadLetterSumHolds: nats-server issue 7817. Dead-lettered messages of a work queue got lost. A tenth of 200
// tasks is buried, with a restart in the midst.
func TestDeadLetterSumHolds(t *testing.T) {
	t.Parallel()
	eachServer(t, lease, func(t *testing.T, c *Conn, restart func() *Conn) {
		const total = 200
		tasks := queuetest.Tasks("corpus", "build", 1, total)
		publish(t, c, tasks...)
		finished := map[tree.ID]bool{}
		for i := range total {
			if i == total/2 {
				c = restart()
			}
			d := receive(t, c)
			if d.Task().Position%10 == 0 {
				if err := d.Bury(t.Context(), "refused", "no"); err != nil {
					t.Fatal(err)
				}
				continue
			}
			finished[d.Task().ID] = true
			done(t, d)
		}
		buried, err := c.Queue().Dead(t.Context(), "corpus", "build")
		if err != nil {
			t.Fatal(err)
		}
		left := queued(t, c, tasks[0].Of())
		if len(buried) != total/10 || len(finished) != total-total/10 || len(left) != 0 {
			t.Errorf("done %d, dead %d, queued %d; want %d, %d, 0", len(finished), len(buried), len(left), total-total/10, total/10)
		}
	})
}

// TestSettledBeforeClose: wolverine pull 4039. Stopping threw acks away that had not been sent, and what was
// prefetched stayed pending.
func TestSettledBeforeClose(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	c, stopping := p.connect(t), p.connect(t)
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 30)...)
	for i := range 20 {
		d := receive(t, stopping)
		var err error
		switch i % 3 {
		case 0:
			err = d.Done(t.Context())
		case 1:
			err = d.Bury(t.Context(), "refused", "no")
		case 2:
			err = d.Retry(t.Context(), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := stopping.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := c.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// 14 of the 20 deliveries ended with Done or Bury; a task that was given back may have been among the next.
	if want := 30 - 14; b.Unfinished != want || b.InHand-b.Redelivered > 0 {
		t.Errorf("after the close: %+v, want %d unfinished and none in hand but what was given back", b, want)
	}
	for range 30 - 14 {
		done(t, receive(t, c))
	}
}

// TestIdleSlotsHoldNothing: nats.go issue 1929 and wolverine pull 4039. Slots that wait for work must not keep a
// task from others, neither while they wait nor after.
func TestIdleSlotsHoldNothing(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	idle, c := p.connect(t), p.connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	const slots = 20
	ended := make(chan error)
	for range slots {
		go func() {
			_, err := idle.Queue().Receive(ctx)
			ended <- err
		}()
	}
	cancel()
	for range slots {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	publish(t, c, queuetest.Tasks("corpus", "build", 1, slots)...)
	for range slots {
		done(t, receive(t, c)) // fails in half a lease
	}
}

// TestIdleReceiveDoesNotSpin: an idle receiver asks once, and again when the request has ended.
func TestIdleReceiveDoesNotSpin(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	asked := make(chan *nats.Msg, 1000)
	sub, err := c.nats.ChanSubscribe("$JS.API.CONSUMER.MSG.NEXT.>", asked)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	wantNone(t, c, 1500*time.Millisecond)
	if n := len(asked); n != 1 {
		t.Errorf("an idle receiver asked %d times in 1.5 s, want once", n)
	}
}

// TestForeignMessages: what is not a task must neither come back for ever nor stop a worker.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	c := embeddedLease(t, t.TempDir(), lease)
	tasks := queuetest.Tasks("corpus", "build", 1, 2)
	for i, data := range []string{"", "{", "null", "[]", `{"corpus":"other"}`, "\x00\xff"} {
		subject := fmt.Sprintf("%scorpus.build.1.foreign-%d", taskPrefix, i)
		if _, err := c.js.Publish(t.Context(), subject, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := taskMsg(&tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.Publish(t.Context(), subjectOf(taskPrefix, &tasks[1]), msg.Data); err != nil {
		t.Fatal(err)
	}
	if got := queued(t, c, tasks[0].Of()); len(got) != 1 {
		t.Errorf("queued: %v, want the one subject that ends with an id", got)
	}
	publish(t, c, tasks[0])
	d := receive(t, c)
	if d.Task().ID != tasks[0].ID {
		t.Errorf("received task %d", d.Task().Position)
	}
	done(t, d)
	wantNone(t, c, 3*lease/2)
	b, err := c.Backlog(t.Context())
	if err != nil || b.Unfinished != 0 {
		t.Errorf("backlog %+v, error %v; want an empty stream", b, err)
	}
}
