//go:build stack

package fleettest

import (
	"bytes"
	"fmt"
	"io"
	"net"
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

// refusing is an endpoint that refuses one request of level 2, until it is healed.
type refusing struct {
	f      *fleet
	after  int // calls of level 1
	server *httptest.Server

	mu     sync.Mutex
	body   string // that is refused
	healed bool
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	if r.body == "" && r.f.endpoint.Counts().ChatOK >= r.after {
		r.body = string(body)
	}
	refuse := !r.healed && string(body) == r.body
	r.mu.Unlock()
	if refuse {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error": {"message": "This can't be done.", "type": "invalid_request_error", "code": "invalid_request_error"}}`)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.f.endpoint.ServeHTTP(w, req)
}

// TestRagflow2851OnlyWhatFailedRunsAgain: one task of level 2 fails. The build stops with it, a second start pays for nothing, and a
// retry runs that one task only (also infiniflow/ragflow/issues/11483 and, since the task is queued again at once,
// kubewarden/sbomscanner/pull/281).
func TestRagflow2851OnlyWhatFailedRunsAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	const first, second = 12, 3 // tasks of the levels
	r := &refusing{f: f, after: first}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	server := f.coordinator()
	f.worker("--summaries.base_url", r.server.URL+"/v1")
	f.worker("--summaries.base_url", r.server.URL+"/v1")
	f.ingest(server, rows(60))
	report := parsed[api.BuildReport](t, f.exits(api.ExitLeftOut, server, "build"))
	if len(report.Levels) != 2 || report.Levels[0].Clusters != first || report.Levels[1].Clusters != second || len(report.Buried) != 1 || report.Buried[0].Level != 2 {
		t.Fatalf("the build is %s: %s; levels %+v, buried %+v", report.Outcome, report.Why, report.Levels, report.Buried)
	}
	f.checkEquation()
	f.exits(api.ExitLeftOut, server, "build")
	if got := f.endpoint.Counts().ChatOK; got != first+second-1 {
		t.Errorf("%d calls were paid for before the retry, %d are wanted", got, first+second-1)
	}
	r.mu.Lock()
	r.healed = true
	r.mu.Unlock()
	finished := parsed[api.BuildReport](t, f.must(server, "retry", "--failed"))
	if finished.Outcome != api.OutcomeBuilt || finished.Build != report.Build || finished.Calls != first+second {
		t.Errorf("after the retry: %+v", finished)
	}
	if got := f.endpoint.Counts().ChatOK; got != first+second {
		t.Errorf("%d calls were paid for, %d are wanted", got, first+second)
	}
	f.untilBuilt(time.Second)
}

// TestNats1929LongTasksRunOnce: calls that take three times as long as the lease on a task are made once: the lease is renewed while
// they run (also taskiq-python/taskiq-nats/issues/16 and celery/celery/issues/5935).
func TestNats1929LongTasksRunOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 4500 * time.Millisecond}, map[string]string{"queue.ack_wait": "1500ms", "build.slots": "8"})
	server := f.coordinator()
	f.worker()
	f.worker()
	f.ingest(server, rows(60))
	report := f.built(server)
	if got := f.calls.Load(); got != int64(report.Calls) || f.endpoint.Counts().Repeated != 0 {
		t.Errorf("%d calls were made for %d tasks, %d of them again", got, report.Calls, f.endpoint.Counts().Repeated)
	}
	if n := f.attempts(); n.Started != report.Calls || n.Failed+n.Returned != 0 {
		t.Errorf("attempts are %+v for %d tasks", n, report.Calls)
	}
}

// TestRagflow11640WorkersAreKilledAgainAndAgain: a worker is killed every other second. The build ends all the same, and no more is
// paid for twice than the calls that were under way.
func TestRagflow11640WorkersAreKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const slots = 2
	f := newFleet(t, llmtest.Config{Latency: 400 * time.Millisecond}, map[string]string{"queue.ack_wait": "1s", "build.slots": fmt.Sprint(slots)})
	server := f.coordinator()
	workers := []*process{f.worker(), f.worker()}
	f.begun(server, 1)
	kills := 0
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); !f.state().Resting(); {
		<-tick.C
		w := workers[kills%len(workers)]
		w.kill()
		kills++
		w.start()
		if time.Now().After(deadline) {
			t.Fatalf("after %d kills the build still runs: %+v", kills, f.state())
		}
	}
	state := f.state()
	if n, most := f.endpoint.Counts().ChatOK, tasksOf(state)+kills*slots; n > most || kills < 2 {
		t.Errorf("%d calls were paid for with %d tasks and %d kills", n, tasksOf(state), kills)
	}
	f.untilBuilt(time.Second)
}

// line is a connection to a server that can be cut.
type line struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	group sync.WaitGroup
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &line{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.group.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.set(true)
		p.group.Wait()
	})
	return p
}

// set cuts the line, or mends it.
func (p *line) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for conn := range p.conns {
		if cut {
			conn.Close()
		}
	}
}

func (p *line) serve() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.cut {
			from.Close()
			if err == nil {
				to.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[from], p.conns[to] = true, true
		p.mu.Unlock()
		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			p.group.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
				pair[1].Close()
				p.mu.Lock()
				defer p.mu.Unlock()
				delete(p.conns, pair[0])
			})
		}
	}
}

// TestGraphragToolkit41StoreIsAwayAfterTheCall: calls are answered and paid for, the node can't be written, and the worker is killed.
// Whoever has the task next finds the answer in the journal.
func TestGraphragToolkit41StoreIsAwayAfterTheCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: time.Second}, map[string]string{"queue.ack_wait": "2s"})
	rest, grpc := newLine(t, shared.Weaviate.Address), newLine(t, shared.GRPC)
	server := f.coordinator()
	away := []string{"--store.url", "http://" + rest.listener.Addr().String(), "--store.grpc_url", grpc.listener.Addr().String()}
	w := f.worker(away...)
	f.begun(server, 4)
	rest.set(true)
	grpc.set(true)
	until(t, 20*time.Second, "the calls are answered", func() (bool, string) {
		n := f.endpoint.Counts().ChatOK
		return n >= 4, fmt.Sprint(n)
	})
	f.untilIdle() // what it has in hand is answered, too, and it tries to write
	w.kill()
	paid := f.endpoint.Counts().ChatOK
	f.worker() // which can reach the store
	state := f.untilRest(time.Minute)
	if c := f.endpoint.Counts(); c.Repeated != 0 || c.ChatOK != tasksOf(state) {
		t.Errorf("%d calls for %d tasks, %d of them again; %d were paid for before the kill", c.ChatOK, tasksOf(state), c.Repeated, paid)
	}
	f.untilBuilt(time.Second)
}

// TestRagflow1272CancelTakesEffect: a build can be stopped for good while its workers are busy. It rests within seconds, its tasks
// are gone, and no call is made for it any more.
func TestRagflow1272CancelTakesEffect(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 500 * time.Millisecond}, map[string]string{"build.slots": "1"})
	server := f.coordinator()
	f.worker()
	b := f.begun(server, 2)
	c := f.client(server)
	if now, err := c.Build(t.Context(), f.corpus, b.Build); err != nil || len(now.Levels) != 1 || now.Levels[0].Expected != 12 || now.Resting {
		t.Errorf("progress is %+v, %v", now, err)
	}
	if _, err := c.Stop(t.Context(), f.corpus, b.Build, true); err != nil {
		t.Fatal(err)
	}
	state := f.untilRest(10 * time.Second)
	if state.Status != levels.Cancelled {
		t.Errorf("the build is %s: %s", state.Status, state.Why)
	}
	f.untilIdle()
	if n := f.calls.Load(); n >= 12 {
		t.Errorf("%d calls were made", n)
	}
	s := f.status(server)
	if s.Generation != 0 || s.Build.State != levels.Cancelled || s.Summaries != 0 {
		t.Errorf("status is %+v", s)
	}
	paid := f.endpoint.Counts().ChatOK
	report := f.built(server) // another build, by the wish of a person, uses what was paid for
	if report.Build == b.Build || f.endpoint.Counts().Repeated != 0 || report.Reused != paid {
		t.Errorf("build %s (cancelled: %s): %d calls, %d reused, %d were paid before", report.Build, b.Build, report.Calls, report.Reused, paid)
	}
}

// TestLightRAG198OtherVectorsAreRefused: a corpus that holds vectors of one model takes none of another, from any place of the fleet,
// and stays as it is.
func TestLightRAG198OtherVectorsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	server := f.coordinator()
	f.worker()
	f.ingest(server, rows(40))
	f.built(server)
	before, tree := f.status(server), f.summaries()
	other := map[string]string{"embeddings.provider": "openai", "embeddings.base_url": fmt.Sprintf("%q", f.url), "embeddings.model": "fake"}
	f.write("other.yaml", yaml(f.settings, other, f.urls()))
	for _, command := range [][]string{{"ingest", f.jsonl(rows(45))}, {"build", "--force"}} {
		r := aerieProcess(t.Context(), f.dir, plainEnv(), append(command, "--corpus", f.corpus, "--config", "other.yaml")...)
		if r.exit != api.ExitUsage || !strings.Contains(r.stderr, "lexical") {
			t.Errorf("exit %d and both models are wanted: %v", api.ExitUsage, r)
		}
	}
	if diff := cmp.Diff(before, f.status(server)); diff != "" {
		t.Errorf("the corpus is another (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(tree, f.summaries()); diff != "" {
		t.Errorf("the tree is another (-before +after):\n%s", diff)
	}
}
