package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestSeeds4 (Seeds 4): a few edits leave the top of the tree in search, also after gc; a deletion takes what rests on it out at once;
// and a whole rewrite does too.
func TestSeeds4(t *testing.T) {
	fresh(t)
	write := func(i int, edition string) {
		t.Helper()
		var text strings.Builder
		for j := range 60 {
			fmt.Fprintf(&text, "Heron %d of pond %d waits for fish number %d in the shallow water. ", j, i, j*7+i)
		}
		text.WriteString(edition)
		if err := os.MkdirAll("ponds", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("ponds", fmt.Sprint("p", i, ".txt")), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		write(i, "The first edition ends here.")
	}
	aerie(t, "ingest", "ponds").want(t, exitDone)
	build := decode[api.BuildReport](t, aerie(t, "build", "--max-cluster-tokens", "600", "-o", "json").want(t, exitDone))
	top := len(build.Levels)
	if top < 2 {
		t.Fatalf("only %d levels", top)
	}
	hits := func() int {
		t.Helper()
		r := aerie(t, "query", "herons wait for fish", "--min-level", fmt.Sprint(top), "--pack", "similarity", "--budget", "0", "--top-k", "50", "-o", "json")
		return len(decode[retrieve.Result](t, r.want(t, exitDone)).Hits)
	}
	all := hits()
	if all != build.Levels[top-1].NodesOut {
		t.Fatalf("%d hits of %d at the top", all, build.Levels[top-1].NodesOut)
	}
	write(3, "The second edition ends there, with another word.")
	write(8, "The second edition ends there, with another word.")
	aerie(t, "ingest", "ponds").want(t, exitDone)
	if got := hits(); got != all {
		t.Errorf("after two small edits %d of %d nodes of the top are found", got, all)
	}
	aerie(t, "gc").want(t, exitDone)
	if got := hits(); got != all {
		t.Errorf("after gc %d of %d nodes of the top are found", got, all)
	}
	status := decode[api.Status](t, aerie(t, "status", "-o", "json").want(t, exitDone))
	if n := status.Corpora[0].Documents; n != 20 {
		t.Errorf("%d documents", n)
	}
	aerie(t, "delete", "ponds/p3.txt").want(t, exitDone)
	if got := hits(); got == all {
		t.Error("what rests on a deleted document is still found")
	}
	report := decode[api.BuildReport](t, aerie(t, "build", "--force", "-o", "json", "--max-cluster-tokens", "600").want(t, exitDone))
	if report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v", report)
	}
	top = len(report.Levels)
	if got := hits(); got != report.Levels[top-1].NodesOut {
		t.Errorf("after a build %d of %d nodes of the top are found", got, report.Levels[top-1].NodesOut)
	}
}
