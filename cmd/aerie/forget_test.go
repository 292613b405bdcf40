package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// wide makes several clusters of leaves of a hundred tokens.
var wide = []string{"--max-cluster-tokens=400"}

// secretWord is a word of one document and of none else.
func secretWord(document string, i int) string { return fmt.Sprintf("%squux%03d", document, i) }

// writeSecrets writes a document of distinct sentences, each with words that no other document has, and returns them.
func writeSecrets(t *testing.T, document, edition string) []string {
	t.Helper()
	var words []string
	var text strings.Builder
	for i := range 60 {
		words = append(words, secretWord(document+edition, i))
		fmt.Fprintf(&text, "The %s of %s is kept by number %d, beside the river and the old bridge. ", words[i], document, i)
	}
	if err := os.WriteFile(filepath.Join("docs", document+".txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return words
}

// wantNowhere fails for every file under a folder that holds one of the words, as it is or in lower case, or as its bytes in base64.
func wantNowhere(t *testing.T, dir string, words []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, word := range words {
			if bytes.Contains(content, []byte(word)) {
				t.Errorf("%s is in %s", word, path)
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// quoting is an endpoint whose summaries repeat much of what they are made of.
func quoting(t *testing.T, cfg llmtest.Config) []string {
	cfg.Chat = func(prompt string, _ int) string {
		all := strings.Fields(prompt)
		return strings.Join(all[len(all)-min(len(all), 60):], " ") + "."
	}
	s := llmtest.New(cfg)
	t.Cleanup(s.Close)
	return []string{"--summaries.provider=openai", "--summaries.model=m", "--max-attempts=1", "--summaries.base_url=" + s.URL()}
}

// TestForgetLeavesNoByte: after forget no word of the documents is in any byte of the home, whatever state it was in: edited, deleted
// and built before, with a tree that is kept, answers that were paid for, tasks that are buried, a build that is unfinished.
func TestForgetLeavesNoByte(t *testing.T) {
	for _, state := range []struct {
		name string
		run  func(do func(exit int, line string, more ...string), model, refusing []string)
		// built says that there is a tree, and journal that answers were paid for.
		built, journal bool
	}{
		{"ingested", func(func(int, string, ...string), []string, []string) {}, false, false},
		{"extractive", func(do func(int, string, ...string), _, _ []string) { do(exitDone, "build", wide...) }, true, false},
		{"a model's answers", func(do func(int, string, ...string), model, _ []string) {
			do(exitDone, "build", append(model, wide...)...)
		}, true, true},
		{"edited, and a tree is kept", func(do func(int, string, ...string), model, _ []string) {
			do(exitDone, "build", append(model, wide...)...)
			writeSecrets(t, "plain", "two")
			do(exitDone, "ingest docs")
			do(exitDone, "build --force", append(model, wide...)...)
		}, true, true},
		{"rolled back", func(do func(int, string, ...string), model, _ []string) {
			do(exitDone, "build", append(model, wide...)...)
			writeSecrets(t, "more", "")
			do(exitDone, "ingest docs")
			do(exitDone, "build --force", append(model, wide...)...)
			do(exitDone, "rollback")
		}, true, true},
		{"buried", func(do func(int, string, ...string), _, refusing []string) {
			do(exitLeftOut, "build", append(refusing, wide...)...)
		}, false, true},
		{"over budget", func(do func(int, string, ...string), model, _ []string) {
			do(exitBudget, "build --max-tokens 3000", append(model, wide...)...)
		}, false, true},
	} {
		t.Run(state.name, func(t *testing.T) {
			fresh(t)
			if err := os.Mkdir("docs", 0o700); err != nil {
				t.Fatal(err)
			}
			gone := append(writeSecrets(t, "secret", ""), writeSecrets(t, "other", "")...)
			stays := writeSecrets(t, "plain", "")
			do := func(exit int, line string, more ...string) {
				t.Helper()
				aerie(t, append(strings.Fields(line), more...)...).want(t, exit)
			}
			do(exitDone, "ingest docs")
			// A second corpus, whose text and answers stay.
			do(exitDone, "ingest docs/plain.txt --corpus apart")
			model := quoting(t, llmtest.Config{})
			do(exitDone, "build --corpus apart", append(model, wide...)...)
			state.run(do, model, quoting(t, llmtest.Config{Faults: map[llmtest.Fault]float64{llmtest.Refuse: 0.3}, Seed: 4}))
			for _, name := range []string{"secret", "other"} {
				if err := os.Remove(filepath.Join("docs", name+".txt")); err != nil {
					t.Fatal(err)
				}
			}
			do(exitDone, "delete docs/other.txt")
			do(exitDone, "query the river", "--top-k=2") // the files beside the database are there
			out := decode[api.Forgotten](t, aerie(t, "forget", "docs/secret.txt", "-o", "json").want(t, exitDone))
			if out.Documents != 1 || out.Leaves == 0 || state.built != (out.Summaries > 0) && state.built || state.journal != (out.Answers > 0) || len(out.Unknown) != 0 {
				t.Errorf("%+v", out)
			}
			wantNowhere(t, ".aerie", gone)
			for _, corpus := range []string{"default", "apart"} {
				if r := aerie(t, "query", stays[7], "--corpus", corpus).want(t, exitDone); state.name != "edited, and a tree is kept" && !strings.Contains(r.stdout, stays[7]) {
					t.Errorf("%s: what stays isn't found:\n%s", corpus, r.stdout)
				}
			}
			do(exitDone, "build --force", append(model, wide...)...)
			wantNowhere(t, ".aerie", gone)
			for _, n := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl").want(t, exitDone)) {
				if n.Text == "" {
					t.Errorf("level %d: node %s has no text", n.Level, n.ID)
				}
			}
			if again := decode[api.BuildReport](t, aerie(t, append([]string{"build", "--force", "--corpus", "apart", "-o", "json"}, append(model, wide...)...)...).want(t, exitDone)); again.Calls != 0 {
				t.Errorf("another corpus pays for %d calls again", again.Calls)
			}
			// A second time, and of what was never there: said, exit 3.
			r := aerie(t, "forget", "docs/secret.txt").want(t, exitLeftOut)
			if !strings.Contains(r.stderr, `no document "docs/secret.txt"`) {
				t.Error(r.stderr)
			}
		})
	}
}

// TestForgetThroughAServer: the same through a coordinator, whose home has no byte left either while it runs.
func TestForgetThroughAServer(t *testing.T) {
	fresh(t)
	if err := os.Mkdir("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	gone := writeSecrets(t, "secret", "")
	writeSecrets(t, "plain", "")
	model := quoting(t, llmtest.Config{})
	home, err := filepath.Abs("served")
	if err != nil {
		t.Fatal(err)
	}
	url := serveHome(t, append(append([]string{"--home", home}, model...), wide...)...)
	for _, line := range []string{"ingest docs", "build", "query river"} {
		aerie(t, append([]string{"--server", url}, strings.Fields(line)...)...).want(t, exitDone)
	}
	out := decode[api.Forgotten](t, aerie(t, "--server", url, "forget", "docs/secret.txt", "-o", "json").want(t, exitDone))
	if out.Documents != 1 || out.Summaries == 0 || out.Answers == 0 {
		t.Errorf("%+v", out)
	}
	wantNowhere(t, home, gone)
	aerie(t, "--server", url, "forget", "nobody").want(t, exitLeftOut)
}
