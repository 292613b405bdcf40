package coordinator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// carriedNow returns the carried summaries of a generation that no reader sees yet.
func (s *system) carriedNow(generation int) []tree.Node {
	var out []tree.Node
	err := s.nodes.Each(context.Background(), corpusName, store.Summaries(), store.Fields{Text: true}, func(n *tree.Node) error {
		if n.Carried() && n.Born == generation {
			out = append(out, *n)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *system) lose(ids ...tree.ID) {
	if err := s.nodes.Delete(context.Background(), corpusName, ids); err != nil {
		s.t.Error(err)
	}
}

// TestLostCarriedNodes: carried summaries are gone from the store before the next level is planned, or the tree published. They are
// carried over again, without a call, and the tree is the one that it would have been. If the summary whose text they had is gone too,
// the level is planned again.
func TestLostCarriedNodes(t *testing.T) {
	begun := func() *system {
		s := growing(t)
		s.library()
		s.build(coordinator.Request{})
		for d := range 6 {
			s.write("more"+string(rune('a'+d)), d, span(20, 22)...)
		}
		return s
	}
	grow := func(s *system, at func(step string)) api.BuildReport {
		report := s.build(coordinator.Request{Force: true, Said: at})
		if report.Outcome != api.OutcomeBuilt {
			t.Fatalf("%+v", report)
		}
		if err := s.checkTree(); err != nil {
			t.Error(err)
		}
		return report
	}
	undisturbed := begun()
	want := grow(undisturbed, nil)
	if len(undisturbed.carriedNow(2)) < 3 {
		t.Fatalf("only %d summaries are carried", len(undisturbed.carriedNow(2)))
	}
	for _, when := range []string{"level 1 is complete", "no level "} {
		s, lost := begun(), 0
		got := grow(s, func(step string) {
			if strings.HasPrefix(step, when) {
				for _, n := range s.carriedNow(2) {
					s.lose(n.ID)
					lost++
				}
			}
		})
		if lost == 0 || got.Calls != want.Calls {
			t.Errorf("%s: %d were lost, %d calls, want %d", when, lost, got.Calls, want.Calls)
		}
		if diff := cmp.Diff(undisturbed.nodesByID(), s.nodesByID()); diff != "" {
			t.Errorf("%s: another tree than undisturbed:\n%s", when, diff)
		}

		s, lost = begun(), 0
		grow(s, func(step string) {
			if carried := s.carriedNow(2); strings.HasPrefix(step, when) && lost == 0 {
				lost++
				s.lose(carried[0].ID)
				err := s.nodes.Each(context.Background(), corpusName, store.Summaries().VisibleAt(1), store.Fields{}, func(n *tree.Node) error {
					if n.Writer() == carried[0].Writer() {
						s.lose(n.ID)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		if lost == 0 {
			t.Errorf("%s: nothing was lost", when)
		}
	}
}

// TestLostKeptNode: a summary that was carried over before, and is kept now, is gone. No other text takes its id: the level is planned
// again without it.
func TestLostKeptNode(t *testing.T) {
	for _, when := range []string{"level 1 is complete", "no level "} {
		s := growing(t)
		s.library()
		s.build(coordinator.Request{})
		for d := range 6 {
			s.write("more"+string(rune('a'+d)), d, span(20, 22)...)
		}
		s.mustGrow(coordinator.Request{Force: true})
		carried := s.carriedNow(2)
		s.write("late", 11, span(40, 43)...)
		gone := carried[0].ID
		lost := false
		s.mustGrow(coordinator.Request{Force: true, Said: func(step string) {
			if strings.HasPrefix(step, when) && !lost {
				lost = true
				s.lose(gone)
			}
		}})
		if n := s.nodesByID()[gone]; !lost || n != nil && !n.Carried() {
			t.Errorf("%s: %+v has the id of a carried summary", when, n)
		}
	}
}
