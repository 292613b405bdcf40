//go:build stack

package fleettest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestTwoStartsAtOnce: two coordinators are asked for a build at the same moment. One build is begun and both answer with it, with a
// key of the request and without.
func TestTwoStartsAtOnce(t *testing.T) {
	for _, key := range []string{"", "the-same"} {
		t.Run("key="+key, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, llmtest.Config{Latency: 200 * time.Millisecond}, nil)
			f.corpus = corpusOf("TwoStarts")
			first, second := f.coordinator(), f.coordinator()
			f.worker()
			f.ingest(first, rows(60))
			clients := []*client.Client{f.client(first), f.client(second)}
			answers := startTogether(t, f, clients, key)
			if answers[0].Build == "" || answers[0].Build != answers[1].Build {
				t.Errorf("builds %q and %q were begun", answers[0].Build, answers[1].Build)
			}
			state := f.untilBuilt(time.Minute)
			if state.Build != answers[0].Build || state.Generation != 1 {
				t.Errorf("build %s of generation %d was built, %s was begun", state.Build, state.Generation, answers[0].Build)
			}
			if key == "" {
				return
			}
			for i, c := range clients { // the same request again, also after the build: no other is begun
				again, err := c.Start(t.Context(), f.corpus, api.Start{Key: key, BuildRequest: api.BuildRequest{Force: true}})
				if err != nil || again.Build != state.Build || !again.Resting {
					t.Errorf("coordinator %d: again is build %q, %v", i, again.Build, err)
				}
				_, err = c.Start(t.Context(), f.corpus, api.Start{Key: key})
				if err == nil || api.Judge(err).Exit != api.ExitUsage {
					t.Errorf("coordinator %d: the key with another body: %v", i, err)
				}
			}
		})
	}
}

func startTogether(t *testing.T, f *fleet, clients []*client.Client, key string) []api.Build {
	t.Helper()
	answers, errs := make([]api.Build, len(clients)), make([]error, len(clients))
	gate := make(chan struct{})
	var both sync.WaitGroup
	for i, c := range clients {
		both.Go(func() {
			<-gate
			answers[i], errs[i] = c.Start(t.Context(), f.corpus, api.Start{Key: key, BuildRequest: api.BuildRequest{Force: true}})
		})
	}
	close(gate)
	both.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("coordinator %d: %v", i, err)
		}
	}
	return answers
}

// TestReadersDuringPublish: whoever reads through a coordinator while another publishes a generation sees the one or the other, and
// all of it.
func TestReadersDuringPublish(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{Latency: 50 * time.Millisecond}, nil)
	one := f.alone()
	want := map[int]map[tree.ID]bool{}
	for g, n := range []int{40, 80} {
		one.must("ingest", f.jsonl(rows(n)))
		one.must("build")
		want[g+1] = map[tree.ID]bool{}
		for id, level := range one.nodes() {
			if level > 0 {
				want[g+1][id] = true
			}
		}
	}
	builder, readers := f.coordinator(), f.coordinator()
	f.worker()
	f.ingest(builder, rows(40))
	f.built(builder)
	f.ingest(builder, rows(80))

	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	seen := make([]map[int]int, 2)
	for i, read := range []func(context.Context, *client.Client, map[int]map[tree.ID]bool) (int, error){f.readTree, f.readQuery} {
		seen[i] = map[int]int{}
		c := f.client(readers)
		reading.Go(func() {
			for ctx.Err() == nil {
				generation, err := read(ctx, c, want)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				seen[i][generation]++
			}
		})
	}
	report := f.built(builder)
	until(t, 10*time.Second, "the readers' coordinator serves generation 2", func() (bool, string) {
		s := f.status(readers)
		return s.Generation == 2, fmt.Sprint(s.Generation)
	})
	stop()
	reading.Wait()
	t.Logf("readings by generation: trees %v, queries %v", seen[0], seen[1])
	if report.Generation != 2 || seen[0][1] == 0 || seen[1][1] == 0 {
		t.Errorf("generation %d; readings by generation: %v", report.Generation, seen)
	}
}

// readTree reads a whole tree, which must be that of its generation.
func (f *fleet) readTree(ctx context.Context, c *client.Client, want map[int]map[tree.ID]bool) (int, error) {
	generation, n := 0, 0
	err := c.Nodes(ctx, api.TreeRequest{Corpus: f.corpus}, func(h api.TreeHead) error { generation, n = h.Generation, 0; return nil }, func(node *api.Node) error {
		if node.Level > 0 {
			n++
			if !want[generation][node.ID] {
				return fmt.Errorf("node %s isn't of generation %d", node.ID, generation)
			}
		}
		return nil
	})
	if err == nil && n != len(want[generation]) {
		err = fmt.Errorf("a tree of generation %d has %d summaries, %d are wanted", generation, n, len(want[generation]))
	}
	return generation, err
}

// readQuery asks for all summaries, which must be those of one generation.
func (f *fleet) readQuery(ctx context.Context, c *client.Client, want map[int]map[tree.ID]bool) (int, error) {
	found, err := c.Query(ctx, f.corpus, api.Query{Query: "violin and harbor", Options: retrieve.Options{
		Mode: new(retrieve.Filter), MinLevel: new(1), Budget: new(0)}})
	if err != nil {
		return 0, err
	}
	for generation, ids := range want {
		all := len(found.Hits) > 0
		for _, hit := range found.Hits {
			all = all && ids[hit.ID]
		}
		if all {
			return generation, nil
		}
	}
	return 0, fmt.Errorf("a query found %d summaries that are in no generation together", len(found.Hits))
}

// TestScheduledBuild: with a schedule of every minute a corpus that has changed is built at the next full minute, once, although two
// coordinators watch.
func TestScheduledBuild(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, map[string]string{"build.schedule": `"* * * * *"`})
	server := f.coordinator()
	f.coordinator()
	f.worker()
	f.ingest(server, rows(40))
	var state *levels.State
	until(t, 80*time.Second, "a build was started by the schedule", func() (bool, string) {
		var err error
		state, err = f.open().Builds.Load(t.Context(), f.corpus)
		return err == nil, fmt.Sprint(err)
	})
	if late := state.Started.Sub(state.Started.Truncate(time.Minute)); !strings.HasPrefix(state.Trigger, coordinator.TriggerSchedule) || late > 10*time.Second {
		t.Errorf("the build was started by %q, %v after the minute", state.Trigger, late)
	}
	rests := f.untilRest(time.Minute)
	if rests.Build != state.Build || rests.Status != levels.Built || rests.Generation != 1 {
		t.Errorf("build %s was begun; %s of generation %d is %s", state.Build, rests.Build, rests.Generation, rests.Status)
	}
}
