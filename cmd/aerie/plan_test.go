package main

import (
	"math"
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

// TestPlanShowsBothPrices: with a price for batches a plan says what the same calls cost in batches, and without one nothing of it.
func TestPlanShowsBothPrices(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	t.Setenv("AERIE_PRICES", "{extractive-1: {input: 1000, output: 4000, batch_input: 500, batch_output: 2000, currency: EUR}}")
	plan := decode[api.Estimate](t, aerie(t, "plan", "-o", "json").want(t, exitDone))
	if plan.Cost == nil || plan.BatchCost == nil || plan.Cost.Amount == 0 || plan.BatchCost.Currency != "EUR" {
		t.Fatalf("cost %+v, in batches %+v", plan.Cost, plan.BatchCost)
	}
	if half := plan.Cost.Amount / 2; math.Abs(plan.BatchCost.Amount-half) > 1e-9*half {
		t.Errorf("in batches %v, want half of %v", plan.BatchCost.Amount, plan.Cost.Amount)
	}
	if text := aerie(t, "plan").want(t, exitDone).stdout; !strings.Contains(text, " EUR in batches)") {
		t.Error(text)
	}
	t.Setenv("AERIE_PRICES", "{extractive-1: {input: 1000, output: 4000}}")
	if out := aerie(t, "plan").want(t, exitDone).stdout; strings.Contains(out, "batches") || !strings.Contains(out, " USD") {
		t.Error(out)
	}
}
