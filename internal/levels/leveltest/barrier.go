package leveltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// RunBarrier holds an implementation to the contract of [levels.Barrier].
func RunBarrier(t *testing.T, open func(t *testing.T) Ports) {
	runAll(t, "barrier", barrierTests, open)
}

// one is what every task of the suite costs.
var one = tree.Usage{Calls: 1, Reused: 2, InputTokens: 100, OutputTokens: 10}

func times(n int) tree.Usage {
	return tree.Usage{Calls: n, Reused: 2 * n, InputTokens: 100 * n, OutputTokens: 10 * n}
}

func (s *suite) level(n int) tree.Level { return tree.Level{Corpus: s.corpus, Build: "b1", Level: n} }

func (s *suite) open(level tree.Level, digest string, total int) {
	s.Helper()
	s.ok("Open", s.Barrier.Open(s.Context(), level, digest, total))
}

// mark marks positions and checks the counts after that.
func (s *suite) mark(level tree.Level, outcome levels.Outcome, want levels.Count, positions ...int) {
	s.Helper()
	got, err := s.Barrier.Mark(s.Context(), level, "digest", marks(outcome, positions...)...)
	s.ok("Mark", err)
	s.same(fmt.Sprintf("counts after marking %v %s", positions, outcome), got, want)
	got, err = s.Barrier.Count(s.Context(), level)
	s.ok("Count", err)
	s.same("Count after that", got, want)
}

func marks(outcome levels.Outcome, positions ...int) []levels.Mark {
	var all []levels.Mark
	for _, p := range positions {
		all = append(all, levels.Mark{Position: p, Outcome: outcome, Usage: one})
	}
	return all
}

func (s *suite) positions(level tree.Level, outcome levels.Outcome, want ...int) {
	s.Helper()
	got, err := s.Barrier.Positions(s.Context(), level, outcome)
	s.ok("Positions", err)
	s.same("positions that are "+string(outcome), got, want)
}

func count(total, done, dead int) levels.Count {
	return levels.Count{Total: total, Done: done, Dead: dead, Usage: times(done)}
}

var barrierTests = []contractTest{
	{"BeginsEmpty", func(s *suite) {
		s.open(s.level(1), "digest", 5)
		s.mark(s.level(1), levels.Done, count(5, 0, 0))
		s.positions(s.level(1), levels.Done)
		s.positions(s.level(1), levels.Dead)
	}},
	{"Mark", func(s *suite) {
		s.open(s.level(1), "digest", 20)
		s.mark(s.level(1), levels.Done, count(20, 1, 0), 7)
		s.mark(s.level(1), levels.Done, count(20, 3, 0), 0, 19)
		s.mark(s.level(1), levels.Dead, count(20, 3, 2), 8, 15)
		s.positions(s.level(1), levels.Done, 0, 7, 19)
		s.positions(s.level(1), levels.Dead, 8, 15)
	}},
	{"MarkAgainChangesNothing", func(s *suite) {
		s.open(s.level(1), "digest", 4)
		for range 3 { // a reply was lost, a delivery came twice
			s.mark(s.level(1), levels.Done, count(4, 1, 0), 2)
		}
		s.mark(s.level(1), levels.Done, count(4, 2, 0), 2, 3, 3, 2)
		for range 2 {
			s.mark(s.level(1), levels.Dead, count(4, 2, 1), 0)
		}
	}},
	{"UsageIsThatOfTheFirstDone", func(s *suite) {
		s.open(s.level(1), "digest", 4)
		s.mark(s.level(1), levels.Dead, count(4, 0, 1), 1)
		s.mark(s.level(1), levels.Done, count(4, 1, 0), 1)
		again := levels.Mark{Position: 1, Outcome: levels.Done, Usage: tree.Usage{Calls: 50, InputTokens: 7}}
		got, err := s.Barrier.Mark(s.Context(), s.level(1), "digest", again, levels.Mark{Position: 2, Outcome: levels.Done, Usage: one}, again)
		s.ok("Mark", err)
		s.same("counts", got, count(4, 2, 0))
	}},
	// FAULTS2: B5. What attempts that came to nothing have cost counts, each time.
	{"SpentCountsEachTime", func(s *suite) {
		s.open(s.level(1), "digest", 4)
		odd := tree.Usage{Calls: 2, InputTokens: 30, OutputTokens: 4, Refused: 2, Trimmed: 1, CutPrompts: 3, OtherLanguage: 4}
		spent := levels.Mark{Position: 1, Outcome: levels.Spent, Usage: odd}
		got, err := s.Barrier.Mark(s.Context(), s.level(1), "digest", spent, spent)
		s.ok("Mark", err)
		s.same("counts", got, levels.Count{Total: 4, Usage: odd.Add(odd)})
		s.positions(s.level(1), levels.Dead)
		_, err = s.Barrier.Mark(s.Context(), s.level(1), "digest", marks(levels.Done, 1)...)
		s.ok("Mark", err)
		got, err = s.Barrier.Mark(s.Context(), s.level(1), "digest", spent)
		s.ok("Mark", err)
		s.same("counts", got, levels.Count{Total: 4, Done: 1, Usage: odd.Add(odd).Add(odd).Add(one)})
		_, err = s.Barrier.Mark(s.Context(), s.level(1), "another", spent)
		s.fails("Mark of another plan", err, levels.ErrNotOpen)
	}},
	// FAULTS: riverqueue/river 1302.
	{"DoneWinsOverDead", func(s *suite) {
		s.open(s.level(1), "digest", 3)
		s.mark(s.level(1), levels.Dead, count(3, 0, 1), 1)
		s.mark(s.level(1), levels.Done, count(3, 1, 0), 1)
		s.mark(s.level(1), levels.Dead, count(3, 1, 0), 1)
		both := append(marks(levels.Dead, 2), marks(levels.Done, 2)...)
		got, err := s.Barrier.Mark(s.Context(), s.level(1), "digest", append(both, marks(levels.Dead, 2)...)...)
		s.ok("Mark", err)
		s.same("counts", got, count(3, 2, 0))
		s.positions(s.level(1), levels.Done, 1, 2)
		s.positions(s.level(1), levels.Dead)
	}},
	{"Complete", func(s *suite) {
		s.open(s.level(1), "digest", 3)
		for p, outcome := range []levels.Outcome{levels.Done, levels.Dead, levels.Done} {
			got, err := s.Barrier.Mark(s.Context(), s.level(1), "digest", marks(outcome, p)...)
			s.ok("Mark", err)
			s.same("complete", got.Complete(), p == 2)
		}
		s.open(s.level(2), "digest", 0)
		got, err := s.Barrier.Count(s.Context(), s.level(2))
		s.ok("Count", err)
		s.same("complete with no tasks", got.Complete(), true)
	}},
	{"NotOpen", func(s *suite) {
		s.open(s.level(1), "digest", 3)
		elsewhere := map[string]tree.Level{
			"another level":  s.level(2),
			"another build":  {Corpus: s.corpus, Build: "b2", Level: 1},
			"another corpus": {Corpus: s.corpus + "-other", Build: "b1", Level: 1},
		}
		for name, level := range elsewhere {
			_, err := s.Barrier.Mark(s.Context(), level, "digest", marks(levels.Done, 0)...)
			s.fails("Mark of "+name, err, levels.ErrNotOpen)
			_, err = s.Barrier.Mark(s.Context(), level, "digest")
			s.fails("Mark without marks of "+name, err, levels.ErrNotOpen)
			_, err = s.Barrier.Count(s.Context(), level)
			s.fails("Count of "+name, err, levels.ErrNotOpen)
			_, err = s.Barrier.Positions(s.Context(), level, levels.Done)
			s.fails("Positions of "+name, err, levels.ErrNotOpen)
			s.fails("Clear of "+name, s.Barrier.Clear(s.Context(), level, []int{0}), levels.ErrNotOpen)
		}
		_, err := s.Barrier.Mark(s.Context(), s.level(1), "another digest", marks(levels.Done, 0)...)
		s.fails("Mark with another digest", err, levels.ErrNotOpen)
		_, err = s.Barrier.Mark(s.Context(), s.level(1), "another digest")
		s.fails("Mark without marks with another digest", err, levels.ErrNotOpen)
		s.mark(s.level(1), levels.Done, count(3, 0, 0))
	}},
	{"BadMarksChangeNothing", func(s *suite) {
		s.open(s.level(1), "digest", 3)
		for name, bad := range map[string]levels.Mark{
			"position below 0":     {Position: -1, Outcome: levels.Done},
			"position of total":    {Position: 3, Outcome: levels.Done},
			"dead beyond total":    {Position: 8, Outcome: levels.Dead},
			"outcome of no name":   {Position: 1},
			"outcome of the queue": {Position: 1, Outcome: "lost"},
		} {
			if _, err := s.Barrier.Mark(s.Context(), s.level(1), "digest", append(marks(levels.Done, 0), bad)...); err == nil {
				s.Errorf("Mark with a %s is no error", name)
			}
		}
		s.mark(s.level(1), levels.Done, count(3, 0, 0))
		if err := s.Barrier.Open(s.Context(), s.level(2), "digest", -1); err == nil {
			s.Error("Open with a total below 0 is no error")
		}
	}},
	{"OpenAgainKeepsMarks", func(s *suite) {
		s.open(s.level(1), "digest", 3)
		s.mark(s.level(1), levels.Done, count(3, 1, 0), 1)
		s.open(s.level(1), "digest", 3)
		s.mark(s.level(1), levels.Done, count(3, 1, 0))
	}},
	{"OpenReplacesAnotherPlan", func(s *suite) {
		s.open(s.level(1), "old", 3)
		_, err := s.Barrier.Mark(s.Context(), s.level(1), "old", marks(levels.Done, 1)...)
		s.ok("Mark", err)
		s.open(s.level(1), "digest", 3)
		s.mark(s.level(1), levels.Done, count(3, 0, 0))
		_, err = s.Barrier.Mark(s.Context(), s.level(1), "old", marks(levels.Done, 1)...)
		s.fails("Mark with the old digest", err, levels.ErrNotOpen)
		s.open(s.level(1), "digest", 4)
		s.mark(s.level(1), levels.Done, count(4, 1, 0), 3)
	}},
	{"LevelsAreApart", func(s *suite) {
		other := tree.Level{Corpus: s.corpus, Build: "b2", Level: 1}
		for _, level := range []tree.Level{s.level(1), s.level(2), s.level(12), other} {
			s.open(level, "digest", 9)
		}
		s.mark(s.level(1), levels.Done, count(9, 1, 0), 4)
		s.mark(s.level(12), levels.Dead, count(9, 0, 1), 4)
		s.mark(s.level(2), levels.Done, count(9, 0, 0))
		s.mark(other, levels.Done, count(9, 0, 0))
	}},
	{"Clear", func(s *suite) {
		s.open(s.level(1), "digest", 6)
		s.mark(s.level(1), levels.Dead, count(6, 0, 3), 1, 3, 5)
		s.mark(s.level(1), levels.Done, count(6, 1, 3), 0)
		for range 2 {
			s.ok("Clear", s.Barrier.Clear(s.Context(), s.level(1), []int{3, 0, 2}))
			s.mark(s.level(1), levels.Done, count(6, 1, 2))
			s.positions(s.level(1), levels.Dead, 1, 5)
			s.positions(s.level(1), levels.Done, 0)
		}
		s.mark(s.level(1), levels.Done, count(6, 2, 2), 3)
	}},
	{"Drop", func(s *suite) {
		other := tree.Level{Corpus: s.corpus, Build: "b10", Level: 1}
		for _, level := range []tree.Level{s.level(1), s.level(2), other} {
			s.open(level, "digest", 2)
		}
		for range 2 { // one that doesn't exist is no error
			s.ok("Drop", s.Barrier.Drop(s.Context(), s.corpus, "b1"))
			for _, level := range []tree.Level{s.level(1), s.level(2)} {
				_, err := s.Barrier.Count(s.Context(), level)
				s.fails("Count", err, levels.ErrNotOpen)
			}
			s.mark(other, levels.Done, count(2, 0, 0))
		}
		s.open(s.level(1), "digest", 2)
		s.mark(s.level(1), levels.Done, count(2, 0, 0))
	}},
	{"Large", func(s *suite) {
		const total = 100_000
		s.open(s.level(1), "digest", total)
		random := rand.New(rand.NewPCG(5, 5))
		want := map[int]bool{}
		var all []int
		for range 500 {
			p := random.IntN(total)
			want[p] = true
			all = append(all, p)
		}
		s.mark(s.level(1), levels.Done, count(total, len(want), 0), all...)
		got, err := s.Barrier.Positions(s.Context(), s.level(1), levels.Done)
		s.ok("Positions", err)
		s.same("number of positions", len(got), len(want))
		for _, p := range got {
			if !want[p] {
				s.Errorf("position %d was never marked", p)
			}
		}
	}},
	{"ConcurrentMarks", func(s *suite) {
		const workers, total = 8, 240
		s.open(s.level(1), "digest", total)
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for w := range workers {
			wg.Go(func() { errs[w] = s.markAll(w, total) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				s.Error(err)
			}
		}
		// Positions that are a multiple of 10 were marked dead by all, the rest done by some and dead by others.
		s.mark(s.level(1), levels.Done, count(total, total-total/10, total/10))
	}},
	{"LastMarkSeesTheLevelComplete", func(s *suite) {
		const total = 40
		s.open(s.level(1), "digest", total)
		var wg sync.WaitGroup
		complete := make([]bool, total)
		for p := range total {
			wg.Go(func() {
				got, err := s.Barrier.Mark(context.Background(), s.level(1), "digest", marks(levels.Done, p)...)
				complete[p] = err == nil && got.Complete()
			})
		}
		wg.Wait()
		n := 0
		for _, c := range complete {
			if c {
				n++
			}
		}
		s.same("marks that saw the level complete", n, 1)
	}},
}

// markAll is one of several that mark every position, each in an order of its own.
func (s *suite) markAll(worker, total int) error {
	random := rand.New(rand.NewPCG(uint64(worker), 9))
	for _, p := range random.Perm(total) {
		outcome := levels.Done
		if p%10 == 0 || (p+worker)%3 == 0 {
			outcome = levels.Dead
		}
		got, err := s.Barrier.Mark(context.Background(), s.level(1), "digest", marks(outcome, p)...)
		if err != nil {
			return err
		}
		if got.Total != total || got.Done+got.Dead > total || got.Usage != times(got.Done) {
			return fmt.Errorf("counts %+v can't be", got)
		}
	}
	return nil
}
