package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// roll rolls back or forward in a process that a switch may kill.
func (s *system) roll(kill *killSwitch, forward bool) (api.Rolled, error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kill.die = cancel
	c, err := coordinator.New(coordinator.Config{
		Corpus: corpusName, Rule: s.rule, MinChunks: 4, Recipe: s.recipe, Holder: fmt.Sprint("process ", holders.Add(1)), LeaseTTL: time.Minute, Keep: 1,
	}, coordinator.Deps{
		Store: &killedStore{s.nodes, kill}, Corpora: &killedCorpora{s.records.Corpora(), kill}, Builds: &killedBuilds{s.records, kill},
		Barrier: &killedBarrier{s.records, kill}, Plans: &killedPlans{s.records, kill}, Queue: &killedQueue{s.queue, kill}, Journal: s.journal,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Rollback(ctx, forward)
}

func (s *system) record() *levels.Corpus {
	s.t.Helper()
	record, err := s.records.Corpora().Load(context.Background(), corpusName)
	if err != nil {
		s.t.Fatal(err)
	}
	return record
}

// twoTrees has been built, has grown, and was built again; it returns what readers see of summaries in the two generations.
func twoTrees(t *testing.T) (s *system, first, second map[tree.ID]*tree.Node) {
	s = growing(t)
	s.keep = 1
	s.library()
	s.build(coordinator.Request{})
	first = s.seenSummaries()
	s.write("more", 2, span(20, 26)...)
	s.write("extra", 7, span(30, 48)...)
	s.build(coordinator.Request{Force: true})
	return s, first, s.seenSummaries()
}

func (s *system) seenSummaries() map[tree.ID]*tree.Node {
	out := s.nodesByID()
	for id, n := range out {
		if n.IsLeaf() {
			delete(out, id)
		}
		n.Born, n.Died = 0, 0
	}
	return out
}

// TestRollback: the tree before comes back in one step and so does the newer one, without a call; nothing starts because of it, gc
// takes neither, and a build by force makes the newer tree again without a call.
func TestRollback(t *testing.T) {
	s, first, second := twoTrees(t)
	paid := s.endpoint.total()
	collect := func() {
		t.Helper()
		if _, err := s.keeper().GC(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if rolled, err := s.roll(&killSwitch{}, false); err != nil || rolled.Generation != 1 || rolled.From != 2 || rolled.Summaries != len(first) {
			t.Fatalf("%+v, %v", rolled, err)
		}
		if diff := cmp.Diff(first, s.seenSummaries()); diff != "" {
			t.Fatalf("after the rollback readers see another tree than before:\n%s", diff)
		}
		collect()
		if d, err := s.keeper().Decide(context.Background()); err != nil || d.Due || !strings.Contains(d.Why, "generation 2 was rolled back to 1") {
			t.Errorf("%+v, %v", d, err)
		}
		var none *coordinator.NoWayError
		if _, err := s.roll(&killSwitch{}, false); !errors.As(err, &none) || !strings.Contains(none.Remedy(), "--forward") {
			t.Errorf("a second rollback: %v", err)
		}
		if rolled, err := s.roll(&killSwitch{}, true); err != nil || rolled.Generation != 2 {
			t.Fatalf("%+v, %v", rolled, err)
		}
		collect()
		if diff := cmp.Diff(second, s.seenSummaries()); diff != "" {
			t.Fatalf("forward again, readers see another tree:\n%s", diff)
		}
	}
	if _, err := s.roll(&killSwitch{}, false); err != nil {
		t.Fatal(err)
	}
	report := s.mustGrow(coordinator.Request{Force: true})
	if report.Outcome != api.OutcomeBuilt || report.Generation != 3 || report.Calls != 0 || s.endpoint.total() != paid {
		t.Errorf("%+v; %d calls, want %d", report, s.endpoint.total(), paid)
	}
	if diff := cmp.Diff(second, s.seenSummaries()); diff != "" {
		t.Errorf("built again, readers see another tree:\n%s", diff)
	}
	// A document more: the tree of the rollback is the one that is kept.
	s.write("late", 4, span(60, 75)...)
	s.mustGrow(coordinator.Request{Force: true})
	if rolled, err := s.roll(&killSwitch{}, false); err != nil || rolled.Generation != 3 {
		t.Fatalf("%+v, %v", rolled, err)
	}
	if diff := cmp.Diff(second, s.seenSummaries()); diff != "" {
		t.Errorf("after the next rollback readers see another tree:\n%s", diff)
	}
}

// keeper is a collector that keeps a tree.
func (s *system) keeper() *coordinator.Coordinator {
	s.t.Helper()
	c, err := coordinator.New(coordinator.Config{
		Corpus: corpusName, Rule: s.rule, MinChunks: 4, Recipe: s.recipe, Holder: fmt.Sprint("keeper ", holders.Add(1)), LeaseTTL: time.Minute, Keep: s.keep,
	}, coordinator.Deps{
		Store: s.nodes, Corpora: s.records.Corpora(), Builds: s.records, Barrier: s.records, Plans: s.records, Queue: s.queue, Journal: s.journal,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestRollbackKilledAtEveryCall: whenever it is killed, readers see one of the two trees, whole; the next one ends it.
func TestRollbackKilledAtEveryCall(t *testing.T) {
	for _, forward := range []bool{false, true} {
		for _, unfinished := range []bool{false, true} {
			begun := func() (s *system, trees [2]map[tree.ID]*tree.Node) {
				s, trees[0], trees[1] = twoTrees(t)
				if forward {
					if _, err := s.roll(&killSwitch{}, false); err != nil {
						t.Fatal(err)
					}
				}
				if unfinished {
					s.write("late", 4, span(60, 75)...)
					_, _ = s.process(&killSwitch{at: 9}).run(context.Background(), coordinator.Request{Force: true})
					s.queue.Restart()
				}
				return s, trees
			}
			s, trees := begun()
			counting := &killSwitch{}
			rolled, err := s.roll(counting, forward)
			if err != nil || (rolled.Cancelled != "") != unfinished {
				t.Fatalf("%+v, %v", rolled, err)
			}
			to := 0
			if forward {
				to = 1
			}
			if diff := cmp.Diff(trees[to], s.seenSummaries()); diff != "" {
				t.Fatal(diff)
			}
			for at := 1; at <= counting.calls; at++ {
				for _, after := range []bool{false, true} {
					s, trees := begun()
					paid := s.endpoint.total()
					_, _ = s.roll(&killSwitch{at: at, after: after}, forward)
					seen := s.seenSummaries()
					if !cmp.Equal(seen, trees[0]) && !cmp.Equal(seen, trees[1]) {
						t.Errorf("killed at call %d (after it: %t), readers see neither tree", at, after)
					}
					if _, err := s.roll(&killSwitch{}, forward); err != nil {
						var done *coordinator.NoWayError
						if !errors.As(err, &done) {
							t.Errorf("killed at call %d (after it: %t): %v", at, after, err)
						}
					}
					if diff := cmp.Diff(trees[to], s.seenSummaries()); diff != "" {
						t.Errorf("killed at call %d (after it: %t):\n%s", at, after, diff)
					}
					if got := s.endpoint.total(); got != paid {
						t.Errorf("killed at call %d (after it: %t): %d calls, want %d", at, after, got, paid)
					}
				}
			}
		}
	}
}

// TestRollbackAfterAKilledSwitch: a build that was killed right after it had switched readers is over, and doesn't come back.
func TestRollbackAfterAKilledSwitch(t *testing.T) {
	begun := func(kill *killSwitch) (*system, map[tree.ID]*tree.Node) {
		s := growing(t)
		s.keep = 1
		s.library()
		s.build(coordinator.Request{})
		first := s.seenSummaries()
		s.write("extra", 7, span(30, 48)...)
		_, _ = s.process(kill).run(context.Background(), coordinator.Request{Force: true})
		s.queue.Restart()
		return s, first
	}
	counting := &killSwitch{}
	begun(counting)
	met := 0
	for at := counting.calls - 12; at <= counting.calls; at++ {
		s, first := begun(&killSwitch{at: at, after: true})
		if s.record().Generation != 2 {
			continue
		}
		met++
		if _, err := s.roll(&killSwitch{}, false); err != nil {
			t.Fatal(err)
		}
		s.build(coordinator.Request{Trigger: coordinator.TriggerResumed})
		if diff := cmp.Diff(first, s.seenSummaries()); diff != "" {
			t.Errorf("killed at call %d, the newer tree is back:\n%s", at, diff)
		}
	}
	if met < 2 {
		t.Errorf("only %d kills came after the switch", met)
	}
}

// TestRollbackBesideABuild: a build that runs keeps the right to switch readers; with build.keep 0 nothing is kept; and a tree of
// which something is gone isn't shown.
func TestRollbackBesideABuild(t *testing.T) {
	s, _, _ := twoTrees(t)
	s.write("late", 4, span(60, 75)...)
	asked := false
	s.mustGrow(coordinator.Request{Force: true, Said: func(string) {
		asked = true
		if _, err := s.roll(&killSwitch{}, false); !errors.Is(err, levels.ErrHeld) {
			t.Errorf("a rollback beside a build: %v", err)
		}
	}})
	if !asked {
		t.Error("the build said nothing")
	}
	dropped := s.dead()
	if len(dropped) == 0 {
		t.Fatal("nothing of the tree before is left")
	}
	if err := s.nodes.Delete(context.Background(), corpusName, dropped[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.roll(&killSwitch{}, false); err == nil || !strings.Contains(err.Error(), "isn't whole") {
		t.Errorf("a tree with a hole: %v", err)
	}
	s.keep = 0
	if _, err := s.keeper().GC(context.Background()); err != nil {
		t.Fatal(err)
	}
	var none *coordinator.NoWayError
	if _, err := s.roll(&killSwitch{}, false); !errors.As(err, &none) || len(s.dead()) != 0 {
		t.Errorf("with build.keep 0: %v, %d summaries are left", err, len(s.dead()))
	}
}

// dead returns the summaries that readers of now don't see.
func (s *system) dead() []tree.ID {
	generation := s.record().Generation
	var ids []tree.ID
	err := s.nodes.Each(context.Background(), corpusName, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
		if !n.VisibleAt(generation) {
			ids = append(ids, n.ID)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// TestRollbackHoldsNoDeletedText: what was deleted is in no text of the tree that is kept either, and a rollback shows the rest of it.
func TestRollbackHoldsNoDeletedText(t *testing.T) {
	s := growing(t)
	s.keep = 1
	s.library()
	s.build(coordinator.Request{})
	s.erase("doc04")
	s.mustGrow(coordinator.Request{Force: true})
	emptied := 0
	err := s.nodes.Each(context.Background(), corpusName, store.AnyLevel(), store.Fields{Text: true}, func(n *tree.Node) error {
		if strings.Contains(" "+n.Text, " 4.") {
			t.Errorf("level %d, born %d, died %d: %q", n.Level, n.Born, n.Died, n.Text)
		}
		if n.Emptied() {
			emptied++
		}
		return nil
	})
	if err != nil || emptied == 0 {
		t.Fatalf("%d summaries were emptied, %v", emptied, err)
	}
	if _, err := s.roll(&killSwitch{}, false); err != nil {
		t.Fatal(err)
	}
	// What was deleted comes again: no summary without a text passes for one.
	s.write("doc04", 4, span(0, 10)...)
	s.mustGrow(coordinator.Request{Force: true})
	for _, n := range s.seenSummaries() {
		if n.Emptied() || n.Text == "" {
			t.Errorf("level %d: node %s has no text", n.Level, n.ID)
		}
	}
}

// TestRollbackGivesWay: a summary of the tree before the last comes back in the next. A life is one span, so that tree can't be kept
// any longer; until then it was whole.
func TestRollbackGivesWay(t *testing.T) {
	s := growing(t)
	s.keep = 1
	s.library()
	s.build(coordinator.Request{})
	first := s.seenSummaries()
	s.write("extra", 7, span(30, 48)...)
	s.build(coordinator.Request{Force: true})
	s.erase("extra")
	counting := &killSwitch{}
	if _, err := s.process(counting).run(context.Background(), coordinator.Request{Force: true, Full: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, s.seenSummaries()); diff != "" {
		t.Fatalf("the summaries of the first tree should be back:\n%s", diff)
	}
	for at := 1; at <= counting.calls; at++ {
		s := growing(t)
		s.keep = 1
		s.library()
		s.build(coordinator.Request{})
		s.write("extra", 7, span(30, 48)...)
		s.build(coordinator.Request{Force: true})
		s.erase("extra")
		_, _ = s.process(&killSwitch{at: at, after: true}).run(context.Background(), coordinator.Request{Force: true, Full: true})
		s.queue.Restart()
		if s.record().Generation != 2 {
			continue
		}
		_, err := s.roll(&killSwitch{}, false)
		var none *coordinator.NoWayError
		switch seen := s.seenSummaries(); {
		case err != nil && !errors.As(err, &none):
			t.Errorf("killed at call %d: %v", at, err)
		case err == nil && len(seen) != len(first):
			t.Errorf("killed at call %d, a rollback shows %d summaries of %d", at, len(seen), len(first))
		}
	}
}

// forget runs coordinator.Forget in a process that a switch may kill.
func (s *system) forget(kill *killSwitch, document string) (coordinator.Forgotten, error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kill.die = cancel
	c, err := coordinator.New(coordinator.Config{
		Corpus: corpusName, Rule: s.rule, MinChunks: 4, Recipe: s.recipe, Holder: fmt.Sprint("process ", holders.Add(1)), LeaseTTL: time.Minute, Keep: 1,
	}, coordinator.Deps{
		Store: &killedStore{s.nodes, kill}, Corpora: &killedCorpora{s.records.Corpora(), kill}, Builds: &killedBuilds{s.records, kill},
		Barrier: &killedBarrier{s.records, kill}, Plans: &killedPlans{s.records, kill}, Queue: &killedQueue{s.queue, kill}, Journal: &killedJournal{s.journal, kill},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	whole := func(nodes store.Store) store.Store { return nodes }
	return c.Forget(ctx, whole, func(ctx context.Context, nodes store.Store) error {
		var ids []tree.ID
		err := nodes.Each(ctx, corpusName, store.Leaves().OfDocument(document), store.Fields{}, func(n *tree.Node) error {
			ids = append(ids, n.ID)
			return nil
		})
		if err != nil {
			return err
		}
		return nodes.Delete(ctx, corpusName, ids)
	})
}

// TestForgetKilledAtEveryCall: whenever it is killed, the same again leaves no text of the document anywhere, the tree keeps its
// shape, and the next build makes what was emptied again, not more.
func TestForgetKilledAtEveryCall(t *testing.T) {
	begun := func(kill *killSwitch) *system {
		s, _, _ := twoTrees(t)
		s.write("late", 4, span(60, 75)...)
		_, _ = s.process(kill).run(context.Background(), coordinator.Request{Force: true})
		s.queue.Restart()
		return s
	}
	deleted := begun(&killSwitch{})
	deleted.erase("doc07")
	want := deleted.mustGrow(coordinator.Request{Force: true})

	s := begun(&killSwitch{})
	before := len(s.seenSummaries())
	counting := &killSwitch{}
	out, err := s.forget(counting, "doc07")
	if err != nil || out.Summaries == 0 || out.Answers == 0 || out.Cancelled != "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if after := len(s.seenSummaries()); after != before {
		t.Errorf("readers see %d summaries, before there were %d", after, before)
	}
	if got := s.mustGrow(coordinator.Request{Force: true}); got.Calls < want.Calls || got.Calls > out.Summaries {
		t.Errorf("the next build makes %d calls, after a deletion it would be %d, and %d texts were taken out", got.Calls, want.Calls, out.Summaries)
	}
	for at := 1; at <= counting.calls; at++ {
		for _, unfinished := range []int{0, 9} {
			s := begun(&killSwitch{at: unfinished})
			_, _ = s.forget(&killSwitch{at: at, after: at%2 == 0}, "doc07")
			if _, err := s.forget(&killSwitch{}, "doc07"); err != nil {
				t.Fatal(err)
			}
			err := s.nodes.Each(context.Background(), corpusName, store.AnyLevel(), store.Fields{Text: true}, func(n *tree.Node) error {
				if n.DocumentID == "doc07" || strings.Contains(" "+n.Text, " 7.1 ") {
					t.Errorf("killed at call %d: level %d, born %d: %q", at, n.Level, n.Born, n.Text)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s.mustGrow(coordinator.Request{Force: true})
		}
	}
}
