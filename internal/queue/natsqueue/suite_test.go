package natsqueue

import (
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// lease is the lease of the suites' queues: the server looks for expired ones about as often.
const lease = time.Second

func embedded(t *testing.T, dir string) *Conn {
	t.Helper()
	c, err := Embedded(dir, Config{AckWait: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestEmbeddedQueue(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) queuetest.Opened {
		dir := t.TempDir()
		c := embedded(t, dir)
		return queuetest.Opened{
			Queue: c.Queue(), Lease: lease, DropsLeases: true,
			Restart: func() queue.Queue {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return embedded(t, dir).Queue()
			},
		}
	})
}

func TestEmbeddedJournal(t *testing.T) {
	t.Parallel()
	queuetest.JournalSuite(t, func(t *testing.T) queuetest.OpenedJournal {
		dir := t.TempDir()
		c := embedded(t, dir)
		return queuetest.OpenedJournal{
			Journal: c.Journal(),
			Restart: func() llm.Journal {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return embedded(t, dir).Journal()
			},
		}
	})
}
