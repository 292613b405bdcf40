package main

import (
	"os"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestSeeds2 (Seeds 2): with keep_leaves false a document that is too short for a tree, and one that came after the build, are found,
// and status counts what is hidden.
func TestSeeds2(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		aerie(t, "ingest", name).want(t, exitDone)
	}
	find := func(word string) []retrieve.Hit {
		t.Helper()
		return decode[retrieve.Result](t, aerie(t, "query", word, "-o", "json").want(t, exitDone)).Hits
	}
	hidden := func() int {
		t.Helper()
		return decode[api.Status](t, aerie(t, "status", "-o", "json").want(t, exitDone)).Corpora[0].HiddenLeaves
	}
	write("short.txt", "A quagga is an extinct zebra.")
	if n := hidden(); n != 0 {
		t.Errorf("%d leaves are hidden before there is a tree", n)
	}
	aerie(t, "build", "--scope", "document", "--keep-leaves=false").want(t, exitDone)
	n := hidden()
	if n == 0 {
		t.Error("nothing is hidden")
	}
	write("later.txt", "A thylacine was a striped marsupial.")
	for word, document := range map[string]string{"quagga": "short.txt", "thylacine": "later.txt"} {
		if hits := find(word); len(hits) == 0 || hits[0].DocumentIDs[0] != document {
			t.Errorf("%s: %+v", word, hits)
		}
	}
	for _, h := range find("what is a sequence") {
		if h.Level == 0 && !strings.Contains("short.txt later.txt", h.DocumentIDs[0]) {
			t.Errorf("a leaf with a summary above it was found: %+v", h)
		}
	}
	if again := hidden(); again != n {
		t.Errorf("%d leaves are hidden, %d before", again, n)
	}
	if text := aerie(t, "status").want(t, exitDone).stdout; !strings.Contains(text, "out of search, as build.keep_leaves is false") {
		t.Error(text)
	}
}
