//go:build stack

package fleettest

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// summaries returns the level of every node of the tree that readers see.
func (f *fleet) summaries() map[tree.ID]int {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	r := aerieProcess(ctx, f.dir, plainEnv(), "tree", "--output", "jsonl", "--corpus", f.corpus, "--config", f.file())
	return nodesOf(f.t, r)
}

func nodesOf(t *testing.T, r ran) map[tree.ID]int {
	t.Helper()
	if r.exit != 0 {
		t.Fatal(r)
	}
	all := map[tree.ID]int{}
	lines := json.NewDecoder(strings.NewReader(r.stdout))
	for lines.More() {
		var n api.Node
		if err := lines.Decode(&n); err != nil {
			t.Fatal(err)
		}
		all[n.ID] = n.Level
	}
	return all
}

// alone is the same corpus on one machine, embedded, with the same settings.
type alone struct {
	f    *fleet
	home string
	file string
}

func (f *fleet) alone() *alone {
	return &alone{f: f, home: filepath.Join(f.dir, "home"), file: f.write("alone.yaml", yaml(f.settings))}
}

func (a *alone) must(args ...string) ran {
	a.f.t.Helper()
	ctx, cancel := context.WithTimeout(a.f.t.Context(), 2*time.Minute)
	defer cancel()
	r := aerieProcess(ctx, a.f.dir, plainEnv(), append(args, "--home", a.home, "--config", a.file, "--corpus", a.f.corpus)...)
	if r.exit != 0 {
		a.f.t.Fatal(r)
	}
	return r
}

func (a *alone) nodes() map[tree.ID]int {
	a.f.t.Helper()
	return nodesOf(a.f.t, a.must("tree", "--output", "jsonl"))
}
