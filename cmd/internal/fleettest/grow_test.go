//go:build stack

package fleettest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestGrowthOnAFleet: a history of growth, edits and deletions ends on a fleet with the nodes that the embedded mode has, after each
// build; a rollback and the way forward make no call; and of a forgotten document nothing can be read anywhere.
func TestGrowthOnAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	server := f.coordinator()
	f.worker()
	f.worker()
	one := f.alone()
	all := rows(90)
	for i := range all {
		all[i].Text += fmt.Sprintf(" It is kept in room%03d.", i)
	}
	both := func(args ...string) {
		t.Helper()
		one.must(args...)
		f.must(server, args...)
	}
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(one.nodes(), f.summaries()); diff != "" {
			t.Errorf("%s, the tree isn't that of the embedded mode (-embedded +fleet):\n%s", when, diff)
		}
	}
	both("ingest", f.jsonl(all[:80]))
	both("build")
	same("built")
	both("ingest", f.jsonl(all[80:]))
	both("build", "--force")
	same("grown")
	both("build", "--force")
	same("nothing changed")
	edited := all[40:45]
	edited[2].Text += " And so it goes."
	both("ingest", f.jsonl(edited))
	both("delete", "d003")
	both("build", "--force")
	same("edited and deleted")

	before := f.summaries()
	more := rows(100)[90:]
	both("ingest", f.jsonl(more))
	both("build", "--force")
	same("grown again")
	after := f.summaries()
	paid := f.endpoint.Counts().ChatOK
	for _, step := range []struct {
		flag []string
		want map[tree.ID]int
	}{{nil, before}, {[]string{"--forward"}, after}, {nil, before}} {
		both(append([]string{"rollback"}, step.flag...)...)
		same("rolled")
		if diff := cmp.Diff(summariesOf(step.want), summariesOf(f.summaries())); diff != "" {
			t.Errorf("rollback %v shows another tree:\n%s", step.flag, diff)
		}
	}
	if got := f.endpoint.Counts().ChatOK; got != paid {
		t.Errorf("rolling has cost %d calls", got-paid)
	}

	out := parsed[api.Forgotten](t, f.must(server, "forget", "d010"))
	if out.Documents != 1 || out.Summaries == 0 || out.Answers == 0 {
		t.Errorf("%+v", out)
	}
	one.must("forget", "d010")
	same("forgotten")
	places := f.open()
	err := places.Store.Each(t.Context(), f.corpus, store.AnyLevel(), store.Fields{Text: true}, func(n *tree.Node) error {
		for i := 50; i < 55; i++ { // of d010
			if strings.Contains(n.Text, fmt.Sprintf("room%03d", i)) {
				t.Errorf("level %d, born %d, died %d: %q", n.Level, n.Born, n.Died, n.Text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := places.OpenQueue(); err != nil {
		t.Fatal(err)
	}
	if left, err := places.Journal().Erase(t.Context(), f.corpus); err != nil || left != 0 {
		t.Errorf("%d answers had texts still, %v", left, err)
	}
	both("build", "--force")
	same("built after that")
}

// summariesOf leaves the leaves out, which a rollback doesn't change.
func summariesOf(nodes map[tree.ID]int) map[tree.ID]int {
	out := map[tree.ID]int{}
	for id, level := range nodes {
		if level > 0 {
			out[id] = level
		}
	}
	return out
}
