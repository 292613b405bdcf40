//go:build stack

package fleettest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

const perMinute = 60

// TestGraphrag1620FleetKeepsToTheLimit: limits are those of the fleet and not of each process. Four workers share an endpoint that
// refuses more than 60 requests a minute, and are told so: hardly any request is refused, and nothing counts as failed.
func TestGraphrag1620FleetKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{RequestsPerMinute: perMinute}, map[string]string{"limits.requests_per_minute": fmt.Sprint(perMinute)})
	waits := limitedBuild(t, f)
	counts := f.endpoint.Counts()
	t.Logf("%d requests, %d refused", counts.Chat, counts.Limited)
	// The endpoint's bucket holds a single request; what the network jitters between two is a refusal that a limiter can't foresee.
	if counts.Limited > counts.ChatOK/5 {
		t.Errorf("%d of %d requests were refused", counts.Limited, counts.Chat)
	}
	if !strings.Contains(waits, "the fleet's limit until") {
		t.Errorf("status never named the limit as what is waited for: %q", waits)
	}
}

// TestRagflow5867RefusalsBuryNothing: the endpoint refuses more than 60 requests a minute and nobody has told the fleet. It finds
// out, waits as it is told, and counts no attempt.
func TestRagflow5867RefusalsBuryNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{RequestsPerMinute: perMinute}, nil)
	waits := limitedBuild(t, f)
	counts := f.endpoint.Counts()
	t.Logf("%d requests, %d refused", counts.Chat, counts.Limited)
	if counts.Limited == 0 {
		t.Error("the endpoint refused nothing: this test shows nothing")
	}
	if counts.Limited > 4*counts.ChatOK {
		t.Errorf("%d requests were refused for %d that were answered: the fleet doesn't adapt", counts.Limited, counts.ChatOK)
	}
	if !strings.Contains(waits, "429") {
		t.Errorf("status never named the refusals as what is waited for: %q", waits)
	}
}

// limitedBuild builds a small corpus with four workers, and returns all that status said it waits for.
func limitedBuild(t *testing.T, f *fleet) (waits string) {
	t.Helper()
	server := f.coordinator()
	for range 4 {
		f.worker()
	}
	f.ingest(server, rows(60))
	c := f.client(server)
	begun, err := c.Start(t.Context(), f.corpus, api.Start{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	until(t, 2*time.Minute, "the build rests", func() (bool, string) {
		b, err := c.Build(t.Context(), f.corpus, begun.Build)
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range b.WaitingFor {
			seen[wait] = true
		}
		return b.Resting, fmt.Sprintf("%+v", b.BuildStatus)
	})
	state := f.state()
	if state.Status != levels.Built || len(state.BuriedCount) > 0 {
		t.Fatalf("the build is %s: %s; buried %v", state.Status, state.Why, state.BuriedCount)
	}
	if n := f.attempts(); n.Failed != 0 || n.Started == 0 || n.Started-n.Returned != tasksOf(state) {
		t.Errorf("attempts are %+v; %d tasks, none failed, are wanted", n, tasksOf(state))
	}
	if r := f.endpoint.Counts().Repeated; r != 0 {
		t.Errorf("%d calls were paid for twice", r)
	}
	var all []string
	for wait := range seen {
		all = append(all, wait)
	}
	return strings.Join(all, "; ")
}

// tasksOf is the number of tasks of a build.
func tasksOf(s *levels.State) int {
	n := 0
	for _, l := range s.Levels {
		n += l.Total
	}
	return n
}
