package queuetest

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// MemoryConfig configures a Memory. The zero value works.
type MemoryConfig struct {
	// Lease is how long a delivery is held without Extend; 0 means a minute.
	Lease time.Duration
	// Clock is the time that leases and delays run by; nil means that of package time.
	Clock Clock
}

// Memory is a queue in memory that keeps the contract of queue.Queue, first in, first out.
type Memory struct {
	lease time.Duration
	clock Clock

	mu    sync.Mutex
	tasks map[taskKey]*entry
	dead  map[taskKey]queue.Buried
	ready []*entry  // waiting, oldest first; entries that are gone are passed over
	timed entryHeap // in hand or delayed
	wake  chan struct{}
}

type taskKey struct {
	level tree.Level
	id    tree.ID
}

func keyOf(t *queue.Task) taskKey { return taskKey{level: t.Of(), id: t.ID} }

// entry is one unfinished task.
type entry struct {
	task    queue.Task
	gone    bool
	holder  int       // counts deliveries and returns; a delivery holds the lease only under its own number
	waiting bool      // in ready
	due     time.Time // else: when the lease or the delay ends
}

// NewMemory returns an empty queue.
func NewMemory(cfg MemoryConfig) *Memory {
	if cfg.Lease == 0 {
		cfg.Lease = time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = wallClock{}
	}
	return &Memory{
		lease: cfg.Lease,
		clock: cfg.Clock,
		tasks: map[taskKey]*entry{},
		dead:  map[taskKey]queue.Buried{},
		wake:  make(chan struct{}),
	}
}

// Publish implements queue.Queue.
func (m *Memory) Publish(ctx context.Context, tasks []queue.Task) error {
	for i := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkTask(&tasks[i]); err != nil {
			return err
		}
		m.publish(&tasks[i])
	}
	return nil
}

func (m *Memory) publish(t *queue.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, unfinished := m.tasks[keyOf(t)]; unfinished {
		return
	}
	e := &entry{task: clone(t)}
	m.tasks[keyOf(t)] = e
	m.queueLocked(e)
}

// queueLocked puts a task at the end of the waiting ones.
func (m *Memory) queueLocked(e *entry) {
	e.waiting = true
	e.holder++
	m.ready = append(m.ready, e)
	m.wakeLocked()
}

// wakeLocked makes every receiver look again.
func (m *Memory) wakeLocked() {
	close(m.wake)
	m.wake = make(chan struct{})
}

// Receive implements queue.Queue.
func (m *Memory) Receive(ctx context.Context) (queue.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, wake, due := m.take()
		if d != nil {
			return d, nil
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-due:
		}
	}
}

// take hands out the oldest waiting task. Without one it returns what to wait for.
func (m *Memory) take() (queue.Delivery, <-chan struct{}, <-chan time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for len(m.timed) > 0 && !m.timed[0].at.After(now) {
		timer := heap.Pop(&m.timed).(timedEntry)
		if e := timer.entry; !e.gone && !e.waiting && !e.due.After(now) {
			m.queueLocked(e)
		}
	}
	for len(m.ready) > 0 {
		e := m.ready[0]
		m.ready = m.ready[1:]
		if e.gone || !e.waiting {
			continue
		}
		e.waiting = false
		e.holder++
		m.holdLocked(e, now.Add(m.lease))
		return &delivery{memory: m, entry: e, holder: e.holder}, nil, nil
	}
	if len(m.timed) == 0 {
		return nil, m.wake, nil
	}
	return nil, m.wake, m.clock.After(m.timed[0].at.Sub(now))
}

func (m *Memory) holdLocked(e *entry, due time.Time) {
	e.due = due
	heap.Push(&m.timed, timedEntry{at: due, entry: e})
}

// Queued implements queue.Queue.
func (m *Memory) Queued(ctx context.Context, level tree.Level) ([]tree.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []tree.ID
	for key := range m.tasks {
		if key.level == level {
			ids = append(ids, key.id)
		}
	}
	slices.SortFunc(ids, tree.ID.Compare)
	return ids, nil
}

// Dead implements queue.Queue.
func (m *Memory) Dead(ctx context.Context, corpus, build string) ([]queue.Buried, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var dead []queue.Buried
	for key, b := range m.dead {
		if key.level.Corpus == corpus && key.level.Build == build {
			b.Task = clone(&b.Task)
			dead = append(dead, b)
		}
	}
	slices.SortFunc(dead, func(a, b queue.Buried) int {
		return cmp.Or(cmp.Compare(a.Task.Level, b.Task.Level), cmp.Compare(a.Task.Position, b.Task.Position),
			a.Task.ID.Compare(b.Task.ID))
	})
	return dead, nil
}

// Exhume implements queue.Queue.
func (m *Memory) Exhume(ctx context.Context, tasks []queue.Task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range tasks {
		delete(m.dead, keyOf(&tasks[i]))
	}
	return nil
}

// Withdraw implements queue.Queue.
func (m *Memory) Withdraw(ctx context.Context, corpus, build string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withdraw(corpus, build)
	return nil
}

func (m *Memory) withdraw(corpus, build string) {
	for key, e := range m.tasks {
		if key.level.Corpus == corpus && key.level.Build == build {
			e.gone = true
			delete(m.tasks, key)
		}
	}
}

// Purge implements queue.Queue.
func (m *Memory) Purge(ctx context.Context, corpus, build string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withdraw(corpus, build)
	for key := range m.dead {
		if key.level.Corpus == corpus && key.level.Build == build {
			delete(m.dead, key)
		}
	}
	return nil
}

// Restart does what the end of every process does to an embedded queue: all leases are lost, and the tasks in
// hand are waiting again.
func (m *Memory) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.tasks {
		if !e.waiting {
			m.queueLocked(e)
		}
	}
	m.timed = nil
}

// InHand returns the number of tasks that are in the hands of a worker or wait out a delay.
func (m *Memory) InHand() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, e := range m.tasks {
		if !e.waiting {
			n++
		}
	}
	return n
}

func checkTask(t *queue.Task) error {
	if t.Corpus == "" || t.Build == "" || t.Level < 1 || t.ID.IsZero() {
		return fmt.Errorf("queuetest: task %s of corpus %q, build %q, level %d: corpus, build, a level from 1 and an id are required",
			t.ID, t.Corpus, t.Build, t.Level)
	}
	if err := queue.CheckHeaders(t.Headers); err != nil {
		return fmt.Errorf("queuetest: task %s: %w", t.ID, err)
	}
	b, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("queuetest: task %s: %w", t.ID, err)
	}
	if len(b) > queue.MaxTaskBytes {
		return fmt.Errorf("queuetest: task %s has %d bytes: %w", t.ID, len(b), queue.ErrTooLarge)
	}
	return nil
}

// clone keeps callers and the queue from sharing the list of children and the headers.
func clone(t *queue.Task) queue.Task {
	c := *t
	c.Children, c.Headers = slices.Clone(t.Children), maps.Clone(t.Headers)
	return c
}

// timedEntry is a moment at which a lease or a delay may end. Extend and the settling calls leave stale ones
// behind; take tells them by entry.due.
type timedEntry struct {
	at    time.Time
	entry *entry
}

type entryHeap []timedEntry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entryHeap) Push(x any)        { *h = append(*h, x.(timedEntry)) }
func (h *entryHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
