package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// against returns the flags that send summaries and embeddings to an endpoint.
func against(s *llmtest.Server, more ...string) []string {
	return append([]string{
		"--summaries.provider", "openai", "--summaries.base_url", s.URL(), "--summaries.model", "fake",
		"--embeddings.provider", "openai", "--embeddings.base_url", s.URL(), "--embeddings.model", "fake",
	}, more...)
}

// TestKillNine kills the program with SIGKILL at random moments of a build, and lets it go on each time.
// FAULTS: infiniflow/ragflow 2851, 11640, 18619; microsoft/graphrag 1677.
func TestKillNine(t *testing.T) {
	const slots = 8
	kills, seed := 6, uint64(1)
	fixtures := fresh(t)
	endpoint := llmtest.New(llmtest.Config{Latency: 100 * time.Millisecond})
	defer endpoint.Close()
	flags := against(endpoint, "--build.slots", fmt.Sprint(slots))

	ingest := append([]string{"ingest", fixtures}, flags...)
	aerie(t, append(ingest, "--home", "calm")...).want(t, 0)
	aerie(t, append([]string{"build", "--home", "calm"}, flags...)...).want(t, 0)
	want := lines[api.Node](t, aerie(t, "tree", "--home", "calm", "--output", "jsonl").want(t, 0))
	undisturbed := endpoint.Counts().ChatOK

	aerie(t, ingest...).want(t, 0)
	random := rand.New(rand.NewPCG(seed, seed))
	killed := 0
	for range kills {
		if killBuild(t, flags, time.Duration(50+random.IntN(700))*time.Millisecond) {
			killed++
		}
	}
	report := decode[api.BuildReport](t, aerie(t, append([]string{"build", "--output", "json"}, flags...)...).want(t, 0))
	if o := report.Outcome; o != api.OutcomeBuilt && o != api.OutcomeNothingToDo {
		t.Errorf("the build ended as %s: %s", o, report.Why)
	}
	got := lines[api.Node](t, aerie(t, "tree", "--output", "jsonl").want(t, 0))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another tree than undisturbed:\n%s", diff)
	}
	paid := endpoint.Counts().ChatOK - undisturbed
	if most := undisturbed + killed*slots; paid > most {
		t.Errorf("%d calls after %d kills, undisturbed %d, at most %d", paid, killed, undisturbed, most)
	}
	if killed == 0 {
		t.Error("no kill hit a running build")
	}
}

// killBuild starts a build and kills it after a while; it reports whether the build was still running then.
func killBuild(t *testing.T, flags []string, after time.Duration) bool {
	t.Helper()
	cmd := exec.Command(program, append([]string{"build"}, flags...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(os.Kill) })
	err := cmd.Wait()
	timer.Stop()
	if err == nil {
		return false
	}
	if cmd.ProcessState.Exited() {
		t.Fatalf("the build ended by itself: %v\n%s", err, out.String())
	}
	return true
}

// TestFaultyEndpoint builds against an endpoint that fails in every way at once. FAULTS, "What the LLM returns".
func TestFaultyEndpoint(t *testing.T) {
	fixtures := fresh(t)
	const window = 4096
	endpoint := llmtest.New(llmtest.Config{ContextTokens: window, Faults: llmtest.AllFaults(0.02), Seed: 7})
	defer endpoint.Close()
	flags := against(endpoint, "--summaries.context_tokens", fmt.Sprint(window))
	// Without contexts, whose clusters put code together that this endpoint counts more tokens in than [mapreduce.Guess] does: a second try
	// that fills the window is then too long, which the endpoint refuses and the worker mends.
	aerie(t, append([]string{"ingest", "--context=false", fixtures}, flags...)...).want(t, 0)
	report := decode[api.BuildReport](t, aerie(t, append([]string{"build", "--output", "json"}, flags...)...).want(t, 0))
	if report.Outcome != api.OutcomeBuilt || len(report.Levels) == 0 {
		t.Fatalf("%+v", report)
	}
	for _, l := range report.Levels {
		if l.NodesOut != l.Clusters {
			t.Errorf("level %d: %d summaries of %d clusters", l.Level, l.NodesOut, l.Clusters)
		}
	}
	counts := endpoint.Counts()
	if counts.Violations > 0 || counts.LargestPrompt > window {
		t.Errorf("%d prompts exceeded the window, the largest by %d tokens", counts.Violations, counts.LargestPrompt-window)
	}
	if len(counts.Faults) < len(llmtest.AllFaults(1))/2 {
		t.Errorf("the endpoint hardly failed: %v", counts.Faults)
	}
	for _, n := range lines[api.Node](t, aerie(t, "tree", "--output", "jsonl").want(t, 0)) {
		lower := strings.ToLower(n.Text)
		if strings.TrimSpace(n.Text) == "" || strings.Contains(lower, "<think") || strings.Contains(lower, "rate limit") || strings.Contains(lower, `"error"`) {
			t.Errorf("node %s holds %q", n.ID, n.Text)
		}
	}
	again := decode[api.BuildReport](t, aerie(t, append([]string{"build", "--force", "--output", "json"}, flags...)...).want(t, 0))
	if again.Calls != 0 || endpoint.Counts().Chat != counts.Chat {
		t.Errorf("building again made %d calls, the endpoint saw %d", again.Calls, endpoint.Counts().Chat-counts.Chat)
	}
}

// TestKillNineWhileGrowing kills builds that grow a tree, of which documents went and others came: the same tree as undisturbed, and
// hardly a call twice.
func TestKillNineWhileGrowing(t *testing.T) {
	const slots = 8
	fixtures := fresh(t)
	files, err := filepath.Glob(filepath.Join(fixtures, "*.rst"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	endpoint := llmtest.New(llmtest.Config{Latency: 100 * time.Millisecond})
	defer endpoint.Close()
	flags := against(endpoint, "--build.slots", fmt.Sprint(slots))
	grow := func(home string) {
		t.Helper()
		at := func(args ...string) {
			t.Helper()
			aerie(t, append(append(args, "--home", home), flags...)...).want(t, 0)
		}
		at(append([]string{"ingest"}, files[1:]...)...)
		at("build")
		at("ingest", files[0])
		id := lines[api.Node](t, aerie(t, "tree", "--home", home, "--output", "jsonl").want(t, 0))[0].DocumentIDs[0]
		aerie(t, "delete", id, "--home", home).want(t, 0)
	}
	tree := func(home string) []api.Node {
		nodes := lines[api.Node](t, aerie(t, "tree", "--home", home, "--output", "jsonl").want(t, 0))
		for i := range nodes {
			nodes[i].Born = 0
		}
		return nodes
	}
	grow("calm")
	before := endpoint.Counts().ChatOK
	aerie(t, append([]string{"build", "--force", "--home", "calm"}, flags...)...).want(t, 0)
	undisturbed := endpoint.Counts().ChatOK - before
	want := tree("calm")

	grow(".aerie")
	before = endpoint.Counts().ChatOK
	random := rand.New(rand.NewPCG(2, 2))
	killed := 0
	for range 5 {
		if killBuild(t, append(flags, "--force"), time.Duration(50+random.IntN(500))*time.Millisecond) {
			killed++
		}
	}
	report := decode[api.BuildReport](t, aerie(t, append([]string{"build", "--output", "json"}, flags...)...).want(t, 0))
	if o := report.Outcome; o != api.OutcomeBuilt && o != api.OutcomeNothingToDo {
		t.Errorf("the build ended as %s: %s", o, report.Why)
	}
	if diff := cmp.Diff(want, tree(".aerie")); diff != "" {
		t.Errorf("another tree than undisturbed:\n%s", diff)
	}
	if paid, most := endpoint.Counts().ChatOK-before, undisturbed+killed*slots; paid > most {
		t.Errorf("%d calls after %d kills, undisturbed %d, at most %d", paid, killed, undisturbed, most)
	}
	if killed == 0 {
		t.Error("no kill hit a running build")
	}
}
