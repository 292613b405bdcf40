package leveltest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// RunBuilds holds an implementation to the contract of [levels.Builds].
func RunBuilds(t *testing.T, open func(t *testing.T) Ports) { runAll(t, "builds", buildTests, open) }

// ttl is that of the suite's leases. It is short, since some ports can only wait.
const ttl = 2 * time.Second

func (s *suite) acquire(holder string, floor int64) levels.Lease {
	s.Helper()
	lease, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, holder, ttl, floor)
	s.ok("Acquire by "+holder, err)
	s.same("lease", [2]string{lease.Corpus, lease.Holder}, [2]string{s.corpus, holder})
	return lease
}

// grew checks that a lease's epoch is greater than another's.
func (s *suite) grew(newer, older levels.Lease) {
	s.Helper()
	if newer.Epoch <= older.Epoch {
		s.Errorf("epoch %d follows epoch %d, want a greater one", newer.Epoch, older.Epoch)
	}
}

func (s *suite) state(build string) *levels.State {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	return &levels.State{
		Corpus: s.corpus, Build: build, Generation: 3, Recipe: "recipe", Config: "config",
		Baseline: levels.Baseline{Leaves: 10, Changes: 1 << 40}, Trigger: "“growth” <&>",
		Status: levels.Running, Started: at, Updated: at.Add(time.Minute),
		Levels: []levels.Level{{Level: 1, Phase: levels.Open, Digest: "d", NodesIn: 10, Total: 3, Done: 1, Usage: one, Started: at, Took: time.Second}},
		Buried: []levels.Burial{{Task: "t", Level: 1, Cause: "refused", Error: "no"}}, BuriedCount: map[string]int{"refused": 1},
	}
}

var buildTests = []contractTest{
	{"LeaseIsExclusive", func(s *suite) {
		a := s.acquire("a", 0)
		_, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "b", ttl, 0)
		s.fails("Acquire by b", err, levels.ErrHeld)
		s.ok("Release", s.Builds.Release(s.Context(), a))
		b := s.acquire("b", 0)
		s.grew(b, a)
		_, err = s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "a", ttl, 0)
		s.fails("Acquire by a", err, levels.ErrHeld)
	}},
	{"CorporaAreApart", func(s *suite) {
		s.acquire("a", 0)
		lease, err := s.Builds.Acquire(s.Context(), s.corpus+"-other", levels.RightBuild, "b", ttl, 0)
		s.ok("Acquire for another corpus", err)
		other := s.state("b1")
		other.Corpus = lease.Corpus
		s.ok("Save", s.Builds.Save(s.Context(), lease, other))
		_, err = s.Builds.Load(s.Context(), s.corpus)
		s.fails("Load", err, levels.ErrNotFound)
	}},
	{"RightsAreApart", func(s *suite) {
		build := s.acquire("a", 40)
		documents, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightDocuments, "b", ttl, 0)
		s.ok("Acquire the documents", err)
		s.same("right", documents.Right, levels.RightDocuments)
		s.fails("Save under the right to documents", s.Builds.Save(s.Context(), levels.Lease{
			Corpus: s.corpus, Right: levels.RightBuild, Holder: documents.Holder, Epoch: documents.Epoch}, s.state("b1")), levels.ErrFenced)
		_, err = s.Builds.Acquire(s.Context(), s.corpus, levels.RightDocuments, "c", ttl, 0)
		s.fails("Acquire the documents by c", err, levels.ErrHeld)
		s.ok("Release", s.Builds.Release(s.Context(), build))
		holder, err := s.Builds.Holder(s.Context(), s.corpus, levels.RightDocuments)
		s.ok("Holder", err)
		s.same("holder of the documents", holder, "b")
		s.ok("Check of the documents", s.Builds.Check(s.Context(), documents))
		s.fails("Check of what was released", s.Builds.Check(s.Context(), build), levels.ErrFenced)
	}},
	{"Check", func(s *suite) {
		s.fails("Check without a lease", s.Builds.Check(s.Context(), levels.Lease{Corpus: s.corpus, Right: levels.RightBuild, Holder: "a", Epoch: 1}), levels.ErrFenced)
		a := s.acquire("a", 0)
		s.ok("Check", s.Builds.Check(s.Context(), a))
		again := s.acquire("a", 0)
		s.fails("Check of the epoch before", s.Builds.Check(s.Context(), a), levels.ErrFenced)
		s.ok("Check of the new one", s.Builds.Check(s.Context(), again))
		s.Advance(2 * ttl)
		s.fails("Check after its time", s.Builds.Check(s.Context(), again), levels.ErrFenced)
		renewed, err := s.Builds.Renew(s.Context(), again, ttl)
		s.ok("Renew", err)
		s.ok("Check after Renew", s.Builds.Check(s.Context(), renewed))
	}},
	{"HistoryKeepsEachBuild", func(s *suite) {
		kept := func(when string, want ...string) {
			s.Helper()
			past, err := s.Builds.History(s.Context(), s.corpus)
			s.ok("History", err)
			var got []string
			for _, b := range past {
				got = append(got, fmt.Sprint(b.Build, " ", b.Status, " ", b.Levels[0].Usage.Calls, " ", len(b.Buried), " ", b.Settings))
			}
			s.same("history "+when, got, want)
		}
		kept("of nothing")
		a := s.acquire("a", 0)
		first, second := s.state("z1"), s.state("b2")
		first.Settings = map[string]string{"summaries.model": "m", "build.slots": "8"}
		second.Started = first.Started.Add(time.Hour)
		calls := one.Calls
		s.ok("Save", s.Builds.Save(s.Context(), a, first))
		kept("of one that runs", fmt.Sprint("z1 running ", calls, " 0 map[summaries.model:m]"))
		first.Status, first.Levels[0].Usage.Calls = levels.Built, calls+1
		s.ok("Save of its end", s.Builds.Save(s.Context(), a, first))
		s.ok("Save of another", s.Builds.Save(s.Context(), a, second))
		want := []string{fmt.Sprint("z1 done ", calls+1, " 0 map[summaries.model:m]"), fmt.Sprint("b2 running ", calls, " 0 map[]")}
		kept("of two", want...)
		s.acquire("a", 0)
		first.Status = levels.Failed
		s.fails("Save under the first epoch", s.Builds.Save(s.Context(), a, first), levels.ErrFenced)
		kept("after a save that was refused", want...)
		s.update(s.corpus, func(*levels.Corpus) {})
		s.ok("Drop", s.Corpora.Drop(s.Context(), s.corpus))
		kept("of a corpus that is gone")
	}},
	{"HolderAcquiresAgain", func(s *suite) {
		first := s.acquire("a", 0)
		second := s.acquire("a", 0)
		s.grew(second, first)
		s.fails("Save under the first epoch", s.Builds.Save(s.Context(), first, s.state("b1")), levels.ErrFenced)
		s.ok("Save under the second", s.Builds.Save(s.Context(), second, s.state("b1")))
		_, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "b", ttl, 0)
		s.fails("Acquire by b", err, levels.ErrHeld)
	}},
	{"EpochIsAboveTheFloor", func(s *suite) {
		lease := s.acquire("a", 41)
		if lease.Epoch <= 41 {
			s.Errorf("epoch %d, want above 41", lease.Epoch)
		}
		s.ok("Release", s.Builds.Release(s.Context(), lease))
		s.grew(s.acquire("b", 7), lease)
	}},
	{"LeaseRunsOut", func(s *suite) {
		a := s.acquire("a", 0)
		s.Advance(ttl / 4)
		_, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "b", ttl, 0)
		s.fails("Acquire before the time is up", err, levels.ErrHeld)
		s.Advance(ttl)
		b := s.acquire("b", 0)
		s.grew(b, a)
		_, err = s.Builds.Renew(s.Context(), a, ttl)
		s.fails("Renew of a lease that was passed on", err, levels.ErrFenced)
		s.fails("Save under a lease that was passed on", s.Builds.Save(s.Context(), a, s.state("b1")), levels.ErrFenced)
	}},
	{"Holder", func(s *suite) {
		held := func(when, want string) {
			s.Helper()
			got, err := s.Builds.Holder(s.Context(), s.corpus, levels.RightBuild)
			s.ok("Holder", err)
			s.same("holder "+when, got, want)
		}
		held("before any lease", "")
		a := s.acquire("a", 0)
		held("after Acquire", "a")
		s.Advance(2 * ttl)
		held("after its time", "")
		b := s.acquire("b", 0)
		held("after it was passed on", "b")
		s.ok("Release of the lease before", s.Builds.Release(s.Context(), a))
		held("after a release that doesn't count", "b")
		s.ok("Release", s.Builds.Release(s.Context(), b))
		held("after Release", "")
	}},
	{"LateButNotPassedOn", func(s *suite) {
		a := s.acquire("a", 0)
		s.Advance(2 * ttl)
		s.ok("Save", s.Builds.Save(s.Context(), a, s.state("b1")))
		_, err := s.Builds.Renew(s.Context(), a, ttl)
		s.ok("Renew", err)
		_, err = s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "b", ttl, 0)
		s.fails("Acquire by b after that", err, levels.ErrHeld)
	}},
	{"Renew", func(s *suite) {
		a := s.acquire("a", 0)
		for range 3 {
			s.Advance(ttl * 3 / 4)
			renewed, err := s.Builds.Renew(s.Context(), a, ttl)
			s.ok("Renew", err)
			s.same("epoch", renewed.Epoch, a.Epoch)
			if !renewed.Until.After(a.Until) {
				s.Errorf("renewed until %v, before that until %v", renewed.Until, a.Until)
			}
			a = renewed
			_, err = s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "b", ttl, 0)
			s.fails("Acquire by b", err, levels.ErrHeld)
		}
	}},
	{"ReleaseOfAnOldLease", func(s *suite) {
		a := s.acquire("a", 0)
		s.ok("Release", s.Builds.Release(s.Context(), a))
		b := s.acquire("b", 0)
		s.ok("second Release", s.Builds.Release(s.Context(), a))
		_, err := s.Builds.Acquire(s.Context(), s.corpus, levels.RightBuild, "c", ttl, 0)
		s.fails("Acquire while b holds the lease", err, levels.ErrHeld)
		s.ok("Save by b", s.Builds.Save(s.Context(), b, s.state("b1")))
	}},
	{"OneOfManyAcquires", func(s *suite) {
		const n = 8
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, errs[i] = s.Builds.Acquire(context.Background(), s.corpus, levels.RightBuild, fmt.Sprintf("holder-%d", i), time.Hour, 0)
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				s.fails("Acquire", err, levels.ErrHeld)
			}
		}
		s.same("holders", won, 1)
	}},
	{"SaveAndLoad", func(s *suite) {
		_, err := s.Builds.Load(s.Context(), s.corpus)
		s.fails("Load before any build", err, levels.ErrNotFound)
		lease := s.acquire("a", 0)
		want := s.state("b1")
		s.ok("Save", s.Builds.Save(s.Context(), lease, want))
		got, err := s.Builds.Load(s.Context(), s.corpus)
		s.ok("Load", err)
		s.same("state", got, want)
		got.Levels[0].Done = 77 // what is returned belongs to the caller
		want.Status, want.Cause, want.Why = levels.Degraded, levels.CauseBuried, "two tasks are buried"
		s.ok("Save", s.Builds.Save(s.Context(), lease, want))
		next := s.state("b2")
		got, err = s.Builds.Load(s.Context(), s.corpus)
		s.ok("Load", err)
		s.same("state after a change", got, want)
		s.ok("Save", s.Builds.Save(s.Context(), lease, next))
		got, err = s.Builds.Load(s.Context(), s.corpus)
		s.ok("Load", err)
		s.same("state of the newest build", got, next)
	}},
	{"SaveWithoutALease", func(s *suite) {
		err := s.Builds.Save(s.Context(), levels.Lease{Corpus: s.corpus, Holder: "a", Epoch: 1}, s.state("b1"))
		s.fails("Save", err, levels.ErrFenced)
	}},
	{"Progress", func(s *suite) {
		_, err := s.Builds.Progress(s.Context(), s.corpus)
		s.fails("Progress before any report", err, levels.ErrNotFound)
		want := levels.Progress{Build: "b1", Holder: "a", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Doing: "clustering", Running: 3, Level: 2, Waiting: []string{"429 until 02:14"}}
		for _, doing := range []string{"clustering level 2: layout 40/200", "summarizing"} {
			want.Doing = doing
			s.ok("Report", s.Builds.Report(s.Context(), s.corpus, want))
			got, err := s.Builds.Progress(s.Context(), s.corpus)
			s.ok("Progress", err)
			s.same("progress", got, want)
		}
	}},
	{"ProgressOfSeveralProcesses", func(s *suite) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		for _, p := range []levels.Progress{
			{Build: "b1", Holder: "worker-1", At: at, Running: 3, Level: 1, Waiting: []string{"endpoint e: 429", "endpoint f"}},
			{Build: "b1", Holder: "gone", At: at.Add(-time.Hour), Running: 99, Level: 1, Waiting: []string{"nothing"}},
			{Build: "b1", Holder: "coordinator", At: at.Add(time.Second), Doing: "publishing"},
			{Build: "b1", Holder: "worker-2", At: at.Add(2 * time.Second), Running: 4, Level: 1, Waiting: []string{"endpoint e: 429"}},
			{Build: "b0", Holder: "late", At: at.Add(2 * time.Second), Running: 50},
		} {
			s.ok("Report", s.Builds.Report(s.Context(), s.corpus, p))
		}
		// Another report of a process takes the place of its last one.
		s.ok("Report", s.Builds.Report(s.Context(), s.corpus, levels.Progress{Build: "b1", Holder: "worker-1", At: at.Add(3 * time.Second), Running: 2, Level: 1,
			Waiting: []string{"endpoint e: 429"}}))
		got, err := s.Builds.Progress(s.Context(), s.corpus)
		s.ok("Progress", err)
		s.same("progress", got, levels.Progress{Build: "b1", Holder: "coordinator", At: at.Add(3 * time.Second), Doing: "publishing", Running: 6, Level: 1,
			Waiting: []string{"endpoint e: 429"}})
	}},
	{"Wishes", func(s *suite) {
		asked := func(stop levels.Stop) levels.Stop {
			stop.Sentence = "since: one\nof two lines"
			return stop
		}
		pause := asked(levels.Stop{Status: levels.Paused, Cause: levels.CauseBudget})
		cancel := asked(levels.Stop{Status: levels.Cancelled, Cause: levels.CauseAsked})
		want := func(build string, wish levels.Stop) {
			s.Helper()
			got, err := s.Builds.StopRequested(s.Context(), s.corpus, build)
			s.ok("StopRequested", err)
			s.same("wish for "+build, got, wish)
		}
		want("b1", levels.Stop{})
		s.ok("RequestStop", s.Builds.RequestStop(s.Context(), s.corpus, "b1", pause))
		s.ok("RequestStop", s.Builds.RequestStop(s.Context(), s.corpus, "b1", cancel))
		want("b1", cancel)
		want("b2", levels.Stop{})
		for range 2 {
			s.ok("RequestStop", s.Builds.RequestStop(s.Context(), s.corpus, "b1", levels.Stop{}))
			want("b1", levels.Stop{})
		}
	}},
}
