package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
)

// servedHome starts aerie serve in a process of its own and returns it once it answers.
func servedHome(t *testing.T) (url string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(program, "serve", "--listen", "127.0.0.1:0", "-o", "json")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // gone already in a test that passes
	var s served
	if err := json.NewDecoder(stdout).Decode(&s); err != nil {
		t.Fatalf("aerie serve doesn't say where: %v", err)
	}
	return s.URL, cmd
}

func ended(t *testing.T, cmd *exec.Cmd, code int) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its code is looked at
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("aerie serve ended with %d, want %d", got, code)
	}
}

// TestServe: a home that is served takes documents, starts builds by itself, answers, and goes on with a build after its end,
// however that came.
func TestServe(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 40*time.Millisecond)
	url, first := servedHome(t)
	at := func(args ...string) result { t.Helper(); return aerie(t, append(args, "--server", url)...) }
	at("ingest", fixtures).want(t, exitDone)
	called(t, s, 3) // by growth, once the corpus is left alone

	if r := aerie(t, "gc").want(t, exitFailed); !strings.Contains(r.stderr, "--server "+url) {
		t.Errorf("a command that needs the queue says %q", r.stderr)
	}
	if r := aerie(t, "serve", "--listen", "127.0.0.1:0").want(t, exitFailed); !strings.Contains(r.stderr, "is served by another process") {
		t.Errorf("a second aerie serve says %q", r.stderr)
	}
	aerie(t, "query", "a question of another process").want(t, exitDone)
	ended(t, first, exitDone)

	url, second := servedHome(t)
	called(t, s, 8)
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait() // killed

	url, third := servedHome(t)
	report := decode[api.BuildReport](t, at("build", "-o", "json").want(t, exitDone))
	if report.Outcome != api.OutcomeBuilt && report.Outcome != api.OutcomeNothingToDo {
		t.Errorf("%+v", report)
	}
	const slots = 2
	if got := s.Counts().Repeated; got > slots {
		t.Errorf("%d calls were paid for twice; one kill may cost what was in hand, %d", got, slots)
	}
	if diff := cmp.Diff(at("tree", "-o", "jsonl").want(t, exitDone).stdout, aerie(t, "tree", "-o", "jsonl").want(t, exitDone).stdout); diff != "" {
		t.Errorf("the served tree and the home's differ (-served +home)\n%s", diff)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/metrics": "aerie_", "/v1/openapi.json": "openapi"} {
		if got := body(t, url+path); !strings.Contains(got, want) {
			t.Errorf("%s: %.200q", path, got)
		}
	}
	ended(t, third, exitDone)
	aerie(t, "gc").want(t, exitDone)
}

func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(text)
}

// TestServeRefuses: what serve can't do, it says before it listens.
func TestServeRefuses(t *testing.T) {
	fresh(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--server", "http://127.0.0.1:1"}, "server.url names a coordinator"},
		{[]string{"--store.url", "http://127.0.0.1:1", "--state.url", "redis://127.0.0.1:1", "--queue.url", "nats://127.0.0.1:1"}, "start coordinator and worker instead"},
		{[]string{"--listen", "0.0.0.0:0"}, "server.token"},
		{[]string{"--listen", "nowhere"}, "host:port"},
		{[]string{"--build.schedule", "never"}, "cron"},
	} {
		if r := aerie(t, append([]string{"serve"}, c.args...)...).want(t, exitUsage); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: %q, want %q", c.args, r.stderr, c.want)
		}
	}
}
