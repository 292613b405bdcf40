package leveltest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

func openMemory(*testing.T) Ports {
	var elapsed atomic.Int64
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewMemoryAt(func() time.Time { return start.Add(time.Duration(elapsed.Load())) })
	return Ports{Barrier: m, Builds: m, Corpora: m.Corpora(), Members: m, Advance: func(d time.Duration) { elapsed.Add(int64(d)) }}
}

func TestMemoryContract(t *testing.T) { Run(t, openMemory) }

func TestMemoryPlansContract(t *testing.T) {
	RunPlans(t, func(*testing.T) levels.Plans { return NewMemory() })
}

// Decorators that break nothing change nothing.
func TestFlakyWithoutFaultsContract(t *testing.T) {
	never := NewSchedule(func(Call) Fault { return None })
	Run(t, func(t *testing.T) Ports {
		p := openMemory(t)
		return Ports{
			Barrier: &FlakyBarrier{p.Barrier, never}, Builds: &FlakyBuilds{p.Builds, never},
			Corpora: &FlakyCorpora{p.Corpora, never}, Members: p.Members, Advance: p.Advance,
		}
	})
	RunPlans(t, func(*testing.T) levels.Plans { return &FlakyPlans{NewMemory(), never} })
}

// A worker that repeats its mark until it is told the outcome gives the right counts, whether the calls were lost
// before their effect or after it.
func TestRetriesThroughFaults(t *testing.T) {
	const total = 300
	m := NewMemory()
	level := tree.Level{Corpus: "c", Build: "b", Level: 1}
	if err := m.Open(t.Context(), level, "digest", total); err != nil {
		t.Fatal(err)
	}
	flaky := &FlakyBarrier{m, Seeded(11, 0.6)}
	failures := 0
	for p := range total {
		for {
			_, err := flaky.Mark(t.Context(), level, "digest", marks(levels.Done, p)...)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrInjected) {
				t.Fatal(err)
			}
			failures++
		}
	}
	got, err := m.Count(t.Context(), level)
	if want := count(total, total, 0); err != nil || got != want {
		t.Errorf("counts %+v, %v; want %+v", got, err, want)
	}
	if failures < total/2 {
		t.Errorf("only %d calls failed", failures)
	}
}

func TestFaultsBeforeAndAfter(t *testing.T) {
	for fault, want := range map[Fault]int{Before: 0, After: 1} {
		m := NewMemory()
		level := tree.Level{Corpus: "c", Build: "b", Level: 1}
		if err := m.Open(t.Context(), level, "digest", 3); err != nil {
			t.Fatal(err)
		}
		flaky := &FlakyBarrier{m, NewSchedule(func(Call) Fault { return fault })}
		got, err := flaky.Mark(t.Context(), level, "digest", marks(levels.Done, 0)...)
		if !errors.Is(err, ErrInjected) || got != (levels.Count{}) {
			t.Errorf("Mark: %+v, %v; want no counts and the injected fault", got, err)
		}
		if c, _ := m.Count(t.Context(), level); c.Done != want {
			t.Errorf("fault %d: %d done, want %d", fault, c.Done, want)
		}
	}
}
