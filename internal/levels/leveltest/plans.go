package leveltest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// RunPlans holds an implementation to the contract of [levels.Plans]. Like those of [Run], the plans may be
// shared between tests.
func RunPlans(t *testing.T, open func(t *testing.T) levels.Plans) {
	for _, test := range planTests {
		t.Run(test.name, func(t *testing.T) {
			test.run(&planSuite{T: t, plans: open(t), corpus: "contract-plans-" + strings.ToLower(test.name)})
		})
	}
}

type planSuite struct {
	*testing.T
	plans  levels.Plans
	corpus string
}

// plan returns a sealed plan of n clusters.
func (s *planSuite) plan(build string, level, n int) *levels.Plan {
	p := &levels.Plan{Corpus: s.corpus, Build: build, Level: level, Recipe: "recipe", Generation: 2, Scope: tree.ScopeCorpus, NodesIn: 6 * n}
	for i := range n {
		c := levels.Cluster{DocumentID: tree.CorpusTree, Tokens: 600 + i, NLeaves: 6}
		for j := range 6 {
			c.Children = append(c.Children, tree.LeafID(s.corpus, "d", 6*i+j, "text"))
		}
		c.ID = tree.LeafID(s.corpus, fmt.Sprint("cluster of ", build, level), i, "text")
		p.Clusters = append(p.Clusters, c)
	}
	p.Seal()
	return p
}

func (s *planSuite) same(what string, got, want any) {
	s.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (s *planSuite) ok(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *planSuite) missing(level tree.Level) {
	s.Helper()
	if _, err := s.plans.Plan(s.Context(), level); !errors.Is(err, levels.ErrNotFound) {
		s.Errorf("Plan of %v: %v, want ErrNotFound", level, err)
	}
}

func (s *planSuite) has(want *levels.Plan) {
	s.Helper()
	got, err := s.plans.Plan(s.Context(), want.Of())
	s.ok("Plan", err)
	if reflect.DeepEqual(got, want) {
		return // finding the differences of large plans takes seconds, even if there are none
	}
	s.same(fmt.Sprintf("plan of %v", want.Of()), got, want)
}

var planTests = []struct {
	name string
	run  func(*planSuite)
}{
	{"RoundTrip", func(s *planSuite) {
		s.missing(tree.Level{Corpus: s.corpus, Build: "b1", Level: 1})
		p := s.plan("b1", 1, 7)
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), p))
		s.has(p)
		s.missing(tree.Level{Corpus: s.corpus, Build: "b1", Level: 2})
		s.missing(tree.Level{Corpus: s.corpus, Build: "b2", Level: 1})
		s.missing(tree.Level{Corpus: s.corpus + "-other", Build: "b1", Level: 1})
	}},
	{"PlanWithoutClusters", func(s *planSuite) {
		p := s.plan("b1", 3, 0)
		p.Stopped = "a further level would not be smaller"
		p.Seal()
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), p))
		s.has(p)
	}},
	{"LargePlan", func(s *planSuite) { // larger than a message of the queue
		p := s.plan("b1", 1, 12_000)
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), p))
		s.has(p)
	}},
	{"Replace", func(s *planSuite) {
		old, p := s.plan("b1", 1, 9), s.plan("b1", 1, 4)
		for _, put := range []*levels.Plan{old, p, p} {
			s.ok("PutPlan", s.plans.PutPlan(s.Context(), put))
			s.has(put)
		}
	}},
	{"DigestThatDoesNotAgree", func(s *planSuite) {
		p := s.plan("b1", 1, 3)
		p.Clusters[1].Tokens++
		if err := s.plans.PutPlan(s.Context(), p); err != nil {
			return // refusing it is as good
		}
		if _, err := s.plans.Plan(s.Context(), p.Of()); err == nil || errors.Is(err, levels.ErrNotFound) {
			s.Errorf("Plan: %v, want an error about its digest", err)
		}
	}},
	{"DropPlans", func(s *planSuite) {
		a, b, other := s.plan("b1", 1, 2), s.plan("b1", 2, 2), s.plan("b10", 1, 2)
		for _, p := range []*levels.Plan{a, b, other} {
			s.ok("PutPlan", s.plans.PutPlan(s.Context(), p))
		}
		for range 2 { // one that doesn't exist is no error
			s.ok("DropPlans", s.plans.DropPlans(s.Context(), s.corpus, "b1"))
			s.missing(a.Of())
			s.missing(b.Of())
			s.has(other)
		}
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), a))
		s.has(a)
	}},
	{"OddNames", func(s *planSuite) {
		s.corpus += " with / space.and>signs*"
		p := s.plan("b1", 1, 2)
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), p))
		s.has(p)
		s.ok("DropPlans", s.plans.DropPlans(s.Context(), s.corpus, "b1"))
		s.missing(p.Of())
	}},
	{"Tree", func(s *planSuite) {
		if _, err := s.plans.Tree(s.Context(), s.corpus); !errors.Is(err, levels.ErrNotFound) {
			s.Errorf("Tree: %v, want ErrNotFound", err)
		}
		for generation := range 3 {
			want := &levels.Corpus{Name: s.corpus, Embedder: "lexical", Width: 256, Changes: 12, Generation: generation, Epoch: 5,
				Baseline: &levels.Baseline{Leaves: 3, Changes: 4}, Settings: &levels.Settings{Scope: tree.ScopeCorpus, All: map[string]string{"a": "b"}}}
			s.ok("PutTree", s.plans.PutTree(s.Context(), want))
			got, err := s.plans.Tree(s.Context(), s.corpus)
			s.ok("Tree", err)
			s.same("tree", got, want)
		}
		s.ok("DropPlans", s.plans.DropPlans(s.Context(), s.corpus, "b1"))
		_, err := s.plans.Tree(s.Context(), s.corpus)
		s.ok("Tree after the plans were dropped", err)
	}},
	{"OlderCopiesTakeNoPlace", func(s *planSuite) {
		newer, older := &levels.Corpus{Name: s.corpus, Generation: 2, Version: 9}, &levels.Corpus{Name: s.corpus, Generation: 1, Version: 8}
		for _, c := range []*levels.Corpus{older, newer, older} {
			s.ok("PutTree", s.plans.PutTree(s.Context(), c))
		}
		record, err := s.plans.Tree(s.Context(), s.corpus)
		s.ok("Tree", err)
		s.same("record", record, newer)
		state := func(build string, epoch, version int64) *levels.State {
			return &levels.State{Corpus: s.corpus, Build: build, Epoch: epoch, Version: version}
		}
		last := state("b2", 4, 2)
		for _, st := range []*levels.State{state("b1", 3, 7), state("b2", 4, 1), last, state("b2", 4, 1), state("b1", 3, 8)} {
			s.ok("PutState", s.plans.PutState(s.Context(), st))
		}
		got, err := s.plans.State(s.Context(), s.corpus)
		s.ok("State", err)
		s.same("state", got, last)
		s.ok("DropTree", s.plans.DropTree(s.Context(), s.corpus))
		s.ok("PutTree after that", s.plans.PutTree(s.Context(), older))
		record, err = s.plans.Tree(s.Context(), s.corpus)
		s.ok("Tree", err)
		s.same("record after a drop", record, older)
	}},
	{"TreesAndStates", func(s *planSuite) {
		listed := func() bool {
			names, err := s.plans.Trees(s.Context())
			s.ok("Trees", err)
			if !slices.IsSorted(names) {
				s.Errorf("Trees: %q are not in order", names)
			}
			return slices.Contains(names, s.corpus)
		}
		if _, err := s.plans.State(s.Context(), s.corpus); !errors.Is(err, levels.ErrNotFound) {
			s.Errorf("State: %v, want ErrNotFound", err)
		}
		if listed() {
			s.Error("a corpus is listed that has no tree record")
		}
		for _, build := range []string{"b1", "b1", "b2"} {
			want := &levels.State{Corpus: s.corpus, Build: build, Generation: 3, Status: levels.Running, Epoch: 9,
				Levels: []levels.Level{{Level: 1, Phase: levels.Open, Total: 12}}}
			s.ok("PutState", s.plans.PutState(s.Context(), want))
			got, err := s.plans.State(s.Context(), s.corpus)
			s.ok("State", err)
			s.same("state", got, want)
		}
		if listed() {
			s.Error("a corpus is listed that has a state only")
		}
		s.ok("PutTree", s.plans.PutTree(s.Context(), &levels.Corpus{Name: s.corpus}))
		if !listed() {
			s.Error("a corpus with a tree record is not listed")
		}
		for range 2 { // one that is gone is no error
			s.ok("DropTree", s.plans.DropTree(s.Context(), s.corpus))
			_, treeErr := s.plans.Tree(s.Context(), s.corpus)
			_, stateErr := s.plans.State(s.Context(), s.corpus)
			if !errors.Is(treeErr, levels.ErrNotFound) || !errors.Is(stateErr, levels.ErrNotFound) || listed() {
				s.Errorf("after DropTree: %v and %v, want ErrNotFound", treeErr, stateErr)
			}
		}
	}},
	{"ReadersNeverSeeHalf", func(s *planSuite) {
		versions := []*levels.Plan{s.plan("b1", 1, 300), s.plan("b1", 1, 3)}
		s.ok("PutPlan", s.plans.PutPlan(s.Context(), versions[0]))
		var wg sync.WaitGroup
		errs := make([]error, 3)
		wg.Go(func() {
			for i := range 20 {
				if err := s.plans.PutPlan(context.Background(), versions[i%2]); err != nil {
					errs[0] = err
				}
			}
		})
		for r := range 2 {
			wg.Go(func() {
				for range 20 {
					p, err := s.plans.Plan(context.Background(), versions[0].Of())
					if err == nil && p.Digest != versions[0].Digest && p.Digest != versions[1].Digest {
						err = fmt.Errorf("a plan of %d clusters was never put", len(p.Clusters))
					}
					if err != nil {
						errs[r+1] = err
					}
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				s.Error(err)
			}
		}
	}},
}
