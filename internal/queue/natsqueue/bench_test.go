package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// benchSlots is the default number of slots of one process.
const benchSlots = 8

func benchConn(b *testing.B) *Conn {
	b.Helper()
	c, err := Embedded(b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// BenchmarkTasks is the whole way of 1,000 tasks that need no work: published, received, done. It takes turns with the
// same in the fewest calls of nats.go that are as safe, asynchronous publishes, Next and DoubleAck, so that both see the
// same machine.
func BenchmarkTasks(b *testing.B) {
	c := benchConn(b)
	consumer, err := c.js.Consumer(b.Context(), tasksStream, workers)
	if err != nil {
		b.Fatal(err)
	}
	const tasks = 1000
	var ours, raw time.Duration
	for i := 0; b.Loop(); i++ {
		mine, theirs := queuetest.Tasks("corpus", fmt.Sprint("ours", i), 1, tasks), queuetest.Tasks("corpus", fmt.Sprint("raw", i), 1, tasks)
		start := time.Now()
		if err := c.Queue().Publish(b.Context(), mine); err != nil {
			b.Fatal(err)
		}
		drain(b, tasks, func(ctx context.Context) error {
			d, err := c.Queue().Receive(ctx)
			if err != nil {
				return err
			}
			return d.Done(ctx)
		})
		ours += time.Since(start)
		start = time.Now()
		rawPublish(b, c, theirs)
		drain(b, tasks, func(ctx context.Context) error {
			msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
			if err != nil {
				return err
			}
			return msg.DoubleAck(ctx)
		})
		raw += time.Since(start)
	}
	b.ReportMetric(float64(b.N)*tasks/ours.Seconds(), "tasks/s")
	b.ReportMetric(float64(b.N)*tasks/raw.Seconds(), "raw-tasks/s")
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "x-raw")
}

func rawPublish(b *testing.B, c *Conn, tasks []queue.Task) {
	b.Helper()
	for len(tasks) > 0 {
		window := tasks[:min(len(tasks), publishWindow)]
		tasks = tasks[len(window):]
		var futures []jetstream.PubAckFuture
		for i := range window {
			msg, err := taskMsg(&window[i])
			if err != nil {
				b.Fatal(err)
			}
			future, err := c.js.PublishMsgAsync(msg)
			if err != nil {
				b.Fatal(err)
			}
			futures = append(futures, future)
		}
		for _, future := range futures {
			select {
			case <-future.Ok():
			case err := <-future.Err():
				b.Fatal(err)
			}
		}
	}
}

// drain takes n tasks in benchSlots goroutines.
func drain(b *testing.B, n int, take func(ctx context.Context) error) {
	b.Helper()
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	var slots sync.WaitGroup
	for range benchSlots {
		slots.Go(func() {
			for range work {
				if err := take(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	slots.Wait()
}

// BenchmarkPublish publishes 10,000 tasks, the first level of a corpus of 100,000 leaves.
func BenchmarkPublish(b *testing.B) {
	for name, cfg := range map[string]Config{"default": {}, "always": {SyncAlways: true}} {
		b.Run(name, func(b *testing.B) {
			c, err := Embedded(b.TempDir(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for i := 0; b.Loop(); i++ {
				tasks := queuetest.Tasks("corpus", fmt.Sprint("build", i), 1, 10_000)
				if err := c.Queue().Publish(b.Context(), tasks); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen opens and closes an embedded queue: what every command pays that needs one.
func BenchmarkOpen(b *testing.B) {
	tasks := func(c *Conn) error {
		return c.Queue().Publish(b.Context(), queuetest.Tasks("corpus", "build", 1, 10_000))
	}
	for _, bench := range []struct {
		name   string
		fill   func(c *Conn) error
		killed bool
	}{
		{"empty", func(*Conn) error { return nil }, false},
		{"10000tasks", tasks, false},
		{"10000tasks-killed", tasks, true},
		{"100000answers", answers, false},
		{"100000answers-killed", answers, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			dir := b.TempDir()
			c, err := Embedded(dir, Config{})
			if err != nil {
				b.Fatal(err)
			}
			if err := errors.Join(bench.fill(c), c.Close()); err != nil {
				b.Fatal(err)
			}
			var opening time.Duration
			for b.Loop() {
				if bench.killed {
					forgetIndexes(b, dir)
				}
				start := time.Now()
				c, err := Embedded(dir, Config{})
				if err != nil {
					b.Fatal(err)
				}
				opening += time.Since(start)
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(opening.Microseconds())/1000/float64(b.N), "open-ms")
		})
	}
}

// answers fills the journal with summaries of 1,000 bytes. It goes round Record, which waits for the disk each time.
func answers(c *Conn) error {
	value, err := json.Marshal(journal.Entry{Text: strings.Repeat("0123456789", 100), Build: "build"})
	if err != nil {
		return err
	}
	for i := range 100_000 {
		if _, err := c.js.PublishAsync(journalPrefix+queuetest.JournalKey(fmt.Sprint(i)), value); err != nil {
			return err
		}
		if i%publishWindow == 0 {
			<-c.js.PublishAsyncComplete()
		}
	}
	<-c.js.PublishAsyncComplete()
	return nil
}

// forgetIndexes removes what a server writes when it is closed, so that the next one reads all messages.
func forgetIndexes(b *testing.B, dir string) {
	b.Helper()
	indexes, err := filepath.Glob(filepath.Join(dir, "nats", "jetstream", "*", "streams", "*", "msgs", "index.db"))
	if err != nil || len(indexes) == 0 {
		b.Fatalf("indexes %v, error %v", indexes, err)
	}
	for _, index := range indexes {
		if err := os.Remove(index); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSettle is what one task costs a worker in the queue and the journal, one at a time.
func BenchmarkSettle(b *testing.B) {
	for name, cfg := range map[string]Config{"default": {}, "always": {SyncAlways: true}} {
		b.Run(name, func(b *testing.B) {
			c, err := Embedded(b.TempDir(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			tasks := queuetest.Tasks("corpus", "build", 1, b.N)
			if err := c.Queue().Publish(b.Context(), tasks); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				d, err := c.Queue().Receive(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				task := d.Task()
				if _, err := c.Journal().Begin(b.Context(), task.Build, task.ID); err != nil {
					b.Fatal(err)
				}
				err = c.Journal().Record(b.Context(), queuetest.JournalKey(task.ID.String()), journal.Entry{Text: "summary"})
				if err != nil {
					b.Fatal(err)
				}
				if err := d.Done(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkQueued lists a level of 200,000 tasks, twice what the server lists at a time.
func BenchmarkQueued(b *testing.B) {
	c := benchConn(b)
	tasks := queuetest.Tasks("corpus", "build", 1, 200_000)
	if err := c.Queue().Publish(b.Context(), tasks); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ids, err := c.Queue().Queued(b.Context(), tasks[0].Of())
		if err != nil || len(ids) != len(tasks) {
			b.Fatalf("%d ids, error %v", len(ids), err)
		}
	}
}
