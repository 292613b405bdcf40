package main

import (
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
)

// TestSeeds10 (Seeds 10): a plan prices fewer, larger clusters, and what it says of them is what a plan under those settings says.
func TestSeeds10(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	plan := decode[api.Estimate](t, aerie(t, "plan", "-o", "json").want(t, exitDone))
	if len(plan.Alternatives) != 2 {
		t.Fatalf("%+v", plan.Alternatives)
	}
	for i, flags := range [][]string{
		{"--clustering.mode", "flat"}, {"--clustering.max_cluster_tokens", "7000", "--clustering.max_clusters", "2"},
	} {
		a := plan.Alternatives[i]
		same := decode[api.Estimate](t, aerie(t, append([]string{"plan", "-o", "json"}, flags...)...).want(t, exitDone))
		if a.Calls != same.Calls || a.InputTokens != same.InputTokens || a.Clusters != same.Levels[0].Clusters || a.Calls >= plan.Calls {
			t.Errorf("%s: %+v, of %d calls; planned under those settings: %+v", a.Settings, a, plan.Calls, same)
		}
		for _, flag := range flags {
			if name := strings.TrimPrefix(flag, "--clustering."); name != flag && !strings.Contains(a.Settings, name) {
				t.Errorf("%q doesn't name %s", a.Settings, name)
			}
		}
	}
	text := aerie(t, "plan").want(t, exitDone).stdout
	if !strings.Contains(text, "clustering.mode flat: about ") {
		t.Error(text)
	}
}
