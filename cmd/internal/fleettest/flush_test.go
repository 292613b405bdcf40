//go:build stack

package fleettest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// flush empties Redis, as a server without its file would be after a restart.
func (f *fleet) flush() {
	f.t.Helper()
	if got := f.redis("FLUSHALL"); got != "+OK" {
		f.t.Fatal(got)
	}
}

// TestRedisIsFlushedBetweenBuilds: the record of the corpus and the state of its build come back from their copies. Nothing is built
// because of it, status tells what it told before, and growth goes on from the same baseline.
func TestRedisIsFlushedBetweenBuilds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, map[string]string{"build.schedule": `""`})
	server := f.coordinator()
	f.worker()
	f.ingest(server, rows(40))
	f.built(server)
	f.ingest(server, rows(43)) // less than growth needs
	before, state, calls := f.status(server), f.state(), f.endpoint.Counts().Chat
	record, err := f.open().Corpora.Load(t.Context(), f.corpus)
	if err != nil {
		t.Fatal(err)
	}

	f.flush()
	if diff := cmp.Diff(before, f.status(server)); diff != "" {
		t.Errorf("status is another (-before +after):\n%s", diff)
	}
	throughout(t, 15*time.Second, func() string { // longer than growth waits for quiet
		if s := f.state(); s.Build != state.Build || s.Status != levels.Built {
			return fmt.Sprintf("build %s is %s", s.Build, s.Status)
		}
		return ""
	})
	if got := f.endpoint.Counts().Chat; got != calls {
		t.Errorf("%d calls were made", got-calls)
	}
	if diff := cmp.Diff(before, f.status(server)); diff != "" {
		t.Errorf("status is another (-before +later):\n%s", diff)
	}

	f.flush() // so that the epoch has to come from the record, too
	f.ingest(server, rows(50))
	next := f.built(server)
	after, err := f.open().Corpora.Load(t.Context(), f.corpus)
	if err != nil {
		t.Fatal(err)
	}
	if next.Generation != 2 || after.Epoch <= record.Epoch || after.Changes != record.Changes+7 || after.Baseline == nil || after.Baseline.Leaves != 50 {
		t.Errorf("generation %d; the record was %+v and is %+v", next.Generation, record, after)
	}
}

// TestAsynq1144RedisIsFlushedDuringABuild: barrier, lease and limits are gone in the middle of a build. It goes on by itself to the
// same tree, and pays for nothing twice; the budget that was asked for holds.
func TestAsynq1144RedisIsFlushedDuringABuild(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 500 * time.Millisecond}, map[string]string{"build.slots": "2", "server.lease": "3s"})
	server := f.coordinator()
	f.worker()
	b := f.begun(server, 5)
	f.flush()
	state := f.untilRest(time.Minute)
	if state.Build != b.Build {
		t.Errorf("build %s was begun, and %s rests", b.Build, state.Build)
	}
	if n := f.endpoint.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
	if n := f.attempts(); n.Failed != 0 {
		t.Errorf("attempts are %+v", n)
	}
	f.untilBuilt(time.Second)
	if s := f.status(server); s.Generation != 1 || s.Build.State != levels.Built || s.BaselineLeaves == nil || *s.BaselineLeaves != 60 {
		t.Errorf("status is %+v", s)
	}
}

// TestRedisIsFlushedWhilePaused: what a build has spent, and what it may, comes back when it goes on.
func TestRedisIsFlushedWhilePaused(t *testing.T) {
	t.Parallel()
	var paid bill
	f := newFleet(t, paid.config(), nil)
	server := f.coordinator()
	f.worker()
	f.ingest(server, rows(80))
	const first, second = 3000, 5000
	f.exits(4, server, "build", "--max-tokens", fmt.Sprint(first))
	f.untilIdle()
	spent := paid.spent()
	f.flush()
	r := f.exits(4, server, "build", "--max-tokens", fmt.Sprint(second))
	f.untilIdle()
	if got := paid.spent(); got <= spent || got > second {
		t.Errorf("%d tokens were spent of %d, and then %d of %d", spent, first, got, second)
	}
	if !strings.Contains(r.stderr, fmt.Sprint(second)) {
		t.Errorf("the bound isn't named: %v", r)
	}
	f.checkEquation()
	if n := f.endpoint.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
}
