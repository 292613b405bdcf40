//go:build stack

package fleettest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// inHand is how many tasks a worker of four slots has in hand: one more is made ready for the slot that gets free first.
const inHand = 5

// begun starts a build of 60 leaves through a coordinator, and waits until so many calls have come to the endpoint.
func (f *fleet) begun(server *process, calls int) api.Build {
	f.t.Helper()
	f.ingest(server, rows(60))
	b, err := f.client(server).Start(f.t.Context(), f.corpus, api.Start{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.untilCalls(calls)
	return b
}

func (f *fleet) untilCalls(n int) {
	f.t.Helper()
	until(f.t, 30*time.Second, fmt.Sprint(n, " calls were made"), func() (bool, string) {
		got := f.calls.Load()
		return got >= int64(n), fmt.Sprint(got)
	})
}

// untilBuilt waits until the build rests, and holds that it is done, that no attempt has failed, and that the tree is that of an
// undisturbed embedded build.
func (f *fleet) untilBuilt(within time.Duration) *levels.State {
	f.t.Helper()
	state := f.untilRest(within)
	if state.Status != levels.Built || len(state.BuriedCount) > 0 {
		f.t.Fatalf("the build is %s: %s; buried %v", state.Status, state.Why, state.BuriedCount)
	}
	f.checkEquation()
	one := f.alone()
	one.must("ingest", f.jsonl(rows(60)))
	one.must("build")
	if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
		f.t.Errorf("the tree isn't that of an undisturbed build (-undisturbed +fleet):\n%s", diff)
	}
	return state
}

// TestWolverine4039WorkerFinishesWhatItHas: a worker that is told to stop finishes what it has in hand within its grace period,
// settles that, and leaves with 0. No attempt is counted for it, and nothing comes twice.
func TestWolverine4039WorkerFinishesWhatItHas(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 1500 * time.Millisecond}, map[string]string{"queue.ack_wait": "60s", "worker.grace": "20s"})
	server := f.coordinator()
	w := f.worker()
	f.begun(server, 4)
	w.signal(syscall.SIGTERM)
	if code := w.exit(15 * time.Second); code != 0 {
		t.Errorf("the worker left with %d\n%s", code, last(w.said(), 10))
	}
	finished := f.endpoint.Counts().ChatOK
	if finished < 4 || finished > inHand || f.calls.Load() != int64(finished) {
		t.Errorf("%d of %d calls were finished; %d tasks were in hand", finished, f.calls.Load(), inHand)
	}
	until(t, 5*time.Second, "what it has finished is done", func() (bool, string) {
		s := f.status(server)
		return s.Build.Levels[0].Done == finished, fmt.Sprintf("%+v", s.Build.Levels)
	})
	f.endpoint.SetLatency(0)
	f.worker()
	state := f.untilRest(30 * time.Second) // less than the lease of a task: nothing was left in hand
	if n := f.attempts(); n.Failed != 0 || n.Returned != 0 || n.Started != tasksOf(state) {
		t.Errorf("attempts are %+v for %d tasks", n, tasksOf(state))
	}
	if n := f.endpoint.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
	f.untilBuilt(time.Second)
}

// TestKeda6719WorkerGivesBackWhatItCantFinish: when the grace period is over, what is still in hand is given back at once, for
// others to do without waiting for a lease to run out, and no attempt is counted.
func TestKeda6719WorkerGivesBackWhatItCantFinish(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: time.Minute}, map[string]string{"queue.ack_wait": "90s", "worker.grace": "1s"})
	server := f.coordinator()
	w := f.worker()
	f.begun(server, 4)
	f.endpoint.SetLatency(0)
	w.signal(syscall.SIGTERM)
	if code := w.exit(15 * time.Second); code != 0 {
		t.Errorf("the worker left with %d\n%s", code, last(w.said(), 10))
	}
	f.worker()
	state := f.untilRest(30 * time.Second) // less than the lease of a task
	if n := f.attempts(); n.Failed != 0 || n.Returned < 4 || n.Started-n.Returned != tasksOf(state) {
		t.Errorf("attempts are %+v for %d tasks; four were given back", n, tasksOf(state))
	}
	f.untilBuilt(time.Second)
}

// TestCoordinatorHandsOver: the leading coordinator is told to stop. It leaves the build running and lets go of the lease, and the
// other goes on within seconds.
func TestCoordinatorHandsOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 700 * time.Millisecond}, map[string]string{"server.lease": "120s", "build.slots": "2"})
	first, second := f.coordinator(), f.coordinator()
	f.worker()
	b := f.begun(first, 2)
	before, err := f.open().Builds.Holder(t.Context(), f.corpus, levels.RightBuild)
	if err != nil || before == "" {
		t.Fatalf("the lease is held by %q, %v", before, err)
	}
	first.signal(syscall.SIGTERM)
	if code := first.exit(20 * time.Second); code != 0 {
		t.Errorf("the coordinator left with %d\n%s", code, last(first.said(), 10))
	}
	if s := f.state(); s.Build != b.Build || s.Status != levels.Running {
		t.Errorf("build %s is %s after its coordinator has gone; build %s was running", s.Build, s.Status, b.Build)
	}
	until(t, 15*time.Second, "the other coordinator goes on", func() (bool, string) {
		after, err := f.open().Builds.Holder(t.Context(), f.corpus, levels.RightBuild)
		return err == nil && after != "" && after != before, fmt.Sprint(after, err)
	})
	f.untilRest(time.Minute)
	if n := f.endpoint.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
	state := f.untilBuilt(time.Second)
	if state.Build != b.Build {
		t.Errorf("build %s was built, %s had begun", state.Build, b.Build)
	}
	if got := f.status(second); got.Generation != 1 {
		t.Errorf("the other coordinator serves generation %d", got.Generation)
	}
}

// TestRagflow18619KilledWorkersTasksComeBack: a worker is killed in the middle of its calls. Its tasks come to another when their
// leases have run out, and no sooner than that matters: the deaths count apart from failures.
func TestRagflow18619KilledWorkersTasksComeBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: time.Minute}, map[string]string{"queue.ack_wait": "3s"})
	server := f.coordinator()
	w := f.worker()
	f.begun(server, 4)
	f.endpoint.SetLatency(0)
	w.kill()
	f.worker()
	state := f.untilRest(30 * time.Second)
	if n := f.attempts(); n.Failed != 0 || n.Returned != 0 || n.Started < tasksOf(state)+4 || n.Started > tasksOf(state)+inHand {
		t.Errorf("attempts are %+v for %d tasks; four or five died with their worker", n, tasksOf(state))
	}
	f.untilBuilt(time.Second)
}

// TestNats6937PausedWorkerDoesNoHarm: a worker is paused beyond its lease on tasks, others do them, and it comes back. The server
// may take its late acknowledgements; the tree is the same either way (also nats-io/nats-server/issues/4786).
func TestNats6937PausedWorkerDoesNoHarm(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 1500 * time.Millisecond}, map[string]string{"queue.ack_wait": "2s"})
	server := f.coordinator()
	w := f.worker()
	f.begun(server, 4)
	w.signal(syscall.SIGSTOP)
	f.endpoint.SetLatency(300 * time.Millisecond)
	f.worker()
	f.untilCalls(8) // others have its tasks, or at least those beside them
	until(t, 40*time.Second, "the tasks of the paused worker were taken", func() (bool, string) {
		n := f.endpoint.Counts().Repeated
		s := f.state()
		return n >= 1 || s.Resting(), fmt.Sprint(n, s.Status)
	})
	w.signal(syscall.SIGCONT)
	state := f.untilRest(40 * time.Second)
	if n := f.endpoint.Counts().Repeated; n > 4 {
		t.Errorf("%d calls were paid for twice; 4 were in hand", n)
	}
	if n := f.attempts(); n.Failed != 0 {
		t.Errorf("attempts are %+v for %d tasks", n, tasksOf(state))
	}
	f.untilBuilt(time.Second)
}

// TestNats5346ServerIsKilled: NATS is killed in the middle of a build and started again. What it counts of deliveries is not relied
// on: the build finishes, no attempt has failed, and nothing is paid for twice (also nats-io/nats-server/issues/3272 and 6905).
func TestNats5346ServerIsKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 300 * time.Millisecond}, map[string]string{"queue.ack_wait": "3s", "build.slots": "2"})
	server := f.coordinator()
	f.worker()
	f.begun(server, 4)
	if err := f.stack.NATS.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.stack.StartNATS(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := f.untilRest(90 * time.Second)
	if n := f.attempts(); n.Failed != 0 {
		t.Errorf("attempts are %+v for %d tasks", n, tasksOf(state))
	}
	if n := f.endpoint.Counts().Repeated; n > 2 {
		t.Errorf("%d calls were paid for twice; 2 were in hand", n)
	}
	f.untilBuilt(time.Second)
}
