package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestGrowthHistories goes through random histories in both scopes: AERIE_HISTORIES of each, or six (make bench-growth asks for 200).
// Each build keeps every rule, and the same history ends with the same nodes, on 1, 2 and 7 cores, and killed again and again.
func TestGrowthHistories(t *testing.T) {
	histories := 6
	if asked := os.Getenv("AERIE_HISTORIES"); asked != "" {
		var err error
		if histories, err = strconv.Atoi(asked); err != nil {
			t.Fatal(err)
		}
	}
	type one struct {
		seed  int
		scope tree.Scope
	}
	first := map[one]map[tree.ID]*tree.Node{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(cores)
		var mu sync.Mutex
		t.Run(fmt.Sprint(cores, " cores"), func(t *testing.T) {
			for seed := range histories {
				for _, scope := range []tree.Scope{tree.ScopeCorpus, tree.ScopeDocument} {
					t.Run(fmt.Sprintf("%s/%d", scope, seed), func(t *testing.T) {
						t.Parallel()
						nodes := history(t, uint64(seed), scope, cores == 2)
						mu.Lock()
						defer mu.Unlock()
						at := one{seed, scope}
						if first[at] == nil {
							first[at] = nodes
						} else if diff := cmp.Diff(first[at], nodes); diff != "" {
							t.Errorf("another tree than on one core, undisturbed:\n%s", diff)
						}
					})
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	t.Logf("%d histories of each scope, on 1, 2 and 7 cores", histories)
}

// baseline is the number of changes that the published tree was built from.
func (s *system) baseline() int64 {
	if b := s.record().Baseline; b != nil {
		return b.Changes
	}
	return -1
}

// history goes through eight random changes, with a build after each that keeps every rule, and returns what readers see in the end.
// With kills, each build is killed at a random call first.
func history(t *testing.T, seed uint64, scope tree.Scope, kills bool) map[tree.ID]*tree.Node {
	s := growing(t)
	s.rule.Scope = scope
	s.grow.Mode = []clustering.Mode{clustering.KMeans, clustering.Raptor, clustering.Flat}[seed%3]
	killed := rand.New(rand.NewPCG(seed, 6))
	r := rand.New(rand.NewPCG(seed, 5))
	documents := map[string][2]int{} // topic, number of leaves
	name := func() string {
		names := make([]string, 0, len(documents))
		for d := range documents {
			names = append(names, d)
		}
		slices.Sort(names)
		if len(names) == 0 {
			return ""
		}
		return names[r.IntN(len(names))]
	}
	for i := range 6 {
		documents[fmt.Sprint("first", i)] = [2]int{i, 8 + r.IntN(10)}
		s.write(fmt.Sprint("first", i), i, span(0, documents[fmt.Sprint("first", i)][1])...)
	}
	for step := range 8 {
		d := name()
		at := documents[d]
		switch op := r.IntN(8); {
		case op == 0 || d == "": // grow
			topic, n := r.IntN(8), 1+r.IntN(20)
			d = fmt.Sprint("new", step)
			documents[d] = [2]int{topic, n}
			s.write(d, topic, span(100*step, 100*step+n)...)
		case op == 1: // edit
			words := span(0, at[1])
			words[r.IntN(len(words))] = 1000 + step
			s.write(d, at[0], words...)
		case op == 2: // delete
			delete(documents, d)
			s.erase(d)
		case op == 3: // move to another topic
			documents[d] = [2]int{at[0] + 1, at[1]}
			s.write(d, at[0]+1, span(0, at[1])...)
		case op == 4: // rename
			delete(documents, d)
			s.erase(d)
			documents["re"+d] = at
			s.write("re"+d, at[0], span(0, at[1])...)
		case op == 5: // split into two
			half := at[1] / 2
			documents[d], documents[fmt.Sprint("half", step)] = [2]int{at[0], half + 1}, [2]int{at[0], at[1] - half}
			s.write(d, at[0], span(0, half+1)...)
			s.write(fmt.Sprint("half", step), at[0], span(half, at[1])...)
		case op == 6: // all equal
			s.write(d, at[0], slices.Repeat([]int{7}, at[1])...)
		default: // empty
			for d := range documents {
				s.erase(d)
			}
			clear(documents)
		}
		if kills {
			_, _ = s.process(&killSwitch{at: 1 + killed.IntN(40), after: killed.IntN(2) == 0}).run(context.Background(), coordinator.Request{Force: true})
			s.queue.Restart()
			s.checkEquation()
			s.build(coordinator.Request{})
		}
		if !kills || s.record().Changes != s.baseline() {
			s.build(coordinator.Request{Force: true})
		}
		if err := s.checkTree(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	nodes := s.nodesByID()
	for _, n := range nodes {
		n.Born, n.Died = 0, 0 // one kill more or less is one generation more or less where nothing has changed
	}
	return nodes
}
