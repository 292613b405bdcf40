package queuetest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(_ *testing.T, lease time.Duration) Opened {
		m := NewMemory(MemoryConfig{Lease: lease})
		return Opened{
			Queue: m, DropsLeases: true,
			Restart: func() queue.Queue { m.Restart(); return m },
		}
	})
}

func TestMemoryByManualClock(t *testing.T) {
	clock := NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	m := NewMemory(MemoryConfig{Lease: time.Minute, Clock: clock})
	publish(t, m, Tasks("corpus", "build", 1, 1)...)
	first := receive(t, m)
	clock.Advance(59 * time.Second)
	if err := first.Extend(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Advance(59 * time.Second)
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := m.Receive(ended); err == nil {
		t.Fatal("received a task under lease")
	}
	clock.Advance(time.Second)
	wantError(t, "extend", first.Extend(t.Context()), queue.ErrLost)
	done(t, receive(t, m))
	if n := m.InHand(); n != 0 {
		t.Errorf("%d tasks in hand, want 0", n)
	}
}
