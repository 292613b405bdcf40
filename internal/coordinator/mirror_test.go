package coordinator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
)

// losable is a place for records that loses everything, beside plans that stay.
type losable struct {
	plans   *leveltest.Memory
	records *leveltest.Memory
}

func newLosable() *losable { return &losable{leveltest.NewMemory(), leveltest.NewMemory()} }

func (l *losable) lose() { l.records = leveltest.NewMemory() }

func (l *losable) corpora() coordinator.MirroredCorpora {
	return coordinator.MirroredCorpora{Corpora: l.records.Corpora(), Plans: l.plans}
}

func (l *losable) builds() coordinator.MirroredBuilds {
	return coordinator.MirroredBuilds{Builds: l.records, Plans: l.plans}
}

// TestMirroredContract: with copies beside them, records and states are what the contract says.
func TestMirroredContract(t *testing.T) {
	leveltest.Run(t, func(*testing.T) leveltest.Ports {
		var elapsed atomic.Int64
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		m := leveltest.NewMemoryAt(func() time.Time { return start.Add(time.Duration(elapsed.Load())) })
		l := &losable{leveltest.NewMemory(), m}
		return leveltest.Ports{Barrier: m, Builds: l.builds(), Corpora: l.corpora(), Members: m, Advance: func(d time.Duration) { elapsed.Add(int64(d)) }}
	})
}

func TestLostRecordComesBack(t *testing.T) {
	ctx := t.Context()
	l := newLosable()
	want := levels.Corpus{
		Name: "c", Embedder: "lexical-1", Width: 384, Changes: 43, Generation: 2, Baseline: &levels.Baseline{Leaves: 40, Changes: 40},
		Epoch: 7, Scheduled: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC),
	}
	if err := l.corpora().Update(ctx, "c", func(c *levels.Corpus) error { *c = want; return nil }); err != nil {
		t.Fatal(err)
	}
	l.lose()
	if names, err := l.corpora().List(ctx); err != nil || !cmp.Equal(names, []string{"c"}) {
		t.Errorf("corpora %v, %v", names, err)
	}
	got, err := l.corpora().Load(ctx, "c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got, unversioned); diff != "" {
		t.Errorf("the record that came back (-want +got):\n%s", diff)
	}
	// It is back in its place, not only read from the copy.
	if _, err := l.records.Corpora().Load(ctx, "c"); err != nil {
		t.Error(err)
	}
	// A change after a loss is one of the record, not of a blank one.
	l.lose()
	if err := l.corpora().Update(ctx, "c", func(c *levels.Corpus) error { c.Changes++; return nil }); err != nil {
		t.Fatal(err)
	}
	want.Changes++
	if got, err = l.corpora().Load(ctx, "c"); err != nil || !cmp.Equal(&want, got, unversioned) {
		t.Errorf("after an update: %+v, %v; want %+v", got, err, want)
	}
}

// unversioned passes over what only tells copies apart.
var unversioned = cmpopts.IgnoreFields(levels.Corpus{}, "Version")

func TestLostRecordThatWasBegunAnewStays(t *testing.T) {
	ctx := t.Context()
	l := newLosable()
	if err := l.corpora().Update(ctx, "c", func(c *levels.Corpus) error { c.Changes = 40; return nil }); err != nil {
		t.Fatal(err)
	}
	l.lose()
	// Somebody who knows no mirror, or was quicker, has written.
	if err := l.records.Corpora().Update(ctx, "c", func(c *levels.Corpus) error { c.Changes = 41; return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := l.corpora().Load(ctx, "c"); err != nil || got.Changes != 41 {
		t.Errorf("%+v, %v; want 41 changes", got, err)
	}
}

func TestDroppedCorpusStaysAway(t *testing.T) {
	ctx := t.Context()
	l := newLosable()
	if err := l.corpora().Update(ctx, "c", func(c *levels.Corpus) error { c.Changes = 40; return nil }); err != nil {
		t.Fatal(err)
	}
	lease, err := l.builds().Acquire(ctx, "c", levels.RightBuild, "h", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.builds().Save(ctx, lease, &levels.State{Corpus: "c", Build: "b", Status: levels.Built}); err != nil {
		t.Fatal(err)
	}
	if err := l.corpora().Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.corpora().Load(ctx, "c"); !errors.Is(err, levels.ErrNotFound) {
		t.Errorf("the record of a corpus that was dropped: %v", err)
	}
	if _, err := l.builds().Load(ctx, "c"); !errors.Is(err, levels.ErrNotFound) {
		t.Errorf("the state of a corpus that was dropped: %v", err)
	}
	if names, err := l.corpora().List(ctx); err != nil || len(names) > 0 {
		t.Errorf("corpora %v, %v", names, err)
	}
}

// TestRecordIsNotBegunAnewWhileItCantBeRead: without its place a record is neither there nor gone.
func TestRecordIsNotBegunAnewWhileItCantBeRead(t *testing.T) {
	l := newLosable()
	m := l.corpora()
	m.Corpora = awayCorpora{m.Corpora}
	err := m.Update(t.Context(), "c", func(*levels.Corpus) error { t.Error("it was changed"); return nil })
	if !errors.Is(err, levels.ErrUnavailable) {
		t.Errorf("error %v, want %v", err, levels.ErrUnavailable)
	}
}

type awayCorpora struct{ levels.Corpora }

func (awayCorpora) Load(context.Context, string) (*levels.Corpus, error) {
	return nil, levels.ErrUnavailable
}

// TestLostStateComesBack: the copy is that of the last save, and one that was fenced off changes it no more than the state.
func TestLostStateComesBack(t *testing.T) {
	ctx := t.Context()
	l := newLosable()
	old, err := l.builds().Acquire(ctx, "c", levels.RightBuild, "h1", time.Nanosecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.builds().Acquire(ctx, "c", levels.RightBuild, "h1", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	most := 1000
	want := &levels.State{Corpus: "c", Build: "b", Status: levels.Paused, Cause: levels.CauseBudget, Why: "why", Epoch: lease.Epoch, MaxTokens: &most}
	if err := l.builds().Save(ctx, lease, want); err != nil {
		t.Fatal(err)
	}
	if err := l.builds().Save(ctx, old, &levels.State{Corpus: "c", Build: "late"}); !errors.Is(err, levels.ErrFenced) {
		t.Errorf("a late save: %v", err)
	}
	l.lose()
	got, err := l.builds().Load(ctx, "c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the state that came back (-want +got):\n%s", diff)
	}
	if _, err := l.builds().Load(ctx, "another"); !errors.Is(err, levels.ErrNotFound) {
		t.Errorf("a corpus without builds: %v", err)
	}
}

// slowPlans lets the first copy of a record wait until others have been made.
type slowPlans struct {
	levels.Plans
	first   sync.Once
	waiting chan struct{}
	proceed chan struct{}
}

func (p *slowPlans) PutTree(ctx context.Context, c *levels.Corpus) error {
	p.first.Do(func() {
		close(p.waiting)
		<-p.proceed
	})
	return p.Plans.PutTree(ctx, c)
}

// TestA4SlowCopyOvertakesNothing: an ingest's copy of the record arrives after that of a publish. After Redis was flushed the record
// is the one that was published.
func TestA4SlowCopyOvertakesNothing(t *testing.T) {
	records := leveltest.NewMemory()
	plans := &slowPlans{Plans: records, waiting: make(chan struct{}), proceed: make(chan struct{})}
	corpora := coordinator.MirroredCorpora{Corpora: records.Corpora(), Plans: plans}
	ingested := make(chan error, 1)
	go func() {
		ingested <- corpora.Update(context.Background(), "c", func(c *levels.Corpus) error {
			c.Changes, c.Generation = 7, 1
			return nil
		})
	}()
	<-plans.waiting
	// Another process publishes; its calls don't wait for that one's.
	others := coordinator.MirroredCorpora{Corpora: records.Corpora(), Plans: records}
	if err := others.Update(t.Context(), "c", func(c *levels.Corpus) error { c.Generation++; return nil }); err != nil {
		t.Fatal(err)
	}
	close(plans.proceed)
	if err := <-ingested; err != nil {
		t.Fatal(err)
	}
	flushed := coordinator.MirroredCorpora{Corpora: leveltest.NewMemory().Corpora(), Plans: records}
	got, err := flushed.Load(t.Context(), "c")
	if err != nil || got.Generation != 2 || got.Changes != 7 {
		t.Errorf("the record that came back: %+v, %v; want generation 2", got, err)
	}
}
