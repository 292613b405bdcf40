package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// scanned is a store that tells of each scan of the summaries before it begins.
type scanned struct {
	store.Store
	before func()
}

func (s *scanned) Each(ctx context.Context, corpus string, f store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	if f.MaxLevel != 0 {
		s.before()
	}
	return s.Store.Each(ctx, corpus, f, with, fn)
}

// whole holds that readers see every node of the report, and that every node below the top is in a cluster.
func (s *system) whole(report api.BuildReport) {
	s.t.Helper()
	planned := 0
	for _, l := range report.Levels {
		planned += l.NodesOut
	}
	visible, parented, leaves := s.visible(), map[tree.ID]bool{}, 0
	for level := 1; level <= len(report.Levels); level++ {
		for _, n := range s.summaries(level) {
			for _, child := range n.Children {
				parented[child] = true
				if _, ok := visible[child]; !ok {
					s.t.Errorf("summary %s has a child that readers don't see", n.ID)
				}
			}
		}
	}
	err := s.nodes.Each(context.Background(), corpusName, store.Leaves().VisibleAt(0), store.Fields{}, func(n *tree.Node) error {
		leaves++
		if !parented[n.ID] {
			s.t.Errorf("leaf %s is in no cluster", n.ID)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(visible) != planned+leaves {
		s.t.Errorf("readers see %d nodes, want %d leaves and %d summaries", len(visible), leaves, planned)
	}
}

// TestA3GCBesideABeginningBuild: a build begins, and pays for summaries, after gc has looked whether one is open and before it looks
// at the nodes.
func TestA3GCBesideABeginningBuild(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	paid, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.endpoint.hold = func(ctx context.Context) error {
		if s.endpoint.total() < 7 {
			return nil
		}
		once.Do(func() { close(paid) })
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	type outcome struct {
		report api.BuildReport
		err    error
	}
	built := make(chan outcome, 1)
	var begin sync.Once
	nodes := &scanned{Store: s.nodes, before: func() {
		begin.Do(func() {
			refused := make(chan struct{})
			go func() {
				report, err := s.process(&killSwitch{}).run(context.Background(), coordinator.Request{})
				if err != nil {
					close(refused)
				}
				built <- outcome{report, err}
			}()
			select {
			case <-paid:
			case <-refused:
			}
		})
	}}
	gc := s.collector(nodes)
	if _, err := gc.GC(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(release)
	got := <-built
	if errors.Is(got.err, levels.ErrHeld) {
		got.report, got.err = s.process(&killSwitch{}).run(t.Context(), coordinator.Request{})
	}
	if got.err != nil || got.report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v, %v", got.report, got.err)
	}
	s.whole(got.report)
}

// collector returns a coordinator that only collects.
func (s *system) collector(nodes store.Store) *coordinator.Coordinator {
	s.t.Helper()
	c, err := coordinator.New(coordinator.Config{
		Corpus: corpusName, Rule: s.rule, MinChunks: 4, Recipe: s.recipe, Holder: fmt.Sprint("collector ", holders.Add(1)), LeaseTTL: time.Minute,
	}, coordinator.Deps{
		Store: nodes, Corpora: s.records.Corpora(), Builds: s.records, Barrier: s.records, Plans: s.records, Queue: s.queue, Journal: s.journal,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestA3MissingNodesAreMadeAgain: nodes that were there when their level was counted are gone before the next is planned, or the tree
// published. They come back before readers see the tree, and no call is paid for twice.
func TestA3MissingNodesAreMadeAgain(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	deleted := 0
	remove := func(level, n int) {
		for _, node := range s.summaries(level)[:n] {
			deleted++
			if err := s.nodes.Delete(context.Background(), corpusName, []tree.ID{node.ID}); err != nil {
				t.Error(err)
			}
		}
	}
	report := s.build(coordinator.Request{Said: func(step string) {
		switch step {
		case "level 1 is complete: 12 nodes":
			remove(1, 3)
		case "level 2 is complete: 3 nodes":
			remove(2, 1)
		case "no level 3: 3 nodes, build.min_chunks is 4: on every level, fewer get no summaries above them":
			remove(1, 2)
			remove(2, 1)
		}
	}})
	if report.Outcome != api.OutcomeBuilt || deleted != 7 {
		t.Fatalf("%d nodes were deleted; %+v", deleted, report)
	}
	s.whole(report)
	if got := s.endpoint.total(); got != 15 {
		t.Errorf("%d calls were paid for, want 15", got)
	}
}

// TestA10StaleHolderCantChangeLives: a coordinator that was paused beyond its lease comes back in the middle of publishing, when
// another one has taken over.
func TestA10StaleHolderCantChangeLives(t *testing.T) {
	s := newSystem(t)
	var mu sync.Mutex
	var late time.Duration
	s.records = leveltest.NewMemoryAt(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(late)
	})
	s.addLeaves("a", 60)
	s.build(coordinator.Request{})
	before := s.lives()
	s.addLeaves("b", 30)
	taken := false
	s.around = func(nodes store.Store) store.Store {
		return &scanned{Store: nodes, before: func() {
			state, err := s.records.Load(context.Background(), corpusName)
			if err != nil || state.Status != levels.PublishingTree || taken {
				return
			}
			taken = true
			mu.Lock()
			late = time.Hour
			mu.Unlock()
			if _, err := s.records.Acquire(context.Background(), corpusName, levels.RightBuild, "another", time.Minute, 0); err != nil {
				t.Error(err)
			}
		}}
	}
	_, err := s.process(&killSwitch{}).run(t.Context(), coordinator.Request{})
	if !taken || !errors.Is(err, levels.ErrFenced) {
		t.Errorf("error %v, want that it is fenced off", err)
	}
	after := s.lives()
	for id := range after {
		if _, ok := before[id]; !ok {
			delete(after, id) // of the build itself
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("lives of the generation that readers see (-before +after):\n%s", d)
	}
}

// lives are those of all summaries.
func (s *system) lives() map[tree.ID][2]int {
	s.t.Helper()
	lives := map[tree.ID][2]int{}
	err := s.nodes.Each(context.Background(), corpusName, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
		lives[n.ID] = [2]int{n.Born, n.Died}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return lives
}

// TestA12TasksLostFromTheQueue: the stream loses tasks while a build waits for them.
func TestA12TasksLostFromTheQueue(t *testing.T) {
	s := newSystem(t)
	s.addLeaves("a", 60)
	s.still = 50 * time.Millisecond
	var once sync.Once
	s.endpoint.hold = func(ctx context.Context) error {
		once.Do(func() {
			state, err := s.records.Load(ctx, corpusName)
			for err == nil && state.Levels[0].Phase != levels.Open { // until all are queued; ctx ends it
				state, err = s.records.Load(ctx, corpusName)
			}
			if err == nil {
				err = s.queue.Withdraw(ctx, corpusName, state.Build)
			}
			if err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	report, err := s.process(&killSwitch{}).run(ctx, coordinator.Request{})
	if err != nil || report.Outcome != api.OutcomeBuilt {
		t.Fatalf("%+v, %v", report, err)
	}
	s.whole(report)
	state, err := s.records.Load(t.Context(), corpusName)
	if err != nil || state.Levels[0].Missing == 0 {
		t.Errorf("the record tells of no missing task: %+v, %v", state, err)
	}
}
