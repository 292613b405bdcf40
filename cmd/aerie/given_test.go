package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestVectorsOfAnotherModel: a corpus of vectors that were brought along, of whatever width, is built and asked with the
// built-in providers, and both say what that is worth. FAULTS: infiniflow/ragflow 2861, 4162.
func TestVectorsOfAnotherModel(t *testing.T) {
	fresh(t)
	var rows strings.Builder
	for _, row := range []string{
		`{"id":"a","text":"Herons wait.","embedding":[1,0,0]}`, `{"id":"b","text":"Kites circle.","embedding":[0.9,0.1,0]}`,
		`{"id":"c","text":"Owls listen.","embedding":[0,1,0]}`, `{"id":"d","text":"Larks climb.","embedding":[0,0.9,0.1]}`,
		`{"id":"e","text":"Swifts never land.","embedding":[0,0,1]}`,
	} {
		rows.WriteString(row + "\n")
	}
	if err := os.WriteFile("birds.jsonl", []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	aerie(t, "ingest", "birds.jsonl").want(t, 0)
	built := aerie(t, "build", "--output", "json").want(t, 0)
	if report := decode[api.BuildReport](t, built); report.Outcome != api.OutcomeBuilt || report.Calls != 2 {
		t.Errorf("%+v", report)
	}
	asked := aerie(t, "query", "--output", "json", "--budget", "100", "do owls listen").want(t, 0)
	result := decode[retrieve.Result](t, asked)
	if len(result.Hits) == 0 || !strings.Contains(result.Hits[0].Text, "Owls") {
		t.Errorf("%+v", result.Hits)
	}
	for what, said := range map[string]string{"build": built.stderr, "query": asked.stderr} {
		if !strings.Contains(said, "brought along") {
			t.Errorf("%s doesn't say that the vectors are of another model: %q", what, said)
		}
	}
	// Text of its own would need a vector of the unknown model.
	if err := os.WriteFile("more.txt", []byte("Rails hide in reeds."), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := aerie(t, "ingest", "more.txt").want(t, exitLeftOut); !strings.Contains(r.stdout, "--corpus") {
		t.Error(r.stdout)
	}
}

// TestBaseFolder: a file has one id from wherever in a project it is named, and elsewhere the working directory decides.
func TestBaseFolder(t *testing.T) {
	project := t.TempDir()
	if err := os.MkdirAll(filepath.Join(project, "docs", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, home, want string }{
		{".", ".aerie", "."}, {"docs/deep", "../../.aerie", "."}, {"docs", "../state", "docs"}, {"docs", "/elsewhere/.aerie", "docs"},
	} {
		t.Chdir(filepath.Join(project, test.dir))
		if got, want := baseFolder(test.home), filepath.Join(project, test.want); got != want {
			t.Errorf("in %s with home %s: %s, want %s", test.dir, test.home, got, want)
		}
	}
}
