package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestA16NoWorker: a build that runs and whose tasks nobody takes says so, and since when; one whose tasks somebody may take at any
// moment doesn't.
func TestA16NoWorker(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 55, 0, 0, time.Local)
	opened := time.Date(2026, 12, 1, 0, 41, 0, 0, time.Local)
	at := func(clock string) time.Time {
		t.Helper()
		when, err := time.ParseInLocation("2006-01-02 15:04", "2026-12-01 "+clock, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	worker := func(recipe string, at time.Time, left bool) levels.Member {
		return levels.Member{ID: "w" + recipe, Role: levels.RoleWorker, Recipe: recipe, Slots: 8, At: at, Left: left}
	}
	for name, c := range map[string]struct {
		members []levels.Member
		running int
		want    string // "" for nothing
	}{
		"nobody ever":           {nil, 0, "no worker takes tasks since 00:41"},
		"only a coordinator":    {[]levels.Member{{ID: "c", Role: levels.RoleCoordinator, Recipe: "r", At: now}}, 0, "no worker takes tasks since 00:41"},
		"one that waits":        {[]levels.Member{worker("r", now, false)}, 0, ""},
		"tasks in hand":         {nil, 2, ""},
		"gone without a word":   {[]levels.Member{worker("r", at("00:50"), false)}, 0, "no worker takes tasks since 00:50"},
		"has left":              {[]levels.Member{worker("r", at("00:54"), true)}, 0, "no worker takes tasks since 00:54"},
		"gone before that":      {[]levels.Member{worker("r", at("00:10"), true)}, 0, "no worker takes tasks since 00:41"},
		"with other settings":   {[]levels.Member{worker("other", now, false)}, 0, "since 00:41: those that work (1) have other settings"},
		"one fits, one doesn't": {[]levels.Member{worker("other", now, false), worker("r", now, false)}, 0, ""},
	} {
		m := leveltest.NewMemory()
		ctx := t.Context()
		lease, err := m.Acquire(ctx, "c", levels.RightBuild, "holder", time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		state := &levels.State{
			Corpus: "c", Build: "b", Recipe: "r", Status: levels.Running,
			Levels: []levels.Level{{Level: 1, Phase: levels.Open, Total: 5, Digest: "d", Started: opened}},
		}
		if err := m.Save(ctx, lease, state); err != nil {
			t.Fatal(err)
		}
		if err := m.Open(ctx, tree.Level{Corpus: "c", Build: "b", Level: 1}, "d", 5); err != nil {
			t.Fatal(err)
		}
		if err := m.Report(ctx, "c", levels.Progress{Build: "b", Holder: "holder", At: now, Running: c.running, Level: 1}); err != nil {
			t.Fatal(err)
		}
		b, err := coordinator.ReadBuild(ctx, coordinator.StatusDeps{
			Store: storetest.NewMemory(), Corpora: m.Corpora(), Builds: m, Barrier: m, Members: c.members,
		}, "c", now)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(b.WaitingFor, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: waits for %q, want %q", name, got, c.want)
		}
	}
}
