//go:build stack

package fleettest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestEndToEnd does what a user does, once directly on the places and once through a coordinator. The tree must be that of the
// embedded mode, node by node.
func TestEndToEnd(t *testing.T) {
	for _, through := range []string{"places", "server"} {
		t.Run(through, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, llmtest.Config{}, map[string]string{"build.schedule": `""`})
			var server *process
			if through == "server" {
				server = f.coordinator()
				f.worker()
				f.worker()
			}
			one := f.alone()
			firstGeneration(t, f, server, one)
			if server == nil { // growth needs somebody who watches
				f.coordinator()
				f.worker()
			}
			secondGeneration(t, f, server, one)
		})
	}
}

func firstGeneration(t *testing.T, f *fleet, server *process, one *alone) {
	file := f.jsonl(rows(40))
	one.must("ingest", file)
	one.must("build")
	paid := f.endpoint.Counts().ChatOK

	ingested := parsed[api.IngestReport](t, f.must(server, "ingest", file))
	if ingested.Documents.Added != 8 || ingested.Leaves.Total != 40 {
		t.Errorf("ingested %+v", ingested)
	}
	plan := parsed[api.Estimate](t, f.must(server, "plan"))
	report := f.built(server)
	if len(report.Levels) < 2 || report.Generation != 1 || len(plan.Levels) == 0 || plan.Levels[0].Clusters != report.Levels[0].Clusters {
		t.Errorf("planned %+v, built %+v", plan, report)
	}
	if got := f.endpoint.Counts().ChatOK - paid; got != paid || report.Calls != paid {
		t.Errorf("%d calls were made, and %d reported; the embedded build took %d", got, report.Calls, paid)
	}
	if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
		t.Errorf("the tree isn't that of the embedded build (-embedded +fleet):\n%s", diff)
	}
	again := parsed[api.BuildReport](t, f.must(server, "build"))
	if again.Outcome != api.OutcomeNothingToDo {
		t.Errorf("a second build is %s: %s", again.Outcome, again.Why)
	}
	found := parsed[retrieve.Result](t, f.must(server, "query", "violin varnish and rosin"))
	if len(found.Hits) == 0 || !strings.Contains(found.Hits[0].Text, "violin") {
		t.Errorf("the query found %+v", found.Hits)
	}
	s := f.status(server)
	if s.Generation != 1 || s.Leaves != 40 || s.Documents != 8 || s.Build == nil || s.Build.State != levels.Built || len(s.Build.Levels) != len(report.Levels) {
		t.Errorf("status is %+v, build %+v", s, s.Build)
	}
	for _, l := range s.Build.Levels {
		if l.Done != l.Expected || l.Expected == 0 || l.Queued+l.Running+l.Buried != 0 {
			t.Errorf("a level's status is %+v", l)
		}
	}
}

func secondGeneration(t *testing.T, f *fleet, server *process, one *alone) {
	gone := []string{"d003", "d004"}
	one.must(append([]string{"delete"}, gone...)...)
	one.must("build")
	deleted := parsed[api.IngestReport](t, f.must(server, append([]string{"delete"}, gone...)...))
	if deleted.Documents.Removed != 2 || deleted.Leaves.Removed != 10 {
		t.Errorf("deleted %+v", deleted)
	}
	found := parsed[retrieve.Result](t, f.must(server, "query", "violin varnish and rosin"))
	if hit := ofDocuments(found, gone); hit != "" {
		t.Errorf("a query after the deletion found %s", hit)
	}
	if s := f.status(server); s.Generation == 1 && (s.Growth == nil || *s.Growth < 0.25 || !strings.HasPrefix(s.NextBuild, "due")) {
		t.Errorf("status after the deletion is %+v", s)
	}
	until(t, 90*time.Second, "growth has built generation 2 by itself", func() (bool, string) {
		record, err := f.open().Corpora.Load(t.Context(), f.corpus)
		if err != nil {
			return false, err.Error()
		}
		return record.Generation == 2, fmt.Sprint("generation ", record.Generation)
	})
	state := f.untilRest(20 * time.Second)
	if state.Status != levels.Built || !strings.HasPrefix(state.Trigger, "growth") {
		t.Errorf("the build is %s, because of %q", state.Status, state.Trigger)
	}
	if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
		t.Errorf("the second tree isn't that of the embedded build (-embedded +fleet):\n%s", diff)
	}
	var removed api.Collected
	until(t, 20*time.Second, "gc has nothing left to remove", func() (bool, string) {
		r := f.aerie(server, "gc")
		if r.exit != 0 { // the coordinator may not have let go of the build yet
			return false, r.String()
		}
		removed = parsed[api.Collected](t, r)
		return removed.Removed == 0, fmt.Sprintf("%+v", removed)
	})
	if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
		t.Errorf("after gc the tree is another (-embedded +fleet):\n%s", diff)
	}
}

// ofDocuments returns a hit that stems from one of the documents.
func ofDocuments(r retrieve.Result, documents []string) string {
	for _, hit := range r.Hits {
		for _, d := range hit.DocumentIDs {
			if slices.Contains(documents, d) {
				return hit.Text
			}
		}
	}
	return ""
}
