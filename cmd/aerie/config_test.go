package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aerie-rag/aerie/internal/config"
)

func TestConfigShow(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("aerie.yaml", []byte("summaries:\n  api_key: sk-secret\nclustering: {seed: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AERIE_BUILD_SLOTS", "3")
	r := aerie(t, "config", "show", "--threshold", "0.3", "-o", "jsonl").want(t, exitDone)
	got := map[string]config.Setting{}
	for _, s := range lines[config.Setting](t, r) {
		got[s.Key] = s
	}
	if len(got) != len(config.Keys()) {
		t.Errorf("%d settings, want all %d", len(got), len(config.Keys()))
	}
	for key, want := range map[string]config.Setting{
		"clustering.seed":      {Value: 7.0, Origin: "aerie.yaml:3"},
		"clustering.threshold": {Value: 0.3, Origin: "--clustering-threshold"},
		"build.slots":          {Value: 3.0, Origin: "AERIE_BUILD_SLOTS"},
		"build.scope":          {Value: "corpus", Origin: "default"},
		"summaries.api_key":    {Value: "****", Origin: "aerie.yaml:2"},
	} {
		if s := got[key]; s.Value != want.Value || s.Origin != want.Origin {
			t.Errorf("%s is %v from %s, want %v from %s", key, s.Value, s.Origin, want.Value, want.Origin)
		}
	}
	for _, output := range []string{"table", "json", "jsonl"} {
		if r := aerie(t, "config", "show", "-o", output); strings.Contains(r.stdout+r.stderr, "sk-secret") {
			t.Errorf("%s shows the key", output)
		}
	}
	all := decode[map[string]any](t, aerie(t, "config", "show", "-o", "json").want(t, exitDone))
	fields(t, all, "settings[].key", "settings[].value", "settings[].origin")
}

func TestInit(t *testing.T) {
	fresh(t)
	aerie(t, "init").want(t, exitDone)
	first, err := os.ReadFile("aerie.yaml")
	if err != nil {
		t.Fatal(err)
	}
	aerie(t, "config", "show").want(t, exitDone) // what it wrote is a configuration
	checkRefusal(t, aerie(t, "init").want(t, exitUsage), []string{"aerie.yaml is there already"})
	if now, err := os.ReadFile("aerie.yaml"); err != nil || string(now) != string(first) {
		t.Errorf("a second init changed the file: %v", err)
	}
	aerie(t, "init", "--config", "other.yaml").want(t, exitDone)
}

func TestVersionAndHelp(t *testing.T) {
	fresh(t)
	fields(t, decode[map[string]any](t, aerie(t, "version", "-o", "json").want(t, exitDone)), "version", "go", "platform")
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"build", "--help"}, {"help", "query"}, {"completion", "bash"}, {"completion", "zsh"}} {
		r := aerie(t, args...).want(t, exitDone)
		if r.stdout == "" || r.stderr != "" {
			t.Errorf("%q: stdout %d bytes, stderr %q", args, len(r.stdout), r.stderr)
		}
	}
	help := aerie(t, "--help").stdout
	for _, name := range []string{"demo", "ingest", "delete", "plan", "build", "query", "tree", "cluster", "status", "retry", "config", "init", "version", "completion"} {
		if !strings.Contains(help, "\n  "+name+" ") {
			t.Errorf("help doesn't list %s", name)
		}
	}
}

// TestA6StrangersFile: a file that came with the folder gets no secret out, and no request is made.
func TestA6StrangersFile(t *testing.T) {
	fresh(t)
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer evil.Close()
	t.Setenv("AERIE_SERVER_TOKEN", "sk-do-not-send-me-there")
	if err := os.WriteFile("aerie.yaml", []byte("server: {url: '"+evil.URL+"'}"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := aerie(t, "status").want(t, exitUsage)
	for _, want := range []string{"server.url", "server.token", "weaker source", "--config aerie.yaml", "AERIE_CONFIG"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q isn't in %s", want, r.stderr)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	// What the hint says.
	if aerie(t, "status", "--config", "aerie.yaml"); asked.Load() == 0 {
		t.Error("the file that was named isn't trusted")
	}
}
