//go:build stack

package fleettest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/stack"
	"github.com/aerie-rag/aerie/internal/tree"
)

// fleet is the servers of one test, and the daemons that it starts.
type fleet struct {
	t        *testing.T
	dir      string
	corpus   string
	stack    *stack.Stack // NATS and Redis are its own
	endpoint *llmtest.Server
	url      string       // of the endpoint
	calls    atomic.Int64 // that have come to it, those under way included
	settings map[string]string
	places   *wire.Places
	workers  int
	leaders  int
}

// never is a schedule that keeps growth from starting builds while a test runs.
const never = `"0 0 29 2 *"`

var corpora atomic.Int64

// corpusOf names a corpus that no other test has, nor the same one when it runs again: Weaviate is shared.
func corpusOf(name string) string {
	return fmt.Sprintf("%s-%d", strings.NewReplacer("/", "-", "_", "-").Replace(name), corpora.Add(1))
}

// newFleet starts the servers of a test. settings are config keys with their values as they stand in YAML; those of the places,
// of a small corpus's clustering and of the endpoint are set already.
func newFleet(t *testing.T, endpoint llmtest.Config, settings map[string]string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), corpus: corpusOf(t.Name())}
	f.endpoint = llmtest.NewHandler(endpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		f.endpoint.ServeHTTP(w, r)
	}))
	f.url = server.URL + "/v1"
	t.Cleanup(server.Close)
	f.stack = &stack.Stack{Folder: filepath.Join(f.dir, "stack")}
	t.Cleanup(func() {
		if err := errors.Join(f.stack.NATS.Kill(context.Background()), f.stack.Redis.Kill(context.Background())); err != nil {
			t.Error(err)
		}
	})
	for _, start := range []func(context.Context) error{f.stack.StartNATS, f.stack.StartRedis} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.settings = map[string]string{
		"queue.ack_wait": "5s", "server.lease": "15s", "worker.grace": "5s", "build.slots": "4", "build.schedule": never,
		"summaries.provider": "openai", "summaries.base_url": fmt.Sprintf("%q", f.url), "summaries.model": "fake",
		"clustering.mode": "kmeans", "clustering.target_cluster_size": "5",
	}
	maps.Copy(f.settings, settings)
	f.write("fleet.yaml", yaml(f.settings, f.urls()))
	return f
}

// urls are the places, as config keys.
func (f *fleet) urls() map[string]string {
	own, common := f.stack.URLs(), shared.URLs()
	return map[string]string{
		"queue.url": own["queue.url"], "state.url": own["state.url"], "store.url": common["store.url"], "store.grpc_url": common["store.grpc_url"],
	}
}

// yaml writes settings as a configuration file.
func yaml(all ...map[string]string) string {
	sections := map[string][]string{}
	for _, settings := range all {
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			section, name, _ := strings.Cut(key, ".")
			sections[section] = append(sections[section], name+": "+settings[key])
		}
	}
	var b strings.Builder
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&b, "%s: {%s}\n", section, strings.Join(sections[section], ", "))
	}
	return b.String()
}

func (f *fleet) write(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *fleet) file() string { return filepath.Join(f.dir, "fleet.yaml") }

// daemon returns a process of the fleet that isn't started yet.
func (f *fleet) daemon(program, name string, args ...string) *process {
	p := &process{
		t: f.t, name: name, program: program, env: plainEnv(), address: freeAddress(f.t), log: filepath.Join(f.dir, name+".log"),
		args: append([]string{"--config", f.file()}, args...),
	}
	listen := "--server-listen"
	if program == "worker" {
		listen = "--worker-listen"
	}
	p.args = append(p.args, listen, p.address)
	f.t.Cleanup(p.stop)
	return p
}

// coordinator starts one more coordinator and waits until it is ready.
func (f *fleet) coordinator(args ...string) *process {
	f.t.Helper()
	f.leaders++
	p := f.daemon("coordinator", fmt.Sprint("coordinator-", f.leaders), args...)
	p.start()
	p.untilReady()
	return p
}

// worker starts one more worker and waits until it is ready.
func (f *fleet) worker(args ...string) *process {
	f.t.Helper()
	f.workers++
	p := f.daemon("worker", fmt.Sprint("worker-", f.workers), args...)
	p.start()
	p.untilReady()
	return p
}

// client returns a client of a coordinator.
func (f *fleet) client(p *process) *client.Client {
	f.t.Helper()
	c, err := client.New(client.Config{URL: "http://" + p.address, Patience: 20 * time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

// aerie runs a command on the fleet's places, and with a coordinator through that.
func (f *fleet) aerie(through *process, args ...string) ran {
	f.t.Helper()
	args = append(args, "--corpus", f.corpus, "--output", "json")
	if through != nil {
		args = append(args, "--server", "http://"+through.address)
	} else {
		args = append(args, "--config", f.file())
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Minute)
	defer cancel()
	return aerieProcess(ctx, f.dir, plainEnv(), args...)
}

// must is aerie for commands that succeed.
func (f *fleet) must(through *process, args ...string) ran {
	f.t.Helper()
	return f.exits(0, through, args...)
}

// exits is aerie for commands that leave with a code.
func (f *fleet) exits(code int, through *process, args ...string) ran {
	f.t.Helper()
	r := f.aerie(through, args...)
	if r.exit != code {
		f.t.Fatalf("exit %d is wanted of %v", code, r)
	}
	return r
}

// built is aerie build that ends with a new generation.
func (f *fleet) built(through *process, args ...string) api.BuildReport {
	f.t.Helper()
	report := parsed[api.BuildReport](f.t, f.must(through, append([]string{"build"}, args...)...))
	if report.Outcome != api.OutcomeBuilt {
		f.t.Fatalf("the build is %s: %s", report.Outcome, report.Why)
	}
	return report
}

func (f *fleet) status(through *process) api.CorpusStatus {
	f.t.Helper()
	s := parsed[api.Status](f.t, f.must(through, "status"))
	if len(s.Corpora) != 1 || s.Corpora[0].Corpus != f.corpus {
		f.t.Fatalf("status tells of %+v", s.Corpora)
	}
	return s.Corpora[0]
}

// open returns the places, to look at what stands there.
func (f *fleet) open() *wire.Places {
	f.t.Helper()
	if f.places != nil {
		return f.places
	}
	cfg, _, err := config.Load(config.Options{File: f.file()})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.places, err = wire.Fleet(f.t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := f.places.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return f.places
}

func (f *fleet) state() *levels.State {
	f.t.Helper()
	state, err := f.open().Builds.Load(f.t.Context(), f.corpus)
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

// untilRest waits until the newest build rests.
func (f *fleet) untilRest(within time.Duration) *levels.State {
	f.t.Helper()
	var state *levels.State
	until(f.t, within, "the build rests", func() (bool, string) {
		var err error
		state, err = f.open().Builds.Load(f.t.Context(), f.corpus)
		if err != nil {
			return false, err.Error()
		}
		return state.Resting(), fmt.Sprintf("%s %s, %d calls", state.Status, state.Why, f.endpoint.Counts().ChatOK)
	})
	return state
}

// checkEquation holds that expected = done + queued + dead for each level of a build that rests, from the plan, the queue, the
// barrier and the dead.
func (f *fleet) checkEquation() {
	f.t.Helper()
	state, p := f.state(), f.open()
	buried, err := p.Queue().Dead(f.t.Context(), f.corpus, state.Build)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range state.Levels {
		of := tree.Level{Corpus: f.corpus, Build: state.Build, Level: l.Level}
		queued, err := p.Queue().Queued(f.t.Context(), of)
		if err != nil {
			f.t.Fatal(err)
		}
		done, dead := l.Done, 0
		if count, err := p.Barrier.Count(f.t.Context(), of); err == nil {
			done = count.Done
		}
		for _, b := range buried {
			if b.Task.Level == l.Level {
				dead++
			}
		}
		if l.Total != done+len(queued)+dead || l.Total == 0 {
			f.t.Errorf("level %d: %d expected, %d done, %d queued, %d dead", l.Level, l.Total, done, len(queued), dead)
		}
	}
}

// attempts returns how often each task of the newest build was begun, has failed and was given back.
func (f *fleet) attempts() journal.Attempts {
	f.t.Helper()
	state, p := f.state(), f.open()
	var sum journal.Attempts
	for id, level := range f.summaries() {
		if level == 0 {
			continue
		}
		n, err := p.Journal().Begin(f.t.Context(), state.Build, id)
		if err != nil {
			f.t.Fatal(err)
		}
		sum.Started += n.Started - 1 // less the one that was just counted
		sum.Failed += n.Failed
		sum.Returned += n.Returned
	}
	return sum
}

// row is a ready-made chunk, as aerie ingest takes it.
type row struct {
	ID       string `json:"id"`
	Document string `json:"document_id"`
	Index    int    `json:"chunk_index"`
	Text     string `json:"text"`
}

var topics = []string{
	"harbor crane vessel cargo tide anchor pilot dock freight mooring", "orchard apple pruning blossom grafting cider frost harvest pollen ladder",
	"glacier moraine crevasse meltwater icefall valley sediment ridge snowfield summit", "violin bow rosin varnish luthier string bridge soundpost tuning concert",
	"bakery flour yeast oven crust kneading sourdough proofing baguette rye", "railway signal locomotive platform timetable gauge sleeper junction freightyard conductor",
}

// rows returns n leaves in documents of five, those of a document on one topic.
func rows(n int) []row {
	all := make([]row, n)
	for i := range all {
		words := strings.Fields(topics[i/5%len(topics)])
		var b strings.Builder
		for k := range 12 {
			fmt.Fprintf(&b, "%s ", words[(i*7+k*3)%len(words)])
		}
		all[i] = row{ID: fmt.Sprint(i), Document: fmt.Sprintf("d%03d", i/5), Index: i % 5, Text: fmt.Sprintf("Leaf %d tells of the %s.", i, strings.TrimSpace(b.String()))}
	}
	return all
}

// ingest brings rows in.
func (f *fleet) ingest(through *process, all []row) {
	f.t.Helper()
	f.must(through, "ingest", f.jsonl(all))
}

func (f *fleet) jsonl(all []row) string {
	f.t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range all {
		if err := e.Encode(r); err != nil {
			f.t.Fatal(err)
		}
	}
	return f.write(fmt.Sprintf("rows-%d.jsonl", len(all)), b.String())
}
