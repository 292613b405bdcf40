package telemetry_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/tree"
)

// notOfABuild are the metrics that an undisturbed build doesn't move: others are lost leases, and TestLostLeases moves
// those; what a build in full neither keeps, carries nor leaves unseen, which TestProgressMovesWithSettledTasks reads.
var notOfABuild = []string{
	telemetry.LeaseLosses, telemetry.TaskLeaseLosses, telemetry.LevelCarried, telemetry.LevelKept, telemetry.CorpusUnseen,
}

// TestBuildMovesEveryMetric runs two builds, with an endpoint that throttles, gives bad answers and refuses one text,
// and holds that every row of the table has moved, under no label but the allowed ones, and no series for a build, a
// task or a node.
func TestBuildMovesEveryMetric(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{})
	var once sync.Once
	r := newRig(t, rigConfig{endpoint: llmtest.Config{
		Seed: 1, Faults: map[llmtest.Fault]float64{llmtest.RateLimit: 0.2, llmtest.EmptyAnswer: 0.2},
		Chat: func(prompt string, _ int) string {
			once.Do(func() { close(entered) })
			<-gate
			if strings.Contains(prompt, leafText(12)) {
				return "I'm sorry, but I can't assist with that."
			}
			return "A summary of " + prompt[len(prompt)-60:]
		},
	}})

	var during gathered
	var looking sync.WaitGroup
	looking.Go(func() {
		<-entered
		state, err := r.db.Builds().Load(context.Background(), corpusName)
		for err == nil && state.At(1).Phase != levels.Open { // the first task may be taken a moment before
			<-time.After(time.Millisecond)
			state, err = r.db.Builds().Load(context.Background(), corpusName)
		}
		if err == nil {
			err = r.db.Builds().Report(context.Background(), corpusName, levels.Progress{
				Build: state.Build, Holder: "test", At: time.Now(), Running: r.slots, Level: 1,
			})
		}
		if err = errors.Join(err, r.reader.Read(context.Background())); err != nil {
			t.Error(err)
		}
		during = r.gatherWhen(func(g gathered) bool { return g.calls() == float64(r.slots) })
		close(gate)
	})
	report := r.build(false)
	looking.Wait()
	if report.Outcome != api.OutcomeBuilt || len(report.Buried) == 0 {
		t.Fatalf("the build ended as %s with %d buried: %s", report.Outcome, len(report.Buried), report.Why)
	}

	// The summaries are lost, and the journal still has the answers.
	var gone []tree.ID
	r.must(r.store.Each(t.Context(), corpusName, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
		gone = append(gone, n.ID)
		return nil
	}))
	r.must(r.store.Delete(t.Context(), corpusName, gone))
	r.must(r.db.Corpora().Update(t.Context(), corpusName, func(c *levels.Corpus) error { c.Changes += 10; return nil }))
	r.must(r.reader.Read(t.Context()))
	grown := r.gather()
	r.build(true)
	r.must(r.reader.Read(t.Context()))
	r.tel.Query(corpusName)(7, nil)
	r.tel.Query(corpusName)(0, errors.New("no"))
	r.tel.Request("get-status", 200)
	r.tel.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/readyz", nil))
	after := r.gather()

	for _, m := range telemetry.Metrics {
		if !during.moved(m.Name) && !grown.moved(m.Name) && !after.moved(m.Name) && !slices.Contains(notOfABuild, m.Name) {
			t.Errorf("%s has not moved", m.Name)
		}
	}
	checkLabels(t, during, report.Build)
	checkLabels(t, after, report.Build)
	checkSums(t, during)

	level1 := []string{"corpus=" + corpusName, "level=1"}
	for name, want := range map[string]float64{
		telemetry.LevelExpected: leafCount / clusterOf, telemetry.LevelRunning: float64(r.slots), telemetry.LevelLargest: clusterOf * 20,
	} {
		if got := during.at(t, name, level1...); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := grown.at(t, telemetry.CorpusGrowth, level1[0]); got != 10.0/leafCount {
		t.Errorf("growth is %v, want %v", got, 10.0/leafCount)
	}
	if got, want := after.at(t, telemetry.Builds, "cause=", "corpus="+corpusName, "outcome=built"), 2.0; got != want {
		t.Errorf("%v builds are counted, want %v", got, want)
	}
	checkBooks(t, r, during, after)
}

// checkBooks holds the counts of calls against those of the endpoint, and that nothing is under way in the end.
func checkBooks(t *testing.T, r *rig, during, after gathered) {
	t.Helper()
	// What the endpoint has counted is what is exported.
	counts := r.endpoint.Counts()
	sent := 0.0
	for _, m := range after[telemetry.Calls] {
		sent += value(m)
	}
	if got := int(sent); got != counts.Chat+counts.Embeddings {
		t.Errorf("%d calls are counted, the endpoint had %d", got, counts.Chat+counts.Embeddings)
	}
	if got, want := int(after.at(t, telemetry.ThrottledCalls, "model="+chatModel)+after.at(t, telemetry.ThrottledCalls, "model="+embedModel)), counts.Faults[llmtest.RateLimit]; got != want {
		t.Errorf("%d throttled calls are counted, the endpoint had %d", got, want)
	}
	// While the endpoint held its answers back, every slot had a call, of which two at most were under way.
	model := "model=" + chatModel
	if got := during.at(t, telemetry.CallsUnderWay, model); during.calls() != float64(r.slots) || got < 1 || got > 2 {
		t.Errorf("%v calls were under way or waited, %v of them under way; want %d and 1 or 2", during.calls(), got, r.slots)
	}
	for _, name := range []string{telemetry.CallsUnderWay, telemetry.CallsWaiting} {
		if got := after.at(t, name, model); got != 0 {
			t.Errorf("%s is %v after the build", name, got)
		}
	}
	if got := after.at(t, telemetry.BusySlots); got != 0 {
		t.Errorf("%v slots are busy after the build", got)
	}
}

// calls is how many calls for summaries are under way or wait.
func (g gathered) calls() float64 {
	sum := 0.0
	for _, name := range []string{telemetry.CallsUnderWay, telemetry.CallsWaiting} {
		for _, m := range g[name] {
			if slices.Contains(labelsOf(m), "model="+chatModel) {
				sum += value(m)
			}
		}
	}
	return sum
}

// checkSums holds expected = done + queued + running + buried for each level.
func checkSums(t *testing.T, g gathered) {
	t.Helper()
	for _, m := range g[telemetry.LevelExpected] {
		labels := labelsOf(m)
		sum := 0.0
		for _, part := range []string{telemetry.LevelDone, telemetry.LevelQueued, telemetry.LevelRunning, telemetry.LevelBuried} {
			sum += g.at(t, part, labels...)
		}
		if sum != value(m) {
			t.Errorf("%v: done + queued + running + buried = %v, expected %v", labels, sum, value(m))
		}
	}
}

// checkLabels holds that each series of aerie's has the labels of its row and no other, and the outcomes of its row.
func checkLabels(t *testing.T, g gathered, build string) {
	t.Helper()
	rows := map[string]telemetry.Metric{}
	for _, m := range telemetry.Metrics {
		rows[m.Name] = m
	}
	for name, series := range g {
		if !strings.HasPrefix(name, "aerie_") {
			continue
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s is exported, and is no row of the table", name)
			continue
		}
		want := slices.Sorted(slices.Values(row.Labels))
		for _, m := range series {
			var names []string
			for _, l := range m.GetLabel() {
				names = append(names, l.GetName())
				if strings.Contains(l.GetValue(), build) {
					t.Errorf("%s%v names a build", name, labelsOf(m))
				}
				if l.GetName() == telemetry.LabelOutcome && len(row.Outcomes) > 0 && !slices.Contains(row.Outcomes, l.GetValue()) {
					t.Errorf("%s has outcome %q, its row has %v", name, l.GetValue(), row.Outcomes)
				}
			}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("labels of %s (-want +got):\n%s", name, diff)
			}
		}
	}
}
