package natsqueue

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// planOf returns a sealed plan of n clusters.
func planOf(corpus, build string, level, n int) *levels.Plan {
	p := &levels.Plan{
		Corpus: corpus, Build: build, Level: level, Recipe: "recipe", Generation: 3,
		Scope: tree.ScopeCorpus, NodesIn: 2 * n,
	}
	for _, task := range queuetest.Tasks(corpus, build, level, n) {
		p.Clusters = append(p.Clusters, levels.Cluster{
			ID: task.ID, DocumentID: task.DocumentID, Children: task.Children, Tokens: 200, NLeaves: 2,
		})
	}
	p.Seal()
	return p
}

func putPlan(t *testing.T, c *Conn, p *levels.Plan) {
	t.Helper()
	if err := c.Plans().PutPlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func wantPlan(t *testing.T, c *Conn, want *levels.Plan) {
	t.Helper()
	got, err := c.Plans().Plan(t.Context(), want.Of())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func wantNoPlan(t *testing.T, c *Conn, level tree.Level) {
	t.Helper()
	if _, err := c.Plans().Plan(t.Context(), level); !errors.Is(err, levels.ErrNotFound) {
		t.Errorf("plan of %v: got error %v, want %v", level, err, levels.ErrNotFound)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	eachServer(t, lease, func(t *testing.T, c *Conn, restart func() *Conn) {
		small, large := planOf("my corpus", "build", 1, 2), planOf("my corpus", "build", 2, 20_000)
		wantNoPlan(t, c, small.Of())
		stopped := &levels.Plan{Corpus: "my corpus", Build: "build", Level: 3, Stopped: "too few nodes"}
		stopped.Seal()
		for _, p := range []*levels.Plan{small, large, stopped} {
			putPlan(t, c, p)
			wantPlan(t, c, p)
		}
		replaced := planOf("my corpus", "build", 1, 3)
		putPlan(t, c, replaced)
		wantPlan(t, c, replaced)
		c = restart()
		for _, p := range []*levels.Plan{replaced, large, stopped} {
			wantPlan(t, c, p)
		}
	})
}

func TestDropPlans(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	dropped := []*levels.Plan{planOf("c", "b", 1, 2), planOf("c", "b", 2, 2), planOf("c", "b", 11, 2)}
	kept := []*levels.Plan{planOf("c", "b2", 1, 2), planOf("c2", "b", 1, 2), planOf("c/b", "1", 1, 2)}
	for _, p := range append(dropped, kept...) {
		putPlan(t, c, p)
	}
	for range 2 { // dropping what is gone is no error
		if err := c.Plans().DropPlans(t.Context(), "c", "b"); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range dropped {
		wantNoPlan(t, c, p.Of())
	}
	for _, p := range kept {
		wantPlan(t, c, p)
	}
	if got := len(objectSubjects(t, c)); got != 2*len(kept) {
		t.Errorf("%d subjects are left in the object store, want a description and chunks for each of %d plans", got, len(kept))
	}
}

func objectSubjects(t *testing.T, c *Conn) []string {
	t.Helper()
	subjects, err := c.subjects(t.Context(), plansStream, "$O.>")
	if err != nil {
		t.Fatal(err)
	}
	return subjects
}

func TestPlanIsVerified(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	p := planOf("c", "b", 1, 2)
	p.Clusters[0].Tokens++
	if err := c.Plans().PutPlan(t.Context(), p); err == nil {
		t.Error("put of a plan that was changed after it was sealed: got no error")
	}
	store := objects{conn: c}
	for _, data := range []string{"", "garbage", "{}"} {
		if err := store.put(t.Context(), planName(p.Of()), []byte(data)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Plans().Plan(t.Context(), p.Of()); err == nil || errors.Is(err, levels.ErrNotFound) {
			t.Errorf("plan over %q: got error %v, want one about its content", data, err)
		}
	}
	// A plan under another level's name.
	other := planOf("c", "b", 2, 2)
	if err := (&plans{objects: store}).put(t.Context(), planName(p.Of()), other); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Plans().Plan(t.Context(), p.Of()); err == nil {
		t.Error("a plan of another level: got no error")
	}
}

// TestPlanWithDamagedChunks: the object's digest is checked.
func TestPlanWithDamagedChunks(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	p := planOf("c", "b", 1, 2)
	putPlan(t, c, p)
	for _, subject := range objectSubjects(t, c) {
		if strings.HasPrefix(subject, "$O."+plansBucket+".C.") {
			if err := c.purge(t.Context(), plansStream, subject); err != nil {
				t.Fatal(err)
			}
			if _, err := c.js.Publish(t.Context(), subject, []byte("damaged")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Plans().Plan(t.Context(), p.Of()); !errors.Is(err, errDamaged) {
		t.Errorf("got error %v, want %v", err, errDamaged)
	}
}

// TestPlanIsReadWhileReplaced: a reader gets one of the two, whole.
func TestPlanIsReadWhileReplaced(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	versions := []*levels.Plan{planOf("c", "b", 1, 1000), planOf("c", "b", 1, 1001)}
	putPlan(t, c, versions[0])
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := c.Plans().PutPlan(t.Context(), versions[i%2]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20 {
		p, err := c.Plans().Plan(t.Context(), versions[0].Of())
		if err != nil {
			t.Error(err)
			break
		}
		if n := len(p.Clusters); n != 1000 && n != 1001 {
			t.Errorf("read %d clusters", n)
		}
	}
	close(stop)
	writer.Wait()
}

func TestTreeRecords(t *testing.T) {
	t.Parallel()
	eachServer(t, lease, func(t *testing.T, c *Conn, restart func() *Conn) {
		if _, err := c.Plans().Tree(t.Context(), "my corpus"); !errors.Is(err, levels.ErrNotFound) {
			t.Fatalf("got error %v, want %v", err, levels.ErrNotFound)
		}
		want := &levels.Corpus{
			Name: "my corpus", Embedder: "lexical-1", Width: 384, Changes: 1234, Generation: 7,
			Baseline: &levels.Baseline{Leaves: 1000, Changes: 1200},
			Settings: &levels.Settings{Scope: tree.ScopeCorpus, KeepLeaves: true, Recipe: "r", All: map[string]string{"a.b": "c"}},
		}
		other := &levels.Corpus{Name: "other"}
		for _, record := range []*levels.Corpus{{Name: "my corpus"}, want, other} {
			if err := c.Plans().PutTree(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		c = restart()
		for _, record := range []*levels.Corpus{want, other} {
			got, err := c.Plans().Tree(t.Context(), record.Name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(record, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		}
		if err := c.Plans().PutTree(t.Context(), &levels.Corpus{}); err == nil {
			t.Error("put of a record without a name: got no error")
		}
	})
}

// TestUnfinishedPlansAreRemoved: a process that is killed while it puts a plan leaves chunks that nothing names.
func TestUnfinishedPlansAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := embedded(t, dir)
	p := planOf("c", "b", 1, 2)
	putPlan(t, c, p)
	for i := range 3 {
		if _, err := c.js.Publish(t.Context(), fmt.Sprintf("$O.%s.C.unfinished%d", plansBucket, i), []byte("half a plan")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = embedded(t, dir)
	if got := objectSubjects(t, c); len(got) != 2 {
		t.Errorf("%v are left, want the description and the chunks of one plan", got)
	}
	wantPlan(t, c, p)
}

// TestObjectsAreThoseOfNats: the tools of NATS can read them.
func TestObjectsAreThoseOfNats(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	want := bytes.Repeat([]byte("0123456789"), chunkSize/5) // two chunks
	for _, name := range []string{"plan/a=20b/c/1", "tree/ü"} {
		for _, data := range [][]byte{[]byte("old"), want} {
			if err := (objects{conn: c}).put(t.Context(), name, data); err != nil {
				t.Fatal(err)
			}
		}
		store, err := c.js.ObjectStore(t.Context(), plansBucket)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.GetBytes(t.Context(), name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: nats.go reads %d bytes, error %v; want %d", name, len(got), err, len(want))
		}
	}
	if got := objectSubjects(t, c); len(got) != 4 {
		t.Errorf("%v are in the store, want a description and chunks for each of two objects", got)
	}
}
