package leveltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// RunCorpora holds an implementation to the contract of [levels.Corpora].
func RunCorpora(t *testing.T, open func(t *testing.T) Ports) { runAll(t, "corpora", corpusTests, open) }

func (s *suite) update(name string, change func(*levels.Corpus)) {
	s.Helper()
	s.ok("Update", s.Corpora.Update(s.Context(), name, func(c *levels.Corpus) error { change(c); return nil }))
}

func (s *suite) load(name string) *levels.Corpus {
	s.Helper()
	c, err := s.Corpora.Load(s.Context(), name)
	s.ok("Load", err)
	return c
}

func (s *suite) record() *levels.Corpus {
	return &levels.Corpus{
		Name: s.corpus, Embedder: "lexical", Width: 384, Changes: 1 << 50, Generation: 4, Epoch: 9,
		Baseline: &levels.Baseline{Leaves: 100, Changes: 120}, StoppedBecause: "a further level would not be smaller",
		Settings: &levels.Settings{Scope: tree.ScopeDocument, KeepLeaves: true, Recipe: "r", All: map[string]string{"chunking.tokens": "100"}},
	}
}

var corpusTests = []contractTest{
	{"CreateAndLoad", func(s *suite) {
		_, err := s.Corpora.Load(s.Context(), s.corpus)
		s.fails("Load", err, levels.ErrNotFound)
		var given *levels.Corpus
		s.update(s.corpus, func(c *levels.Corpus) { copied := *c; given = &copied; *c = *s.record() })
		s.same("record that the first change got", given, &levels.Corpus{Name: s.corpus})
		s.same("record", s.load(s.corpus), s.record())
	}},
	{"Change", func(s *suite) {
		s.update(s.corpus, func(c *levels.Corpus) { *c = *s.record() })
		s.update(s.corpus, func(c *levels.Corpus) {
			s.same("record that the change got", c, s.record())
			c.Generation++
			c.Baseline = nil
			c.Name = "another name is no rename"
		})
		want := s.record()
		want.Generation++
		want.Baseline = nil
		s.same("record", s.load(s.corpus), want)
	}},
	{"ErrorLeavesTheRecord", func(s *suite) {
		own := errors.New("own")
		fail := func(c *levels.Corpus) error { c.Generation = 99; c.Name = "x"; return own }
		s.fails("Update", s.Corpora.Update(s.Context(), s.corpus, fail), own)
		_, err := s.Corpora.Load(s.Context(), s.corpus)
		s.fails("Load after a failed creation", err, levels.ErrNotFound)
		s.update(s.corpus, func(c *levels.Corpus) { *c = *s.record() })
		s.fails("Update", s.Corpora.Update(s.Context(), s.corpus, fail), own)
		s.same("record", s.load(s.corpus), s.record())
	}},
	{"RecordsBelongToTheCaller", func(s *suite) {
		var kept *levels.Corpus
		s.update(s.corpus, func(c *levels.Corpus) { *c = *s.record(); kept = c })
		kept.Generation = 77
		s.load(s.corpus).Settings.All["chunking.tokens"] = "changed"
		s.same("record", s.load(s.corpus), s.record())
	}},
	{"UpdatesAreAtomic", func(s *suite) {
		const workers, rounds = 8, 25
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for w := range workers {
			wg.Go(func() {
				for range rounds {
					err := s.Corpora.Update(context.Background(), s.corpus, func(c *levels.Corpus) error {
						c.Changes++
						c.Generation += 2
						return nil
					})
					errs[w] = errors.Join(errs[w], err)
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				s.Error(err)
			}
		}
		got := s.load(s.corpus)
		s.same("changes", got.Changes, int64(workers*rounds))
		s.same("generation", got.Generation, 2*workers*rounds)
	}},
	{"List", func(s *suite) {
		var want []string
		for _, suffix := range []string{"-b", "-a", "-Z", ""} {
			s.update(s.corpus+suffix, func(*levels.Corpus) {})
			want = append(want, s.corpus+suffix)
		}
		slices.Sort(want)
		got, err := s.Corpora.List(s.Context())
		s.ok("List", err)
		if !slices.IsSorted(got) {
			s.Errorf("List returned %q, not ascending", got)
		}
		mine := slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) })
		s.same("names", mine, want)
	}},
	{"Drop", func(s *suite) {
		other := s.corpus + "-other"
		for _, name := range []string{s.corpus, other} {
			s.update(name, func(c *levels.Corpus) { c.Width = 3 })
		}
		s.open(s.level(1), "digest", 2)
		lease := s.acquire("a", 0)
		s.ok("Save", s.Builds.Save(s.Context(), lease, s.state("b1")))
		s.ok("Report", s.Builds.Report(s.Context(), s.corpus, levels.Progress{Build: "b1"}))
		s.ok("RequestStop", s.Builds.RequestStop(s.Context(), s.corpus, "b1", levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked}))
		for range 2 { // one that doesn't exist is no error
			s.ok("Drop", s.Corpora.Drop(s.Context(), s.corpus))
			_, err := s.Corpora.Load(s.Context(), s.corpus)
			s.fails("Load", err, levels.ErrNotFound)
			_, err = s.Builds.Load(s.Context(), s.corpus)
			s.fails("Load of the build", err, levels.ErrNotFound)
			_, err = s.Builds.Progress(s.Context(), s.corpus)
			s.fails("Progress", err, levels.ErrNotFound)
			_, err = s.Barrier.Count(s.Context(), s.level(1))
			s.fails("Count", err, levels.ErrNotOpen)
			wish, err := s.Builds.StopRequested(s.Context(), s.corpus, "b1")
			s.ok("StopRequested", err)
			s.same("wish", wish, levels.Stop{})
		}
		s.same("the other record", s.load(other), &levels.Corpus{Name: other, Width: 3})
		s.grew(s.acquire("a", 0), lease) // no epoch is given out twice, not even now
	}},
}
