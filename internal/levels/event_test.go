package levels_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
)

// TestWhatIsKeptForPeople: times, burials, key and budget come in by events like all else; each is saved once, and again changes nothing.
func TestWhatIsKeptForPeople(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	most, cost := 1000, 0.5
	s := levels.State{Build: "b", Status: levels.Running}
	step := func(e levels.Event, save bool) {
		t.Helper()
		for i := range 2 {
			ready, err := s.Step(e)
			if err != nil || ready.Save != (save && i == 0) {
				t.Errorf("%T for the time %d: save %v, %v", e, i+1, ready.Save, err)
			}
		}
	}
	step(levels.LevelPlanned{Level: 1, NodesIn: 4, Total: 2, Digest: "d"}, true)
	step(levels.LevelPublished{Level: 1, Began: began}, true)
	step(levels.LevelPublished{Level: 1, Began: began.Add(time.Hour)}, false) // again, after a restart
	step(levels.Requested{Key: "k", Budget: true, MaxTokens: &most, MaxCost: &cost}, true)
	step(levels.Requested{}, false) // goes on by itself
	burials := []levels.Burial{{Task: "t", Level: 1, Cause: "empty"}}
	step(levels.BuriedListed{Tasks: burials, ByCause: map[string]int{"empty": 1}}, true)
	step(levels.LevelCounted{Level: 1, At: began.Add(time.Minute), Count: levels.Count{Total: 2, Done: 1, Dead: 1}, Allowed: 1}, true)
	step(levels.LevelCounted{Level: 1, At: began.Add(time.Hour), Count: levels.Count{Total: 2, Done: 1, Dead: 1}, Allowed: 1}, false) // late
	want := levels.State{
		Build: "b", Status: levels.Running, Key: "k", MaxTokens: &most, MaxCost: &cost, Buried: burials, BuriedCount: map[string]int{"empty": 1},
		Levels: []levels.Level{{Level: 1, Phase: levels.Sealed, Digest: "d", NodesIn: 4, Total: 2, Done: 1, Dead: 1, Started: began, Took: time.Minute}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	step(levels.Requested{Budget: true}, true) // another start, without a budget of its own
	if s.MaxTokens != nil || s.MaxCost != nil || s.Key != "k" {
		t.Errorf("key %q, tokens %v, cost %v", s.Key, s.MaxTokens, s.MaxCost)
	}
	s.At(1).Phase = levels.Planning // of a copy
	if s.Levels[0].Phase != levels.Sealed {
		t.Error("a level was changed from outside")
	}
}
