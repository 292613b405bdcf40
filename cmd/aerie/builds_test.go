package main

import (
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
)

// TestBuildsKeepsHistory: every build stays in the history with what its report said, over processes.
func TestBuildsKeepsHistory(t *testing.T) {
	fixtures := fresh(t)
	t.Setenv("AERIE_PRICES", "{extractive-1: {input: 1000, output: 4000}}")
	aerie(t, "ingest", fixtures).want(t, exitDone)
	if text := aerie(t, "builds").want(t, exitDone).stdout; !strings.Contains(text, "nothing was built yet") {
		t.Error(text)
	}
	var reports []api.BuildReport
	for _, seed := range []string{"1", "2"} {
		args := []string{"build", "--force", "--full", "--clustering.seed", seed, "-o", "json"}
		reports = append(reports, decode[api.BuildReport](t, aerie(t, args...).want(t, exitDone)))
	}
	past := decode[api.PastBuilds](t, aerie(t, "builds", "-o", "json").want(t, exitDone)).Builds
	if len(past) != len(reports) {
		t.Fatalf("%d builds, want %d", len(past), len(reports))
	}
	for i, r := range reports {
		b := past[i]
		if b.Build != r.Build || b.Outcome != r.Outcome || b.Usage != r.Usage || b.Generation != i+1 || b.Cost == nil || r.Cost == nil || *b.Cost != *r.Cost || b.Calls == 0 {
			t.Errorf("history has %+v, its report said %+v", b, r)
		}
	}
	if text := aerie(t, "builds").want(t, exitDone).stdout; !strings.Contains(text, past[0].Build) || !strings.Contains(text, " USD") {
		t.Error(text)
	}
}
