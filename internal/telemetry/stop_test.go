package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// stopped is one way to bring a build to rest, and the code that the command line leaves with.
type stopped struct {
	stop levels.Stop
	// refuse is what the worker's calls end with.
	refuse error
	// during is called once a call is under way, and may end the build's context; nil lets the build come to rest by itself.
	during func(r *rig, build string, interrupt func()) error
	// build, if not nil, replaces building with the rig's coordinator.
	build func(r *rig) (api.BuildReport, error)
	exit  int
}

func asked(status levels.Status) func(*rig, string, func()) error {
	return func(r *rig, build string, _ func()) error {
		wish := levels.Stop{Status: status, Cause: levels.CauseAsked, Sentence: "no word of it matters"}
		return r.deps.Builds.RequestStop(context.Background(), corpusName, build, wish)
	}
}

// keeper keeps the last state of each build that was saved.
type keeper struct {
	levels.Builds
	saved map[string]levels.State
}

func (k *keeper) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	k.saved[state.Build] = *state
	return k.Builds.Save(ctx, lease, state)
}

// superseded begins a build that nobody goes on with, lets a coordinator that is configured differently meet it, and reports what
// became of the first.
func superseded(r *rig, req coordinator.Request) (api.BuildReport, error) {
	first, err := r.coord.Build(r.t.Context(), coordinator.Request{Force: true, Trigger: "test", Detach: true})
	r.must(err)
	cfg, deps, kept := r.cfg, r.deps, &keeper{r.deps.Builds, map[string]levels.State{}}
	cfg.MaxDepth++
	deps.Builds = kept
	other, err := coordinator.New(cfg, deps)
	r.must(err)
	_, err = other.Build(r.t.Context(), req)
	last := kept.saved[first.Build]
	return r.coord.ReportOf(&last), err
}

var allStops = []stopped{
	{stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseBudget}, refuse: fmt.Errorf("%w: 7 of 8", llm.ErrBudget), exit: api.ExitBudget},
	{stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseUnreachable}, refuse: &llm.Error{Kind: llm.Unreachable}, exit: api.ExitUnreachable},
	{stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseFull}, refuse: &space.FullError{Where: "a disk", Free: "make room on it", Err: syscall.EDQUOT}, exit: api.ExitUnreachable},
	{stop: levels.Stop{Status: levels.Failed, Cause: levels.CauseAuth}, refuse: &llm.Error{Kind: llm.Auth}, exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Failed, Cause: levels.CauseQuota}, refuse: &llm.Error{Kind: llm.Quota}, exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Degraded, Cause: levels.CauseBuried}, refuse: &llm.Error{Kind: llm.BadAnswer, Reason: llm.Empty}, exit: api.ExitLeftOut},
	{stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked}, during: asked(levels.Paused), exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Cancelled, Cause: levels.CauseAsked}, during: asked(levels.Cancelled), exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseInterrupted}, during: func(_ *rig, _ string, interrupt func()) error { interrupt(); return nil }, exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Failed, Cause: levels.CauseError}, build: func(r *rig) (api.BuildReport, error) {
		deps := r.deps
		deps.Cluster = func(context.Context, clustering.Config, clustering.Input) (clustering.Result, error) {
			return clustering.Result{}, errors.New("over budget: only words") // which mean nothing
		}
		coord, err := coordinator.New(r.cfg, deps)
		r.must(err)
		return coord.Build(r.t.Context(), coordinator.Request{Trigger: "test"})
	}, exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Cancelled, Cause: levels.CauseReplaced}, build: func(r *rig) (api.BuildReport, error) {
		return superseded(r, coordinator.Request{Force: true, Trigger: "test", Detach: true})
	}, exit: api.ExitFailed},
	{stop: levels.Stop{Status: levels.Cancelled, Cause: levels.CauseSettings}, build: func(r *rig) (api.BuildReport, error) {
		r.must(r.db.Corpora().Update(r.t.Context(), corpusName, func(c *levels.Corpus) error {
			c.Generation = 1 // of an unknown baseline, so that nothing is due
			return nil
		}))
		return superseded(r, coordinator.Request{Trigger: coordinator.TriggerResumed})
	}, exit: api.ExitFailed},
}

// TestEveryCause drives every cause of a rest from what brings it about, through worker and coordinator, to the record, the exit code
// and the metric. A cause that is added to levels must be added here.
func TestEveryCause(t *testing.T) {
	driven := map[levels.Stop]bool{}
	for _, c := range allStops {
		driven[c.stop] = true
		t.Run(fmt.Sprintf("%s because of %s", c.stop.Status, c.stop.Cause), func(t *testing.T) {
			entered := make(chan struct{})
			var once sync.Once
			r := newRig(t, rigConfig{refuse: func() error {
				once.Do(func() { close(entered) })
				if c.during != nil {
					return &llm.Error{Kind: llm.Throttled} // given back until the build rests
				}
				return c.refuse
			}})
			report := c.run(r, entered)
			if got := report.Stop(); got.Status != c.stop.Status || got.Cause != c.stop.Cause || got.Sentence == "" {
				t.Errorf("the report says %+v, want %+v", got, c.stop)
			}
			if got := api.ExitOf(report); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
			got := r.gather().at(t, telemetry.Builds, "cause="+string(c.stop.Cause), "corpus="+corpusName, "outcome="+string(report.Outcome))
			if got != 1 {
				t.Errorf("%v builds are counted under the cause, want 1", got)
			}
		})
	}
	for _, stop := range levels.Causes() {
		if !driven[stop] {
			t.Errorf("%s because of %s is driven by no row", stop.Status, stop.Cause)
		}
	}
}

// run brings a build to rest, and reads its cause back from the record.
func (c stopped) run(r *rig, entered chan struct{}) api.BuildReport {
	if c.build != nil {
		report, err := c.build(r)
		r.must(err)
		return report
	}
	work, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer func() { stop(); working.Wait() }()
	working.Go(func() { _ = r.work.Run(work) }) // returns nil by its contract
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if c.during != nil {
		working.Go(func() {
			<-entered
			state, err := r.db.Builds().Load(work, corpusName)
			if err == nil {
				err = c.during(r, state.Build, cancel)
			}
			if err != nil {
				r.t.Error(err)
				cancel()
			}
		})
	}
	_, err := r.coord.Build(ctx, coordinator.Request{Trigger: "test"})
	r.must(err)
	state, err := r.db.Builds().Load(r.t.Context(), corpusName)
	r.must(err)
	return r.coord.ReportOf(state)
}
