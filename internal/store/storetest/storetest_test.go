package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestMemoryContract(t *testing.T) {
	Run(t, func(*testing.T) store.Store { return NewMemory() })
}

// A decorator that breaks nothing changes nothing.
func TestFlakyWithoutFaultsContract(t *testing.T) {
	Run(t, func(*testing.T) store.Store {
		return NewFlaky(NewMemory(), func(Call) Fault { return None })
	})
}

func TestFlaky(t *testing.T) {
	s := &suite{T: t, corpus: "c"}
	nodes := []tree.Node{s.leaf("d", 0, "a"), s.leaf("d", 1, "b"), s.leaf("d", 2, "c")}
	for name, test := range map[string]struct {
		fault Fault
		want  int // nodes written
	}{"before": {Before, 0}, "after": {After, 3}, "partial": {Partial, 1}} {
		t.Run(name, func(t *testing.T) {
			inner := NewMemory()
			flaky := NewFlaky(inner, func(c Call) Fault {
				if c.Number == 0 {
					return test.fault
				}
				return None
			})
			err := flaky.Put(t.Context(), "c", nodes)
			if !errors.Is(err, ErrInjected) {
				t.Errorf("Put: %v, want the injected fault", err)
			}
			if got, _ := inner.Count(t.Context(), "c", store.AnyLevel()); got != test.want {
				t.Errorf("%d nodes written, want %d", got, test.want)
			}
			if err := flaky.Put(t.Context(), "c", nodes); err != nil {
				t.Errorf("second Put: %v", err)
			}
			if got, _ := inner.Count(t.Context(), "c", store.AnyLevel()); got != 3 {
				t.Errorf("%d nodes after the second Put, want 3", got)
			}
		})
	}
}

func TestSeededIsRepeatable(t *testing.T) {
	draw := func() []Fault {
		schedule := Seeded(3, 0.5)
		var faults []Fault
		for i := range 200 {
			faults = append(faults, schedule(Call{Method: "Put", Number: i}))
		}
		return faults
	}
	a := draw()
	if d := cmp.Diff(a, draw()); d != "" {
		t.Error(d)
	}
	count := map[Fault]int{}
	for _, f := range a {
		count[f]++
	}
	for _, f := range []Fault{None, Before, After, Partial} {
		if count[f] == 0 {
			t.Errorf("fault %d never came in 200 calls at 50 %%", f)
		}
	}
}
