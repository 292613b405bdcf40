package coordinator_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// paused returns a system whose build was interrupted after some calls, and the build's level 1.
func paused(t *testing.T) (*system, tree.Level) {
	t.Helper()
	s := newSystem(t)
	s.addLeaves("a", 60)
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	s.slots = 1
	level := tree.Level{Corpus: corpusName, Level: 1}
	s.endpoint.hold = func(context.Context) error {
		if s.endpoint.total() < 4 {
			return nil
		}
		for s.queued(level) < 2 { // the coordinator may still be queuing them, and one of them is in hand
			runtime.Gosched()
		}
		interrupt()
		return nil
	}
	report, err := s.process(&killSwitch{}).run(ctx, coordinator.Request{Began: func(id string) { level.Build = id }})
	if err != nil || report.Outcome != api.OutcomePaused {
		t.Fatalf("%+v, %v", report, err)
	}
	s.endpoint.hold = nil
	return s, level
}

func (s *system) queued(level tree.Level) int {
	s.t.Helper()
	ids, err := s.queue.Queued(context.Background(), level)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(ids)
}

// otherRuns records that a build of another corpus runs.
func (s *system) otherRuns() {
	s.t.Helper()
	ctx := context.Background()
	lease, err := s.records.Acquire(ctx, "other", levels.RightBuild, "another process", time.Hour, 0)
	if err == nil {
		err = s.records.Corpora().Update(ctx, "other", func(*levels.Corpus) error { return nil })
	}
	if err == nil {
		err = s.records.Save(ctx, lease, &levels.State{Corpus: "other", Build: "theirs", Status: levels.Running})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Tasks of a build that rests stay queued while nothing else runs, and make way when something does: workers would give
// them back without end, and they would fill the number of tasks that may be in hand.
func TestRestingBuildMakesWay(t *testing.T) {
	s, level := paused(t)
	if got := s.queued(level); got == 0 {
		t.Fatal("no task of the paused build is queued")
	}
	s.otherRuns()
	theirs := queuetest.Tasks("other", "theirs", 1, 3)
	if err := s.queue.Publish(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	s.endpoint.hold = func(context.Context) error { interrupt(); return nil }
	report, err := s.process(&killSwitch{}).run(ctx, coordinator.Request{})
	if err != nil || report.Outcome != api.OutcomePaused {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := s.queued(level); got != 0 {
		t.Errorf("%d tasks of the build that rests are queued while another runs", got)
	}
	if got := s.queued(tree.Level{Corpus: "other", Build: "theirs", Level: 1}); got != 3 {
		t.Errorf("%d tasks of the build that runs are queued, want 3", got)
	}
	s.endpoint.hold = nil
	before := s.endpoint.total()
	if report = s.build(coordinator.Request{}); report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v", report)
	}
	if got := s.endpoint.total(); got > 15+s.slots {
		t.Errorf("%d calls were paid for, %d of them before; at most %d", got, before, 15+s.slots)
	}
}

// A build that was cancelled leaves nothing in the queue.
func TestCancelledBuildLeavesNoTask(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.slots = 1
	build := ""
	s.endpoint.hold = func(ctx context.Context) error {
		if s.endpoint.total() == 3 {
			return s.records.RequestStop(ctx, corpusName, build, levels.Stop{Status: levels.Cancelled, Cause: levels.CauseAsked, Sentence: "asked for"})
		}
		return nil
	}
	report, err := s.process(&killSwitch{}).run(context.Background(), coordinator.Request{Began: func(id string) { build = id }})
	if err != nil || report.Outcome != api.OutcomeCancelled {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := s.queued(tree.Level{Corpus: corpusName, Build: build, Level: 1}); got != 0 {
		t.Errorf("%d tasks of the cancelled build are queued", got)
	}
}
