package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
)

// TestPauseResumeCancel: a build in another process, or at a coordinator, is paused, goes on, and is ended for good.
func TestPauseResumeCancel(t *testing.T) {
	for name, remote := range map[string]bool{"home": false, "server": true} {
		t.Run(name, func(t *testing.T) {
			fixtures := fresh(t)
			s := slow(t, 60*time.Millisecond)
			var at []string
			if remote {
				at = []string{"--server", serveHome(t)}
				if err := os.Remove("aerie.yaml"); err != nil { // the client has no settings of its own
					t.Fatal(err)
				}
			}
			do := func(args ...string) result { t.Helper(); return aerie(t, append(args, at...)...) }
			state := func(r result) stopped { t.Helper(); return decode[stopped](t, r.want(t, exitDone)) }
			do("ingest", fixtures).want(t, exitDone)
			if got := state(do("pause", "-o", "json")); got != (stopped{Corpus: "default"}) {
				t.Errorf("without a build: %+v", got)
			}

			builder := start(t, append([]string{"build"}, at...)...)
			called(t, s, 2)
			paused := state(do("pause", "-o", "json"))
			if paused.State != levels.Paused || paused.Build == "" {
				t.Fatalf("%+v", paused)
			}
			if r := builder.wait().want(t, exitFailed); !strings.Contains(r.stderr, "asked for") {
				t.Errorf("the builder said %q", r.stderr)
			}
			if again := state(do("pause", "-o", "json")); again != paused {
				t.Errorf("paused twice: %+v", again)
			}
			report := decode[api.BuildReport](t, do("resume", "-o", "json").want(t, exitDone))
			if report.Build != paused.Build || report.Outcome != api.OutcomeBuilt {
				t.Errorf("resumed: %+v", report)
			}
			for _, command := range []string{"resume", "pause", "cancel"} {
				if r := do(command).want(t, exitDone); !strings.Contains(r.stdout, "there is nothing unfinished") {
					t.Errorf("%s: %q", command, r.stdout)
				}
			}
			if n := s.Counts().Repeated; n != 0 {
				t.Errorf("%d calls were paid for twice", n)
			}

			forced := start(t, append([]string{"build", "--full", "--summaries.prompt", "Other: {chunks}"}, at...)...)
			if remote { // settings are the coordinator's: nothing that it would have to pay for
				forced.wait()
				return
			}
			called(t, s, s.Counts().ChatOK+2)
			if cancelled := state(do("cancel", "-o", "json")); cancelled.State != levels.Cancelled {
				t.Errorf("%+v", cancelled)
			}
			forced.wait().want(t, exitFailed)
		})
	}
}

// TestShow: a node stands where the tree says, by each of its names.
func TestShow(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	aerie(t, "build").want(t, exitDone)
	var leaves, summaries []api.Node
	for _, n := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl").want(t, exitDone)) {
		if n.Level == 0 {
			leaves = append(leaves, n)
		} else {
			summaries = append(summaries, n)
		}
	}
	top := summaries[len(summaries)-1]
	shown := decode[api.Shown](t, aerie(t, "show", top.ClusterID, "-o", "json").want(t, exitDone))
	if shown.ID != top.ID || shown.Text != top.Text || len(shown.ChildIDs) != len(top.ChildIDs) || !shown.Previous.IsZero() || shown.Generation != 1 {
		t.Errorf("%+v", shown)
	}
	for _, n := range leaves {
		shown := decode[api.Shown](t, aerie(t, "show", n.ID.String(), "-o", "json").want(t, exitDone))
		for _, m := range leaves {
			before := m.DocumentID == n.DocumentID && m.ChunkIndex == n.ChunkIndex-1
			after := m.DocumentID == n.DocumentID && m.ChunkIndex == n.ChunkIndex+1
			if before != (shown.Previous == m.ID) || after != (shown.Following == m.ID) {
				t.Errorf("%s is between %s and %s", n.ID, shown.Previous, shown.Following)
			}
		}
		if n.ChunkIndex > 3 {
			break
		}
	}
	r := aerie(t, "show", top.ClusterID).want(t, exitDone)
	if !strings.Contains(r.stdout, "children:\n  "+top.ChildIDs[0].String()[:8]) {
		t.Error(r.stdout)
	}
	aerie(t, "show", "ffffffff-ffff").want(t, exitFailed)
	aerie(t, "show").want(t, exitUsage)
	aerie(t, "show", "x", "--corpus", "brids").want(t, exitFailed)
}
