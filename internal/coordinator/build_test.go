package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestBuild: 60 leaves in fives are 12 summaries, those in fives 3, and 3 make no level.
func TestBuild(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 40)
	s.addLeaves("b", 20)
	report := s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeBuilt || report.Generation != 1 || report.Calls != 15 || len(report.Levels) != 2 {
		t.Fatalf("%+v", report)
	}
	if report.Levels[0].NodesIn != 60 || report.Levels[0].NodesOut != 12 || report.Levels[1].NodesOut != 3 {
		t.Errorf("levels: %+v", report.Levels)
	}
	if report.StoppedBecause != "3 nodes, build.min_chunks is 4: on every level, fewer get no summaries above them" {
		t.Errorf("stopped because %q", report.StoppedBecause)
	}
	if got := s.endpoint.total(); got != 15 {
		t.Errorf("%d calls were paid for, want 15", got)
	}
	top := s.summaries(2)
	leaves := 0
	for _, n := range top {
		leaves += n.NLeaves
		if n.DocumentID != tree.CorpusTree || n.Scope != tree.ScopeCorpus {
			t.Errorf("summary %s is filed under %q, scope %q", n.ID, n.DocumentID, n.Scope)
		}
	}
	if len(top) != 3 || leaves != 60 {
		t.Errorf("level 2 has %d nodes over %d leaves, want 3 over 60", len(top), leaves)
	}
}

func (s *system) summaries(level int) []tree.Node {
	s.t.Helper()
	var nodes []tree.Node
	filter := store.Filter{MinLevel: level, MaxLevel: level}
	err := s.nodes.Each(context.Background(), corpusName, filter, store.Fields{Text: true}, func(n *tree.Node) error {
		nodes = append(nodes, *n)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// TestBuildTwice: the second does nothing, by force it makes no call, and a restart starts nothing.
func TestBuildTwice(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.build(coordinator.Request{})
	before, paid := s.visible(), s.endpoint.total()
	if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeNothingToDo {
		t.Errorf("second build: %+v", report)
	}
	report := s.build(coordinator.Request{Force: true})
	if report.Outcome != api.OutcomeBuilt || report.Calls != 0 || report.Reused != 15 || report.Generation != 2 {
		t.Errorf("forced build: %+v", report)
	}
	if got := s.endpoint.total(); got != paid {
		t.Errorf("%d calls were paid for again", got-paid)
	}
	if diff := cmp.Diff(before, s.visible()); diff != "" {
		t.Errorf("a forced build of the same corpus is another tree:\n%s", diff)
	}
}

// TestKilledAtEveryCall kills the process at each of its calls in turn, once before and once after the effect, and
// lets the next process go on. FAULTS: restarts that redo paid work; lost replies; a barrier lost with its callback.
func TestKilledAtEveryCall(t *testing.T) {
	want := newSystem(t)
	want.addLeaves("a", 60)
	counting := &killSwitch{}
	if _, err := want.process(counting).run(context.Background(), coordinator.Request{}); err != nil {
		t.Fatal(err)
	}
	tree, undisturbed := want.visible(), want.endpoint.total()
	for at := 1; at <= counting.calls; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%t", at, after), func(t *testing.T) {
				s := newSystem(t)
				s.addLeaves("a", 60)
				kill := &killSwitch{at: at, after: after}
				_, _ = s.process(kill).run(context.Background(), coordinator.Request{})
				s.queue.Restart()
				s.checkEquation()
				report := s.build(coordinator.Request{})
				if o := report.Outcome; o != api.OutcomeBuilt && o != api.OutcomeNothingToDo {
					t.Fatalf("%+v", report)
				}
				if diff := cmp.Diff(tree, s.visible()); diff != "" {
					t.Errorf("another tree than undisturbed:\n%s", diff)
				}
				if most := undisturbed + s.slots; s.endpoint.total() > most {
					t.Errorf("%d calls were paid for, at most %d", s.endpoint.total(), most)
				}
			})
		}
	}
}

// TestGrowth: a build is due when the corpus has changed by a tenth since the last published build.
func TestGrowth(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.build(coordinator.Request{})
	s.addLeaves("b", 5)
	if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeNothingToDo {
		t.Errorf("after 8 %% growth: %+v", report)
	}
	s.addLeaves("c", 1)
	paid := s.endpoint.total()
	report := s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeBuilt || report.Levels[0].Reused != 12 {
		t.Errorf("after 10 %% growth: %+v", report)
	}
	// The first 60 of 66 leaves are in the same fives as before: two clusters of level 1 are new, and of level 2 the
	// one that holds them.
	if got := s.endpoint.total() - paid; got != 3 || report.Calls != 3 {
		t.Errorf("%d calls were paid for, %d reported, want 3", got, report.Calls)
	}
}

// TestFailedBuildKeepsBaseline: a build that doesn't publish leaves the old generation and the baseline alone.
func TestFailedBuildKeepsBaseline(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.build(coordinator.Request{})
	before := s.visible()
	s.addLeaves("b", 20)
	s.endpoint.fail = func(string) error { return queue.Permanent("refused", errors.New("I can't help with that")) }
	report := s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeDegraded || len(report.Buried) == 0 {
		t.Fatalf("%+v", report)
	}
	record, err := s.records.Corpora().Load(context.Background(), corpusName)
	if err != nil {
		t.Fatal(err)
	}
	if record.Generation != 1 || record.Baseline.Leaves != 60 {
		t.Errorf("generation %d, baseline %+v", record.Generation, record.Baseline)
	}
	for id := range before {
		if _, ok := s.visible()[id]; !ok {
			t.Errorf("node %s of generation 1 has vanished", id)
		}
	}
}

// TestRetryFinishesDegraded: buried tasks run again on request, and only those.
// FAULTS: infiniflow/ragflow 13902, 4126.
func TestRetryFinishesDegraded(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.endpoint.fail = func(input string) error {
		if strings.Contains(input, "sentence 7|") {
			return queue.Permanent("refused", errors.New("I can't help with that"))
		}
		return nil
	}
	report := s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeDegraded || len(report.Buried) != 1 || report.Buried[0].Cause != "refused" {
		t.Fatalf("%+v", report)
	}
	if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeDegraded {
		t.Errorf("building again without a change: %+v", report)
	}
	s.endpoint.fail = nil
	if report := s.build(coordinator.Request{Retry: true, RetryCause: "cut_off"}); report.Outcome != api.OutcomeNothingToDo {
		t.Errorf("retry of another cause: %+v", report)
	}
	report = s.build(coordinator.Request{Retry: true, RetryCause: "refused"})
	if report.Outcome != api.OutcomeBuilt || report.Calls != 15 {
		t.Errorf("retry: %+v", report)
	}
	if got := s.endpoint.total(); got != 15 {
		t.Errorf("%d calls were paid for, want 15", got)
	}
}

// TestInterrupt: when the caller's context ends the build is paused with all that was paid, and goes on later.
func TestInterrupt(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	ctx, interrupt := context.WithCancel(context.Background())
	calls := 0
	s.slots = 1
	s.endpoint.hold = func(context.Context) error {
		if calls++; calls == 5 {
			interrupt()
		}
		return nil
	}
	report, err := s.process(&killSwitch{}).run(ctx, coordinator.Request{})
	if err != nil || report.Outcome != api.OutcomePaused || report.Why != "interrupted" {
		t.Fatalf("%+v, %v", report, err)
	}
	s.checkEquation()
	s.endpoint.hold = nil
	report = s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v", report)
	}
	if got := s.endpoint.total(); got > 16 {
		t.Errorf("%d calls were paid for, at most 16", got)
	}
}

// TestChangedSettingsStartAnew: an unfinished build isn't resumed under other settings.
func TestChangedSettingsStartAnew(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.endpoint.fail = func(string) error { return queue.Permanent("refused", errors.New("no")) }
	first := s.build(coordinator.Request{})
	s.endpoint.fail, s.recipe = nil, "another"
	second := s.build(coordinator.Request{})
	if second.Outcome != api.OutcomeBuilt || second.Build == first.Build {
		t.Errorf("%+v", second)
	}
}

// TestScopes: trees for each document cross none, and switching leaves nothing of the other scope.
// FAULTS: infiniflow/ragflow 10833.
func TestScopes(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 30)
	s.addLeaves("b", 7)
	s.addLeaves("tiny", 2)
	s.rule.Scope = tree.ScopeDocument
	if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v", report)
	}
	perDocument := map[string]int{}
	for _, n := range s.summaries(1) {
		perDocument[n.DocumentID]++
		children, err := s.nodes.Get(context.Background(), corpusName, n.Children, store.Fields{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range children {
			if c.DocumentID != n.DocumentID {
				t.Errorf("summary of %s has a leaf of %s", n.DocumentID, c.DocumentID)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 6, "b": 2}, perDocument); diff != "" {
		t.Errorf("summaries by document:\n%s", diff)
	}
	paid := s.endpoint.total()
	s.addLeaves("b", 7) // the same leaves: nothing new, but counted as change
	s.addLeaves("d", 10)
	if report := s.build(coordinator.Request{}); report.Calls != 2 || report.Outcome != api.OutcomeBuilt {
		t.Errorf("a document more: %+v", report)
	}
	if got := s.endpoint.total() - paid; got != 2 {
		t.Errorf("a document of 10 leaves cost %d calls, want 2", got)
	}
	s.rule.Scope = tree.ScopeCorpus
	if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeBuilt {
		t.Fatalf("asked for another scope: %+v", report)
	}
	for level := 1; level < 4; level++ {
		for _, n := range s.summaries(level) {
			if n.Scope != tree.ScopeCorpus {
				t.Errorf("summary %s of scope %s is still there", n.ID, n.Scope)
			}
		}
	}
}

// TestTinyCorpora: FAULTS, tiny and degenerate inputs: no error, a reason, and a second build does nothing.
func TestTinyCorpora(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newSystem(t)
			s.addLeaves("a", n)
			report := s.build(coordinator.Request{})
			want := api.OutcomeBuilt
			if n == 0 {
				want = api.OutcomeNothingToDo
			}
			if report.Outcome != want || (n > 0 && report.StoppedBecause == "") {
				t.Errorf("%+v", report)
			}
			if report := s.build(coordinator.Request{}); report.Outcome != api.OutcomeNothingToDo {
				t.Errorf("again: %+v", report)
			}
		})
	}
}

// TestDeletedDocument: the next build has no summary of it.
func TestDeletedDocument(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 30)
	s.addLeaves("b", 30)
	s.build(coordinator.Request{})
	var gone []tree.ID
	err := s.nodes.Each(context.Background(), corpusName, store.Leaves().OfDocument("b"), store.Fields{}, func(n *tree.Node) error {
		gone = append(gone, n.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.nodes.SetLife(context.Background(), corpusName, gone, 0, tree.Deleted); err != nil {
		t.Fatal(err)
	}
	s.changed(30)
	report := s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeBuilt || report.Levels[0].NodesIn != 30 {
		t.Fatalf("%+v", report)
	}
	exists := make(map[tree.ID]bool)
	err = s.nodes.Each(context.Background(), corpusName, store.AnyLevel(), store.Fields{}, func(n *tree.Node) error {
		exists[n.ID] = true
		for _, c := range n.Children {
			if !exists[c] {
				t.Errorf("node %s has a child that doesn't exist", n.ID)
			}
		}
		if n.DocumentID == "b" {
			t.Errorf("leaf %s of the deleted document is still there", n.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLostPlans: without its plans a build makes them again, and pays nothing twice.
func TestLostPlans(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	ctx, interrupt := context.WithCancel(context.Background())
	s.endpoint.hold = func(context.Context) error {
		if s.endpoint.total() == 8 {
			interrupt()
		}
		return nil
	}
	report, err := s.process(&killSwitch{}).run(ctx, coordinator.Request{})
	if err != nil || report.Outcome != api.OutcomePaused {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := s.records.DropPlans(context.Background(), corpusName, report.Build); err != nil {
		t.Fatal(err)
	}
	s.endpoint.hold = nil
	report = s.build(coordinator.Request{})
	if report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v", report)
	}
	if got := s.endpoint.total(); got > 15+s.slots {
		t.Errorf("%d calls were paid for, at most %d", got, 15+s.slots)
	}
}

// TestHeld: one coordinator at a time.
func TestHeld(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	entered, leave := make(chan struct{}), make(chan struct{})
	first := true
	s.slots = 1
	s.endpoint.hold = func(context.Context) error {
		if first {
			first = false
			close(entered)
			<-leave
		}
		return nil
	}
	done := make(chan api.BuildReport)
	go func() {
		report, _ := s.process(&killSwitch{}).run(context.Background(), coordinator.Request{})
		done <- report
	}()
	<-entered
	if _, err := s.process(&killSwitch{}).run(context.Background(), coordinator.Request{}); !errors.Is(err, levels.ErrHeld) {
		t.Errorf("a second coordinator: %v", err)
	}
	close(leave)
	if report := <-done; report.Outcome != api.OutcomeBuilt {
		t.Errorf("the first: %+v", report)
	}
}
