package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
)

var update = flag.Bool("update", false, "write testdata/recorded.txt anew; do so only when a tree is meant to come out differently, and say why")

// TestTreeAsRecorded: the trees of a fixed corpus, by documents and over all, have the nodes that they had when they were recorded:
// ids, levels, children and texts. A change that isn't about trees doesn't change them; whoever changes a recipe or how levels are
// clustered records them anew.
func TestTreeAsRecorded(t *testing.T) {
	fixtures := fresh(t)
	record, err := filepath.Abs(filepath.Join(fixtures, "..", "recorded.txt"))
	if err != nil {
		t.Fatal(err)
	}
	writeParagraphs(t, fixtures)
	aerie(t, "ingest", "rows.jsonl").want(t, exitDone)
	aerie(t, "build").want(t, exitDone)
	got := "corpus\n" + summariesOf(t)
	aerie(t, "build", "--scope", "document", "--force").want(t, exitDone)
	got += "document\n" + summariesOf(t)
	if *update {
		if err := os.WriteFile(record, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-recorded +now):\n%s", diff)
	}
}

// writeParagraphs makes rows.jsonl of the fixtures' paragraphs, under names that don't depend on where they lie.
func writeParagraphs(t *testing.T, fixtures string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(fixtures, "*.rst"))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		document := filepath.Base(name)
		for i, paragraph := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			if strings.TrimSpace(paragraph) == "" {
				continue
			}
			row, err := json.Marshal(map[string]any{"id": fmt.Sprintf("%s#%d", document, i), "document_id": document, "text": paragraph})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&rows, "%s\n", row)
		}
	}
	put(t, "rows.jsonl", rows.String())
}

// summariesOf lists the summaries that readers see: level, id, children and a hash of the text.
func summariesOf(t *testing.T) string {
	t.Helper()
	var all []string
	for _, n := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl", "--depth", "0").want(t, exitDone)) {
		if n.Level == 0 {
			continue
		}
		h := fnv.New64a()
		fmt.Fprint(h, n.ChildIDs)
		children := h.Sum64()
		h.Reset()
		fmt.Fprint(h, n.Text)
		all = append(all, fmt.Sprintf("%d %s %d children %016x text %016x\n", n.Level, n.ID, len(n.ChildIDs), children, h.Sum64()))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}
