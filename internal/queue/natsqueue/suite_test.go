package natsqueue

import (
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// lease is one that tests wait out.
const lease = time.Second

// embedded opens a queue under the default lease of a minute, which outlives every test.
func embedded(t *testing.T, dir string) *Conn {
	t.Helper()
	return embeddedLease(t, dir, 0)
}

func embeddedLease(t *testing.T, dir string, lease time.Duration) *Conn {
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
	queuetest.Run(t, func(t *testing.T, lease time.Duration) queuetest.Opened {
		dir := t.TempDir()
		c := embeddedLease(t, dir, lease)
		return queuetest.Opened{
			Queue: c.Queue(), DropsLeases: true,
			Restart: func() queue.Queue {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return embeddedLease(t, dir, lease).Queue()
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
			Restart: func() journal.Journal {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return embedded(t, dir).Journal()
			},
		}
	})
}
