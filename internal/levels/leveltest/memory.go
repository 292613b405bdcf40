package leveltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Memory implements the four ports of package levels in memory. Records are kept as JSON, as real
// implementations keep them, so that what doesn't survive encoding doesn't survive here either.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	barriers map[tree.Level]*memoryBarrier
	leases   map[leaseOf]levels.Lease // a released one has no holder
	states   map[string][]byte
	history  map[[2]string][]byte // by corpus and build
	progress map[string]levels.Reports
	wishes   map[[2]string]levels.Stop
	corpora  map[string][]byte
	plans    map[tree.Level][]byte
	trees    map[string][]byte
	copies   map[string][]byte // of states
	members  map[memberOf]levels.Member
}

var (
	_ levels.Barrier = (*Memory)(nil)
	_ levels.Builds  = (*Memory)(nil)
	_ levels.Plans   = (*Memory)(nil)
	_ levels.Corpora = (*memoryCorpora)(nil)
)

// leaseOf is what a lease is for.
type leaseOf struct {
	corpus string
	right  levels.Right
}

type memoryBarrier struct {
	digest     string
	total      int
	done, dead map[int]bool
	usage      tree.Usage
}

// NewMemory returns an empty Memory whose leases follow the wall clock.
func NewMemory() *Memory { return NewMemoryAt(time.Now) }

// NewMemoryAt returns an empty Memory whose leases follow now.
func NewMemoryAt(now func() time.Time) *Memory {
	return &Memory{
		now: now, barriers: map[tree.Level]*memoryBarrier{}, leases: map[leaseOf]levels.Lease{},
		states: map[string][]byte{}, history: map[[2]string][]byte{}, progress: map[string]levels.Reports{}, wishes: map[[2]string]levels.Stop{},
		corpora: map[string][]byte{}, plans: map[tree.Level][]byte{}, trees: map[string][]byte{}, copies: map[string][]byte{},
	}
}

// Corpora returns the records of corpora. They are a type of their own since Load and Drop mean something else
// there.
func (m *Memory) Corpora() levels.Corpora { return (*memoryCorpora)(m) }

// Open implements [levels.Barrier].
func (m *Memory) Open(ctx context.Context, level tree.Level, digest string, total int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if total < 0 {
		return fmt.Errorf("leveltest: barrier of %v: total %d is below 0", level, total)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.barriers[level]; b != nil && b.digest == digest && b.total == total {
		return nil
	}
	m.barriers[level] = &memoryBarrier{digest: digest, total: total, done: map[int]bool{}, dead: map[int]bool{}}
	return nil
}

// Mark implements [levels.Barrier].
func (m *Memory) Mark(ctx context.Context, level tree.Level, digest string, marks ...levels.Mark) (levels.Count, error) {
	if err := ctx.Err(); err != nil {
		return levels.Count{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.open(level)
	if err != nil {
		return levels.Count{}, err
	}
	if b.digest != digest {
		return levels.Count{}, fmt.Errorf("leveltest: barrier of %v with digest %s: %w", level, digest, levels.ErrNotOpen)
	}
	for _, mark := range marks {
		if mark.Position < 0 || mark.Position >= b.total || !slices.Contains([]levels.Outcome{levels.Done, levels.Dead, levels.Spent}, mark.Outcome) {
			return levels.Count{}, fmt.Errorf("leveltest: barrier of %v: can't mark position %d of %d as %q", level, mark.Position, b.total, mark.Outcome)
		}
	}
	for _, mark := range marks {
		switch p := mark.Position; {
		case mark.Outcome == levels.Spent:
			b.usage = b.usage.Add(mark.Usage)
		case b.done[p]:
		case mark.Outcome == levels.Done:
			b.done[p] = true
			delete(b.dead, p)
			b.usage = b.usage.Add(mark.Usage)
		default:
			b.dead[p] = true
		}
	}
	return b.count(), nil
}

// Count implements [levels.Barrier].
func (m *Memory) Count(ctx context.Context, level tree.Level) (levels.Count, error) {
	if err := ctx.Err(); err != nil {
		return levels.Count{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.open(level)
	if err != nil {
		return levels.Count{}, err
	}
	return b.count(), nil
}

// Positions implements [levels.Barrier].
func (m *Memory) Positions(ctx context.Context, level tree.Level, outcome levels.Outcome) ([]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.open(level)
	if err != nil {
		return nil, err
	}
	switch outcome {
	case levels.Done:
		return slices.Sorted(maps.Keys(b.done)), nil
	case levels.Dead:
		return slices.Sorted(maps.Keys(b.dead)), nil
	}
	return nil, fmt.Errorf("leveltest: barrier of %v: no outcome is called %q", level, outcome)
}

// Clear implements [levels.Barrier].
func (m *Memory) Clear(ctx context.Context, level tree.Level, positions []int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.open(level)
	if err != nil {
		return err
	}
	for _, p := range positions {
		delete(b.dead, p)
	}
	return nil
}

// Drop implements [levels.Barrier].
func (m *Memory) Drop(ctx context.Context, corpus, build string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.barriers, func(l tree.Level, _ *memoryBarrier) bool { return l.Corpus == corpus && l.Build == build })
	return nil
}

func (m *Memory) open(level tree.Level) (*memoryBarrier, error) {
	if b := m.barriers[level]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("leveltest: barrier of %v: %w", level, levels.ErrNotOpen)
}

func (b *memoryBarrier) count() levels.Count {
	return levels.Count{Total: b.total, Done: len(b.done), Dead: len(b.dead), Usage: b.usage}
}

// encode panics since every record of package levels encodes.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("leveltest: a record always encodes: " + err.Error())
	}
	return b
}

// decode reads a record; one that isn't there is levels.ErrNotFound.
func decode[T any](b []byte, what string) (*T, error) {
	if b == nil {
		return nil, fmt.Errorf("leveltest: %s: %w", what, levels.ErrNotFound)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("leveltest: %s: %w", what, err)
	}
	return &v, nil
}
