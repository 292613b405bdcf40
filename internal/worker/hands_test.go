package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// A store that has just come back may not have all nodes at once: children that are missing are looked for again, and only
// a task whose children stay away is buried.
func TestChildrenThatComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		ctx := context.Background()
		away := b.tasks[0].Children[1]
		if err := b.nodes.Delete(ctx, corpusName, []tree.ID{away, b.tasks[1].Children[0]}); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		go func() {
			<-time.After(time.Second) // in the test's own time
			once.Do(func() {
				leaf := tree.Node{ID: away, DocumentID: "doc", ChunkIndex: 1, Text: "text 1", Tokens: 2, NLeaves: 1, Died: tree.Alive, Vector: []float32{1, 0}}
				if err := b.nodes.Put(ctx, corpusName, []tree.Node{leaf}); err != nil {
					t.Error(err)
				}
			})
		}()
		b.runUntil(2)
		if c := b.count(); c.Done != 1 || c.Dead != 1 {
			t.Errorf("%d done, %d dead; want one of each", c.Done, c.Dead)
		}
		if diff := cmp.Diff([]string{"child_gone"}, b.buried()); diff != "" {
			t.Error(diff)
		}
	})
}

// As many clusters are summarized at a time as there are slots, also while the nodes of others are written.
func TestSlotsAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 40)
		b.cfg.Slots = 4
		var mu sync.Mutex
		now, most := 0, 0
		b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return mapreduce.Answer{Text: "a summary", Usage: tree.Usage{Calls: 1}}, nil
		}
		began := time.Now()
		b.runUntil(40)
		if most != 4 {
			t.Errorf("%d clusters at a time, want 4", most)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("40 clusters of a second on 4 slots took %v", took)
		}
	})
}
