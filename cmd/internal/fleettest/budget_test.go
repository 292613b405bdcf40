//go:build stack

package fleettest

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// bill counts the tokens of the answers that an endpoint gave, as the endpoint counts them.
type bill struct {
	mu     sync.Mutex
	tokens int
}

func (b *bill) config() llmtest.Config {
	return llmtest.Config{Latency: 30 * time.Millisecond, Chat: func(prompt string, most int) string {
		text := llmtest.Summary(prompt, most)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tokens += llmtest.Tokens(prompt) + llmtest.Tokens(text)
		return text
	}}
}

func (b *bill) spent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokens
}

// TestRagflow7957BudgetPausesTheFleet: a build stops before it would spend more than it may, keeps what it has, and a larger budget
// goes on without paying twice.
func TestRagflow7957BudgetPausesTheFleet(t *testing.T) {
	t.Parallel()
	var paid bill
	f := newFleet(t, paid.config(), nil)
	server := f.coordinator()
	f.worker()
	f.worker()
	f.ingest(server, rows(80))
	const budget = 4000

	report := parsed[api.BuildReport](t, f.exits(api.ExitBudget, server, "build", "--max-tokens", fmt.Sprint(budget)))
	checkPaused(t, f, report, &paid, budget)
	// The coordinator's own configuration has no budget; what was asked for with the build stands, though nobody looks.
	f.coordinator()
	spent, paused := paid.spent(), f.state()
	throughout(t, 6*time.Second, func() string { // both have looked at the corpus more than once
		if s := f.state(); s.Status != levels.Paused || !s.Updated.Equal(paused.Updated) {
			return fmt.Sprintf("the build is %s again, though nobody asked for more", s.Status)
		}
		return ""
	})
	if got := paid.spent(); got != spent {
		t.Errorf("%d tokens were spent while the build was paused", got-spent)
	}
	report = f.built(server, "--max-tokens", "1000000")
	if paid.spent() <= spent || f.endpoint.Counts().Repeated != 0 {
		t.Errorf("%d tokens before, %d after; %d calls were paid for twice", spent, paid.spent(), f.endpoint.Counts().Repeated)
	}
	if want := f.endpoint.Counts().ChatOK; report.Calls != want {
		t.Errorf("%d calls are reported, %d were made", report.Calls, want)
	}
}

func checkPaused(t *testing.T, f *fleet, report api.BuildReport, paid *bill, budget int) {
	t.Helper()
	if report.Outcome != api.OutcomePaused || report.Cause != levels.CauseBudget {
		t.Errorf("the build is %s: %s", report.Outcome, report.Why)
	}
	f.untilIdle()
	f.checkEquation()
	if got := paid.spent(); got > budget || got < budget/2 {
		t.Errorf("%d tokens were spent of %d", got, budget)
	}
	if s := f.status(nil); s.Build == nil || s.Build.State != levels.Paused || s.Generation != 0 {
		t.Errorf("status is %+v", s)
	}
}

// TestBudgetOutlivesItsCoordinator: a budget that was asked for through one coordinator holds when another goes on.
func TestBudgetOutlivesItsCoordinator(t *testing.T) {
	t.Parallel()
	var paid bill
	config := paid.config()
	config.Latency = 400 * time.Millisecond
	f := newFleet(t, config, map[string]string{"build.slots": "2"})
	first := f.coordinator()
	f.coordinator()
	f.worker()
	f.ingest(first, rows(80))
	const budget = 4000
	most := budget
	if _, err := f.client(first).Start(t.Context(), f.corpus, api.Start{BuildRequest: api.BuildRequest{MaxTokens: &most}}); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "a call was paid", func() (bool, string) { return paid.spent() > 0, "" })
	first.signal(syscall.SIGTERM)
	if code := first.exit(20 * time.Second); code != 0 {
		t.Errorf("the coordinator left with %d", code)
	}
	if s := f.state(); s.Resting() {
		t.Fatalf("the build is %s %s: it was not handed over", s.Status, s.Why)
	}
	state := f.untilRest(time.Minute)
	if state.Status != levels.Paused || state.Cause != levels.CauseBudget {
		t.Errorf("the build is %s: %s", state.Status, state.Why)
	}
	f.untilIdle()
	f.checkEquation()
	if got := paid.spent(); got > budget {
		t.Errorf("%d tokens were spent of %d", got, budget)
	}
}

// untilIdle waits until no worker has a call in hand: what was begun before a pause is finished.
func (f *fleet) untilIdle() {
	f.t.Helper()
	before, since := -1, time.Now()
	until(f.t, 20*time.Second, "no call is under way", func() (bool, string) {
		if n := f.endpoint.Counts().Chat; n != before {
			before, since = n, time.Now()
		}
		const longest = 2 * time.Second // twice what a call takes in the tests that ask: then the last answer has come, and is in the journal
		return time.Since(since) > longest, fmt.Sprint(before)
	})
}
