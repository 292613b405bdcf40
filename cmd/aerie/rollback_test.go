package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestRollbackUnderReaders: while readers go back and forth between two trees, everybody who reads sees one of them, whole, under the
// number of its generation.
func TestRollbackUnderReaders(t *testing.T) {
	fresh(t)
	url := serveHome(t, small...)
	at := func(line string) result {
		t.Helper()
		return aerie(t, append([]string{"--server", url}, strings.Fields(line)...)...).want(t, exitDone)
	}
	for _, n := range []int{60, 120} {
		if err := os.WriteFile("rows.jsonl", []byte(rows(sentences(n), nil)), 0o600); err != nil {
			t.Fatal(err)
		}
		at("ingest rows.jsonl")
		at("build --force")
	}
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func(ctx context.Context) (int, map[tree.ID]bool, error) {
		generation, seen := 0, map[tree.ID]bool{}
		err := c.Nodes(ctx, api.TreeRequest{Corpus: "default"}, func(h api.TreeHead) error { generation = h.Generation; return nil }, func(n *api.Node) error {
			if n.Level > 0 {
				seen[n.ID] = true
			}
			return nil
		})
		return generation, seen, err
	}
	want := map[int]map[tree.ID]bool{}
	for _, line := range []string{"rollback", "rollback --forward"} {
		at(line)
		generation, seen, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want[generation] = seen
	}
	if len(want) != 2 || len(want[1]) == 0 || len(want[2]) <= len(want[1]) {
		t.Fatalf("the trees have %d and %d summaries", len(want[1]), len(want[2]))
	}
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	met := make(chan int, 3)
	for range 3 {
		reading.Go(func() {
			readings := 0
			for ctx.Err() == nil {
				generation, seen, err := read(ctx)
				if err != nil {
					continue // the tree was replaced while it was read, which the answer says
				}
				readings++
				if err := sameSet(seen, want[generation]); err != nil {
					t.Errorf("a reader at generation %d: %v", generation, err)
				}
			}
			met <- readings
		})
	}
	for range 12 {
		at("rollback")
		at("query what sings")
		at("rollback --forward")
	}
	stop()
	reading.Wait()
	if n := <-met + <-met + <-met; n < 12 {
		t.Errorf("only %d trees were read", n)
	}
}

// TestRollbackWhileBuilding: while a build runs in another process on the same home, a rollback and a forget are refused in one
// sentence, and nothing is changed; when it has ended they are done.
func TestRollbackWhileBuilding(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("rows.jsonl", []byte(rows(sentences(40), nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	late := llmtest.New(llmtest.Config{Latency: 200 * time.Millisecond})
	t.Cleanup(late.Close)
	aerie(t, "ingest", "rows.jsonl").want(t, exitDone)
	aerie(t, append([]string{"build"}, small...)...).want(t, exitDone)
	flags := append([]string{"build", "--force", "--slots=1"}, append(with(late), small...)...)
	building := start(t, flags...)
	called(t, late, 1)
	for _, line := range []string{"rollback", "rollback --forward", "forget r01"} {
		r := aerie(t, strings.Fields(line)...).want(t, exitFailed)
		if strings.Count(r.stderr, "\n") > 3 || !strings.Contains(r.stderr, "wait until it") {
			t.Errorf("%s: %s", line, r.stderr)
		}
	}
	building.signal(os.Interrupt)
	building.wait().want(t, exitInterrupted)
	r := decode[api.Forgotten](t, aerie(t, "forget", "r01", "-o", "json").want(t, exitDone))
	if r.Documents != 1 || r.Cancelled == "" {
		t.Errorf("%+v", r)
	}
	aerie(t, append([]string{"build", "--force"}, small...)...).want(t, exitDone)
	aerie(t, "rollback").want(t, exitDone)
}

func sameSet(got, want map[tree.ID]bool) error {
	missing := 0
	for id := range want {
		if !got[id] {
			missing++
		}
	}
	if extra := len(got) - (len(want) - missing); missing+extra > 0 {
		return fmt.Errorf("%d summaries of %d are missing, %d are not in it", missing, len(want), extra)
	}
	return nil
}
