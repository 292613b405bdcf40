package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// watched is one corpus, "c", with its watchers and a clock that the test sets.
type watched struct {
	t       *testing.T
	now     time.Time
	nodes   *storetest.Memory
	records *leveltest.Memory
	started []string // triggers
	fails   map[string]error
	wantErr bool
}

func newWatched(t *testing.T) *watched {
	w := &watched{t: t, now: time.Date(2026, 3, 1, 2, 0, 30, 0, time.UTC), nodes: storetest.NewMemory()}
	w.records = leveltest.NewMemoryAt(func() time.Time { return w.now })
	return w
}

// watcher returns one of the watchers, as a process has it.
func (w *watched) watcher(schedule Schedule) *Watcher {
	one := NewWatcher(WatchConfig{Rule: levels.Rule{Threshold: 0.1, Scope: tree.ScopeCorpus, KeepLeaves: true}, Schedule: schedule}, WatchDeps{
		Store: w.nodes, Corpora: w.records.Corpora(), Builds: w.records,
		Start: func(_ context.Context, corpus, trigger string) error {
			if err := w.fails[corpus]; err != nil {
				return err
			}
			w.started = append(w.started, trigger)
			return nil
		},
	})
	one.now = func() time.Time { return w.now }
	return one
}

// looks lets time pass, lets a watcher look, and holds what that starts: "" is nothing.
func (w *watched) looks(one *Watcher, after time.Duration, want string) {
	w.t.Helper()
	w.now, w.started = w.now.Add(after), nil
	if err := one.Look(w.t.Context()); (err != nil) != w.wantErr {
		w.t.Fatal(err)
	}
	if got := strings.Join(w.started, ", "); got != want {
		w.t.Errorf("a look at %s starts %q, want %q", w.now.Format(time.TimeOnly), got, want)
	}
}

// changed counts n leaves as added to a corpus, and adds one, so that it isn't empty.
func (w *watched) changed(corpus string, n int) {
	w.t.Helper()
	text := fmt.Sprint(corpus, w.now)
	leaf := tree.Node{ID: tree.LeafID(corpus, "d", 0, text), DocumentID: "d", Text: text, Tokens: 1, NLeaves: 1, Died: tree.Alive, Vector: []float32{1}}
	if err := w.nodes.Put(w.t.Context(), corpus, []tree.Node{leaf}); err != nil {
		w.t.Fatal(err)
	}
	w.update(corpus, func(c *levels.Corpus) { c.Changes += int64(n) })
}

func (w *watched) update(corpus string, change func(*levels.Corpus)) {
	w.t.Helper()
	if err := w.records.Corpora().Update(w.t.Context(), corpus, func(c *levels.Corpus) error { change(c); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// rests makes a state the newest of the corpus.
func (w *watched) rests(state levels.State) {
	w.t.Helper()
	lease, err := w.records.Acquire(w.t.Context(), "c", levels.RightBuild, "h", time.Minute, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	state.Corpus, state.Updated = "c", w.now
	if state.Build == "" {
		state.Build = "b"
	}
	if err := w.records.Save(w.t.Context(), lease, &state); err != nil {
		w.t.Fatal(err)
	}
	if err := w.records.Release(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
}

// published makes a tree of 100 leaves the current one.
func (w *watched) published() {
	w.update("c", func(c *levels.Corpus) {
		c.Generation, c.Baseline = 1, &levels.Baseline{Leaves: 100, Changes: c.Changes}
		c.Settings = &levels.Settings{Scope: tree.ScopeCorpus, KeepLeaves: true}
	})
	w.rests(levels.State{Status: levels.Built})
}

const growthTrigger = "growth"

// TestGrowthWaitsForQuiet: an ingestion that is under way would be built half and paid for twice.
// Seeds 7: with build.auto false nothing starts by itself, the first build included; what was begun goes on.
func TestNothingStartsByItself(t *testing.T) {
	w := newWatched(t)
	one := w.watcher(nil)
	one.cfg.Rule.Manual = true
	w.changed("c", 100)
	w.looks(one, time.Hour, "")
	w.looks(one, time.Hour, "")
	one.cfg.Schedule = everyMinute{}
	w.looks(one, time.Hour, "")
	one.cfg.Rule.Manual, one.cfg.Schedule = false, nil
	w.looks(one, time.Hour, "growth")
}

func TestGrowthWaitsForQuiet(t *testing.T) {
	w := newWatched(t)
	one := w.watcher(nil)
	w.looks(one, 0, "")
	w.changed("c", 20)
	w.looks(one, 0, "")
	w.looks(one, 9*time.Second, "")
	w.changed("c", 1)
	w.looks(one, time.Second, "")
	w.looks(one, 9*time.Second, "")
	w.looks(one, time.Second, growthTrigger)

	w.published()
	w.changed("c", 9)
	w.looks(one, 0, "")
	w.looks(one, time.Hour, "") // 9 %, and the threshold is 10
	w.changed("c", 1)
	w.looks(one, 0, "")
	w.looks(one, 10*time.Second, growthTrigger)
}

// TestGrowthWaitsAnHourAtMost: a corpus that is never left alone is built all the same. A build that is due no more, or due anew,
// has an hour of its own.
func TestGrowthWaitsAnHourAtMost(t *testing.T) {
	w := newWatched(t)
	one := w.watcher(nil)
	w.changed("c", 1)
	w.looks(one, 0, "")
	for i := range 719 {
		w.changed("c", 1)
		w.looks(one, 5*time.Second, "")
		if t.Failed() {
			t.Fatalf("after %d changes", i)
		}
	}
	w.changed("c", 1)
	w.looks(one, 5*time.Second, growthTrigger)

	w.published()
	w.looks(one, time.Second, "")
	w.changed("c", 50)
	w.looks(one, time.Second, "")
	w.looks(one, 5*time.Second, "")
	w.looks(one, 5*time.Second, growthTrigger)
}

// everyMinute is a schedule.
type everyMinute struct{}

func (everyMinute) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// neverAgain is a schedule of a date that doesn't come.
type neverAgain struct{}

func (neverAgain) Next(time.Time) time.Time { return time.Time{} }

// TestScheduleIsAttendedOnce: of any number of watchers one starts the build of each time; growth starts none in between.
func TestScheduleIsAttendedOnce(t *testing.T) {
	w := newWatched(t)
	a, b := w.watcher(everyMinute{}), w.watcher(everyMinute{})
	w.changed("c", 20)
	w.looks(a, 0, "") // the schedule begins now, at half past
	w.looks(b, 0, "")
	w.looks(a, 29*time.Second, "")
	w.looks(b, time.Second, TriggerSchedule)
	w.looks(a, 0, "")
	w.looks(b, 0, "")
	w.looks(a, 59*time.Second, "") // growth would have started one
	w.looks(a, time.Second, TriggerSchedule)

	w.published()
	w.looks(a, time.Minute, "") // nothing has changed since
	w.changed("c", 1)           // far less than growth needs
	w.looks(a, 30*time.Second, "")
	w.looks(b, 30*time.Second, TriggerSchedule)

	w.changed("c", 50)
	c := w.watcher(neverAgain{})
	w.looks(c, time.Hour, "")
}

// TestScheduleTimesThatWereMissedCountOnce: whoever comes back after a night without coordinators builds once, not once for each time.
func TestScheduleTimesThatWereMissedCountOnce(t *testing.T) {
	w := newWatched(t)
	w.changed("c", 20)
	w.looks(w.watcher(everyMinute{}), 0, "")
	later := w.watcher(everyMinute{})
	w.looks(later, 8*time.Hour, TriggerSchedule)
	w.looks(later, time.Second, "")
	w.looks(later, 20*time.Second, "")
	w.looks(later, time.Minute, TriggerSchedule)
}

// TestTwoAttendAtOnce: both have seen that the time has come, and one is quicker in the record.
func TestTwoAttendAtOnce(t *testing.T) {
	w := newWatched(t)
	w.changed("c", 20)
	one := w.watcher(everyMinute{})
	w.looks(one, 0, "")
	w.now = w.now.Add(time.Minute)
	stale, err := w.records.Corpora().Load(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 { // with the record as both have read it
		trigger, err := one.scheduled(t.Context(), "c", stale)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, trigger)
	}
	if diff := cmp.Diff([]string{TriggerSchedule, ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWhatGoesOnByItself: what another process left unfinished does; what a person stopped, or what cannot succeed, doesn't.
func TestWhatGoesOnByItself(t *testing.T) {
	most, cost := 1000, 0.5
	for _, c := range []struct {
		name  string
		state levels.State
		after time.Duration
		want  []string // of one watcher's looks, a second apart
	}{
		{"running", levels.State{Status: levels.Running}, 0, []string{TriggerResumed, TriggerResumed}},
		{"publishing", levels.State{Status: levels.PublishingTree}, 0, []string{TriggerResumed}},
		{"paused by a person", levels.State{Status: levels.Paused, Cause: levels.CauseAsked}, time.Hour, []string{"", ""}},
		{"interrupted", levels.State{Status: levels.Paused, Cause: levels.CauseInterrupted}, time.Hour, []string{"", ""}},
		{"unreachable", levels.State{Status: levels.Paused, Cause: levels.CauseUnreachable}, 298 * time.Second, []string{"", TriggerResumed}},
		{"failed", levels.State{Status: levels.Failed, Cause: levels.CauseAuth}, time.Hour, []string{TriggerResumed, "", ""}},
		{"over a configured budget", levels.State{Status: levels.Paused, Cause: levels.CauseBudget}, time.Hour, []string{TriggerResumed, "", ""}},
		{"over a budget that was asked for", levels.State{Status: levels.Paused, Cause: levels.CauseBudget, MaxTokens: &most}, time.Hour, []string{"", ""}},
		{"over a cost that was asked for", levels.State{Status: levels.Paused, Cause: levels.CauseBudget, MaxCost: &cost}, time.Hour, []string{"", ""}},
		{"done", levels.State{Status: levels.Built}, time.Hour, []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWatched(t)
			w.changed("c", 20)
			w.published() // nothing is due
			w.rests(c.state)
			one := w.watcher(nil)
			w.now = w.now.Add(c.after)
			for _, want := range c.want {
				w.looks(one, time.Second, want)
			}
		})
	}
}

// TestHeldCorporaAreLeftAlone: somebody works on it.
func TestHeldCorporaAreLeftAlone(t *testing.T) {
	w := newWatched(t)
	w.changed("c", 20)
	w.rests(levels.State{Status: levels.Running})
	one := w.watcher(nil)
	lease, err := w.records.Acquire(t.Context(), "c", levels.RightBuild, "another", 15*time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(one, time.Second, "")
	w.looks(one, 13*time.Second, "")
	w.looks(one, 2*time.Second, TriggerResumed) // its time has run out
	if _, err := w.records.Renew(t.Context(), lease, time.Minute); err == nil {
		w.looks(one, time.Second, "")
	}
}

// TestBuildsThatAreNotBegunAnew: after a build that a person cancelled, that failed or that has buried tasks, another starts by
// itself only once the corpus is another.
func TestBuildsThatAreNotBegunAnew(t *testing.T) {
	for _, c := range []struct {
		status levels.Status
		anew   string // what starts once the corpus has changed
	}{{levels.Cancelled, growthTrigger}, {levels.Degraded, growthTrigger}, {levels.Failed, ""}, {levels.Paused, ""}, {levels.Built, growthTrigger}} {
		t.Run(string(c.status), func(t *testing.T) {
			w := newWatched(t)
			w.changed("c", 20)
			w.published()
			w.changed("c", 30)
			record, err := w.records.Corpora().Load(t.Context(), "c")
			if err != nil {
				t.Fatal(err)
			}
			w.rests(levels.State{Status: c.status, Why: "why", Baseline: levels.Baseline{Leaves: 130, Changes: record.Changes}})
			one := w.watcher(nil)
			if c.status == levels.Failed {
				w.looks(one, time.Second, TriggerResumed) // tried once by each process, and rests again
			}
			same := ""
			if c.status == levels.Built {
				same = growthTrigger // its baseline is in the record, which knows of 30 changes since
			}
			w.looks(one, time.Second, "")
			w.looks(one, 30*time.Minute, same)
			w.changed("c", 1)
			w.looks(one, time.Second, "")
			w.looks(one, 10*time.Second, c.anew)
		})
	}
}

// TestOneCorpusDoesNotKeepTheOthers from being looked at.
func TestOneCorpusDoesNotKeepTheOthers(t *testing.T) {
	w := newWatched(t)
	w.changed("a", 20)
	w.changed("c", 20)
	one := w.watcher(nil)
	w.looks(one, 0, "")
	w.fails, w.wantErr = map[string]error{"a": errors.New("no")}, true
	w.looks(one, 10*time.Second, growthTrigger)
}
