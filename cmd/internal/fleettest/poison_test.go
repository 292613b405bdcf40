//go:build stack

package fleettest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// poison is an endpoint that kills the worker which asks it about one leaf, as a prompt that takes too much memory would, and
// starts it again, as a supervisor would. Each worker has a path of its own, by which it is known.
type poison struct {
	f      *fleet
	server *httptest.Server

	mu      sync.Mutex
	text    string // what kills; "" once healed
	workers []*process
	kills   int
	errs    []error
	dying   sync.WaitGroup
}

func newPoison(f *fleet, text string) *poison {
	p := &poison{f: f, text: text}
	p.server = httptest.NewServer(p)
	f.t.Cleanup(func() { p.dying.Wait(); p.server.Close() })
	return p
}

// worker starts a worker that asks here.
func (p *poison) worker() {
	p.mu.Lock()
	defer p.mu.Unlock()
	base := fmt.Sprintf("%s/%d/v1", p.server.URL, len(p.workers))
	p.workers = append(p.workers, p.f.worker("--summaries.base_url", base))
}

func (p *poison) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = ""
}

func (p *poison) killed() (int, []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kills, p.errs
}

func (p *poison) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := 0
	if _, err := fmt.Sscanf(r.URL.Path, "/%d/", &who); err != nil {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	deadly := p.text != "" && strings.Contains(string(body), p.text)
	var victim *process
	if deadly {
		p.kills++
		victim = p.workers[who]
		p.dying.Add(1)
	}
	p.mu.Unlock()
	if deadly {
		go func() {
			defer p.dying.Done()
			victim.kill()
			if err := victim.tryStart(); err != nil {
				p.mu.Lock()
				p.errs = append(p.errs, err)
				p.mu.Unlock()
			}
		}()
		<-r.Context().Done() // no answer comes
		return
	}
	r.URL.Path = strings.TrimPrefix(r.URL.Path, fmt.Sprintf("/%d", who))
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.f.endpoint.ServeHTTP(w, r)
}

// TestNats5564PoisonIsBuried: a task that kills its worker each time is buried after max_attempts deaths and two more alone; tasks
// that were in hand beside it are not, everything else is done, and the build says so (also RolnickLab/antenna/issues/1168: it
// must not hang at 17 of 20). Once the cause is gone, retry finishes it without paying for the rest again.
func TestNats5564PoisonIsBuried(t *testing.T) {
	t.Parallel()
	const maxAttempts, blamed = 2, 2
	f := newFleet(t, llmtest.Config{Latency: 200 * time.Millisecond}, map[string]string{
		"queue.ack_wait": "2s", "build.max_attempts": fmt.Sprint(maxAttempts), "build.slots": "3",
	})
	one := f.alone()
	one.must("ingest", f.jsonl(rows(60)))
	one.must("build")
	alone := f.endpoint.Counts()

	server := f.coordinator()
	p := newPoison(f, "Leaf 7 tells")
	p.worker()
	p.worker()
	f.ingest(server, rows(60))
	report := parsed[api.BuildReport](t, f.exits(api.ExitLeftOut, server, "build"))
	if report.Outcome != api.OutcomeDegraded || len(report.Buried) != 1 || report.Buried[0].Cause != "worker_died" {
		t.Errorf("the build is %s: %s; buried %+v", report.Outcome, report.Why, report.Buried)
	}
	if len(report.Levels) != 1 || report.Levels[0].NodesOut != report.Levels[0].Clusters-1 {
		t.Errorf("levels are %+v", report.Levels)
	}
	kills, errs := p.killed()
	if kills != maxAttempts+blamed || len(errs) > 0 {
		t.Errorf("%d workers died, %d are wanted; %v", kills, maxAttempts+blamed, errs)
	}
	f.checkEquation()
	s := f.status(server)
	if s.Build.State != levels.Degraded || len(s.Build.Buried) != 1 || s.Build.Buried[0].Cause != "worker_died" || s.Build.Buried[0].Count != 1 || s.Generation != 0 {
		t.Errorf("status is %+v, build %+v", s, s.Build)
	}

	p.heal()
	p.dying.Wait()
	other := parsed[api.BuildReport](t, f.aerie(server, "retry", "--failed", "--cause", "attempts"))
	if other.Outcome == api.OutcomeBuilt {
		t.Error("a retry of another cause has built")
	}
	finished := parsed[api.BuildReport](t, f.must(server, "retry", "--failed", "--cause", "worker_died"))
	if finished.Outcome != api.OutcomeBuilt || finished.Build != report.Build {
		t.Errorf("after the retry build %s (before: %s) is %s: %s", finished.Build, report.Build, finished.Outcome, finished.Why)
	}
	if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
		t.Errorf("the tree isn't that of an undisturbed build (-undisturbed +fleet):\n%s", diff)
	}
	// Each death may lose the answers of the other slots.
	if paid, most := f.endpoint.Counts().ChatOK-alone.ChatOK, alone.ChatOK+kills*3; paid > most {
		t.Errorf("%d calls were paid for, %d at most are wanted", paid, most)
	}
}
