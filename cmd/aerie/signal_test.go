package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// slow starts an endpoint whose calls take a while, and writes an aerie.yaml that summarizes with it.
func slow(t *testing.T, latency time.Duration) *llmtest.Server {
	t.Helper()
	s := llmtest.New(llmtest.Config{Latency: latency})
	t.Cleanup(s.Close)
	text := "summaries: {provider: openai, base_url: \"" + s.URL() + "\", model: test}\n" +
		"clustering: {max_cluster_tokens: 400}\nbuild: {slots: 2, prices: {test: {input: 1, output: 2}}}\n"
	if err := os.WriteFile("aerie.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// child is the program in a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer

	mu     sync.Mutex
	stderr strings.Builder
	heard  chan struct{} // closed and made anew with each line on stderr
	read   sync.WaitGroup
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(program, args...), heard: make(chan struct{})}
	c.cmd.Stdout = &c.stdout
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // gone already in a test that passes
	c.read.Go(func() { c.listen(stderr) })
	return c
}

func (c *child) listen(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		c.mu.Lock()
		c.stderr.WriteString(lines.Text() + "\n")
		close(c.heard)
		c.heard = make(chan struct{})
		c.mu.Unlock()
	}
}

// says waits until stderr holds a text.
func (c *child) says(text string) {
	c.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		all, heard := c.stderr.String(), c.heard
		c.mu.Unlock()
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-heard:
		case <-deadline:
			c.t.Fatalf("stderr never said %q:\n%s", text, all)
		}
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// wait returns what the program left; a code of -1 is a process that was killed.
func (c *child) wait() result {
	c.t.Helper()
	c.read.Wait()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return result{c.cmd.ProcessState.ExitCode(), c.stdout.String(), c.stderr.String()}
}

// called waits until an endpoint has answered n calls.
func called(t *testing.T, s *llmtest.Server, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for s.Counts().ChatOK < n {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d calls, want %d", s.Counts().ChatOK, n)
		}
	}
}

// TestInterrupted: Ctrl-C pauses a build cleanly, a second one or kill -9 stops at once, and the build that goes on
// pays for nothing twice and ends with the nodes of an undisturbed one.
func TestInterrupted(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 40*time.Millisecond)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	undisturbed := decode[api.BuildReport](t, aerie(t, "build", "-o", "json").want(t, exitDone))
	want := texts(t, nil)
	calls := s.Counts().ChatOK

	copyHome := []string{"--home", "other"}
	s2 := slow(t, 40*time.Millisecond)
	aerie(t, append([]string{"ingest", fixtures}, copyHome...)...).want(t, exitDone)

	first := start(t, append([]string{"build", "-o", "json"}, copyHome...)...)
	called(t, s2, 3)
	first.signal(os.Interrupt)
	r := first.wait().want(t, exitInterrupted)
	paused := decode[api.BuildReport](t, r)
	if paused.Outcome != api.OutcomePaused {
		t.Errorf("an interrupted build is %s", paused.Outcome)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(r.stderr), &line); err != nil || line["exit"] != 130.0 || !strings.Contains(line["hint"].(string), "aerie build goes on") {
		t.Errorf("stderr is %q: %v", r.stderr, err)
	}

	second := start(t, append([]string{"build"}, copyHome...)...)
	called(t, s2, 8)
	second.signal(syscall.SIGTERM)
	second.says("stopping")
	second.signal(os.Interrupt)
	second.wait().want(t, exitInterrupted)

	third := start(t, append([]string{"build"}, copyHome...)...)
	called(t, s2, 12)
	third.signal(os.Kill)
	third.wait().want(t, -1)

	last := decode[api.BuildReport](t, aerie(t, append([]string{"build", "-o", "json"}, copyHome...)...).want(t, exitDone))
	if last.Outcome != api.OutcomeBuilt || last.Build != paused.Build {
		t.Errorf("build %s is %s, begun was %s", last.Build, last.Outcome, paused.Build)
	}
	if diff := cmp.Diff(want, texts(t, copyHome)); diff != "" {
		t.Errorf("the tree differs from an undisturbed one (-undisturbed +interrupted)\n%s", diff)
	}
	const slots, hard = 2, 2 // two of the stops didn't wait for what was in hand
	if got := s2.Counts().ChatOK; got > calls+hard*slots {
		t.Errorf("%d calls were paid, %d undisturbed", got, calls)
	}
	if undisturbed.Cost == nil || undisturbed.Cost.Currency != "USD" || undisturbed.Cost.Amount <= 0 {
		t.Errorf("the cost is %+v", undisturbed.Cost)
	}
}

// texts reads the tree: level and text of every node.
func texts(t *testing.T, home []string) []string {
	t.Helper()
	var all []string
	for _, n := range lines[api.Node](t, aerie(t, append([]string{"tree", "-o", "jsonl"}, home...)...).want(t, exitDone)) {
		all = append(all, n.ID.String()+" "+n.Text)
	}
	slices.Sort(all)
	return all
}

// TestAttach: a build that runs is followed by another one, whose Ctrl-C only detaches.
func TestAttach(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 60*time.Millisecond)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	builder := start(t, "build", "-o", "json")
	called(t, s, 1)

	guest := start(t, "build")
	guest.says("following it")
	guest.signal(os.Interrupt)
	if r := guest.wait().want(t, exitInterrupted); !strings.Contains(r.stderr, "detached") || r.stdout != "" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	planner := aerie(t, "plan", "-o", "json").want(t, exitDone) // the queue is in use, and a plan is made all the same
	if e := decode[api.Estimate](t, planner); len(e.Levels) == 0 {
		t.Errorf("%+v", e)
	}

	other := start(t, "build", "-o", "json")
	own := decode[api.BuildReport](t, builder.wait().want(t, exitDone))
	followed := decode[api.BuildReport](t, other.wait().want(t, exitDone))
	if own.Outcome != api.OutcomeBuilt {
		t.Fatalf("the build is %s", own.Outcome)
	}
	// The follower may have come a moment too late, and then finds nothing to do.
	if followed.Outcome == api.OutcomeBuilt && (followed.Build != own.Build || followed.Calls != own.Calls || followed.Generation != own.Generation) {
		t.Errorf("followed was %+v, built %+v", followed, own)
	}
}

// TestBudget: a build pauses before it would go over its budget, and goes on under a larger one.
func TestBudget(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 0)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	r := aerie(t, "build", "--max-tokens", "4000", "-o", "json").want(t, exitBudget)
	paused := decode[api.BuildReport](t, r)
	if paused.Outcome != api.OutcomePaused || paused.InputTokens+paused.OutputTokens > 4000 {
		t.Errorf("%s with %d tokens: %s", paused.Outcome, paused.InputTokens+paused.OutputTokens, paused.Why)
	}
	aerie(t, "build", "--max-tokens", "4100").want(t, exitBudget) // what was spent before still counts
	aerie(t, "build").want(t, exitDone)
	if n := s.Counts().Repeated; n > 0 {
		t.Errorf("%d calls were paid twice", n)
	}
}

// TestBuried: a task that fails for good is buried, the build stops as degraded, and retry goes on with it.
func TestBuried(t *testing.T) {
	fixtures := fresh(t)
	s := llmtest.New(llmtest.Config{Faults: map[llmtest.Fault]float64{llmtest.Refuse: 0.2}, Seed: 4})
	defer s.Close()
	args := []string{"--summaries.provider", "openai", "--summaries.model", "m", "--max-cluster-tokens", "400", "-o", "json", "--summaries.base_url"}
	aerie(t, "ingest", fixtures).want(t, exitDone)
	r := aerie(t, append(append([]string{"build"}, args...), s.URL())...).want(t, exitLeftOut)
	degraded := decode[api.BuildReport](t, r)
	if degraded.Outcome != api.OutcomeDegraded || len(degraded.Buried) == 0 {
		t.Fatalf("%s, %d buried", degraded.Outcome, len(degraded.Buried))
	}
	status := aerie(t, "status").want(t, exitDone).stdout
	if !strings.Contains(status, "buried, refusal") || !strings.Contains(status, "aerie retry --failed") {
		t.Errorf("status doesn't say what is buried:\n%s", status)
	}
	well := llmtest.New(llmtest.Config{})
	defer well.Close()
	none := decode[api.BuildReport](t, aerie(t, append(append([]string{"retry", "--failed", "--cause", "empty"}, args...), well.URL())...).want(t, exitDone))
	if none.Outcome != api.OutcomeNothingToDo {
		t.Errorf("no task is buried for that cause, and retry is %s", none.Outcome)
	}
	done := decode[api.BuildReport](t, aerie(t, append(append([]string{"retry", "--failed"}, args...), well.URL())...).want(t, exitDone))
	if done.Outcome != api.OutcomeBuilt {
		t.Errorf("retry is %s: %s", done.Outcome, done.Why)
	}
}

// TestWatch: status --watch prints again and again until Ctrl-C.
func TestWatch(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	c := &child{t: t, cmd: exec.Command(program, "status", "--watch", "--every", "100ms", "-o", "jsonl"), heard: make(chan struct{})}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.cmd.Process.Kill()
	lines := bufio.NewScanner(stdout)
	for range 3 {
		var s api.Status
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &s) != nil || len(s.Corpora) != 1 {
			t.Fatalf("line %q", lines.Text())
		}
	}
	c.signal(os.Interrupt)
	for lines.Scan() { // what was on the way
	}
	c.wait().want(t, exitInterrupted)
}

// TestMixedEmbedders: a corpus keeps to one embedder, and the refusal says how to go on.
func TestMixedEmbedders(t *testing.T) {
	fixtures := fresh(t)
	s := llmtest.New(llmtest.Config{Width: 384})
	defer s.Close()
	aerie(t, "ingest", fixtures).want(t, exitDone)
	other := []string{"--embeddings.provider", "openai", "--embeddings.model", "e", "--embeddings.base_url", s.URL()}
	for _, args := range []string{"build", "query x", "ingest " + fixtures} {
		checkRefusal(t, aerie(t, append(strings.Fields(args), other...)...).want(t, exitUsage), []string{"lexical-1"})
	}
	// An endpoint for summaries alone must agree in width.
	own := []string{"--summaries.embeddings.provider", "openai", "--summaries.embeddings.model", "e", "--summaries.embeddings.base_url"}
	narrow := llmtest.New(llmtest.Config{Width: 64})
	defer narrow.Close()
	checkRefusal(t, aerie(t, append(append([]string{"build"}, own...), narrow.URL())...).want(t, exitUsage), []string{"384", "64"})
	aerie(t, append(append([]string{"build"}, own...), s.URL())...).want(t, exitDone)
	if s.Counts().EmbeddingsOK == 0 {
		t.Error("the endpoint for summaries was not used")
	}
}
