package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// What could not be embedded is reported by document; the rest stands, and running again does only what is missing.
func TestAFailingBatch(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 4), "b.md": sentences(100, 4), "c.md": sentences(200, 4)})
	w.cfg.EmbedItems = 1
	down := errors.New("the model is ill")
	w.model.fail = func(texts []string) error {
		if strings.Contains(texts[0], "number 102 ") {
			return down
		}
		return nil
	}
	report := w.ingest(".")
	if diff := cmp.Diff(api.DocumentCounts{Added: 2, Failed: 1}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.LeafCounts{Added: 5, Total: 5}, report.Leaves); diff != "" {
		t.Error(diff)
	}
	if len(report.Errors) != 1 || report.Errors[0].Source != w.path("b.md") || !strings.Contains(report.Errors[0].Error, `document "b.md" lacks 1 of its 2 leaves, ingest it again: `) || !strings.Contains(report.Errors[0].Error, down.Error()) {
		t.Errorf("%+v", report.Errors)
	}
	w.model.fail = nil
	w.model.paid()
	report = w.ingest(".")
	if diff := cmp.Diff(api.DocumentCounts{Changed: 1, Unchanged: 2}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if paid := w.model.paid(); paid != 1 || report.Leaves.Total != 6 || len(report.Errors) != 0 {
		t.Errorf("%d texts embedded again, %+v", paid, report)
	}
}

// The embedder names the passages that it can't embed; the others of the batch are not lost with them.
func TestARefusedPassage(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 4), "b.md": sentences(100, 4)})
	w.cfg.EmbedItems = 10
	in, err := New(w.cfg, w.nodes, w.corpora, picky{w.model, "number 102 "})
	if err != nil {
		t.Fatal(err)
	}
	report, err := in.Ingest(context.Background(), Request{Corpus: "c", Paths: []string{w.dir}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.DocumentCounts{Added: 1, Failed: 1}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if report.Leaves.Total != 3 || len(report.Errors) != 1 || !strings.Contains(report.Errors[0].Error, `"b.md" lacks 1 of its 2 leaves, ingest it again: too odd`) {
		t.Errorf("%+v", report)
	}
}

// picky refuses single passages.
type picky struct {
	*embedder
	marker string
}

func (p picky) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := p.embedder.Embed(ctx, texts)
	refused := &llm.PassageError{Of: len(texts)}
	for i, text := range texts {
		if strings.Contains(text, p.marker) {
			vectors[i] = nil
			refused.Failed = append(refused.Failed, llm.PassageFailure{Index: i, Text: text, Err: errors.New("too odd")})
		}
	}
	if err == nil && len(refused.Failed) > 0 {
		return vectors, refused
	}
	return vectors, err
}

// A changed document that could not be embedded whole keeps the leaves of its old version.
func TestAFailedDocumentKeepsItsOldLeaves(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 4)})
	w.ingest("a.md")
	w.write("a.md", sentences(50, 4))
	w.cfg.EmbedItems = 1
	w.model.fail = func(texts []string) error {
		if strings.Contains(texts[0], "number 52 ") {
			return errors.New("ill")
		}
		return nil
	}
	if diff := cmp.Diff(api.LeafCounts{Added: 1, Total: 3}, w.ingest("a.md").Leaves); diff != "" {
		t.Error(diff)
	}
	w.model.fail = nil
	if diff := cmp.Diff(api.LeafCounts{Added: 1, Removed: 2, Total: 2}, w.ingest("a.md").Leaves); diff != "" {
		t.Error(diff)
	}
}

func TestAnEmbedderThatIsGoneStopsTheIngest(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		calls int
	}{
		"always failing": {errors.New("ill"), mostFailing},
		"no key":         {&llm.Error{Kind: llm.Auth, Status: 401}, 1},
		"unreachable":    {&llm.Error{Kind: llm.Unreachable}, 1},
		"no quota":       {&llm.Error{Kind: llm.Quota}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.md": sentences(0, 100)})
			w.cfg.EmbedItems, w.cfg.EmbedCalls = 1, 1
			calls := 0
			w.model.fail = func([]string) error { calls++; return test.err }
			report, err := w.try(context.Background(), Request{}, "a.md")
			if !errors.Is(err, test.err) {
				t.Errorf("%v", err)
			}
			if calls != test.calls {
				t.Errorf("%d calls, want %d", calls, test.calls)
			}
			if report.Documents.Failed != 1 || len(report.Errors) != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
	t.Run("the only batch", func(t *testing.T) {
		w := newWorld(t, map[string]string{"a.md": "A."})
		ill := errors.New("ill")
		w.model.fail = func([]string) error { return ill }
		if _, err := w.try(context.Background(), Request{}, "a.md"); !errors.Is(err, ill) {
			t.Errorf("nothing could be embedded, and the error is %v", err)
		}
	})
}

func TestUnusableVectorsFromTheEmbedder(t *testing.T) {
	for name, vectors := range map[string][][]float32{"one too few": {{1, 0}}, "ragged": {{1, 0}, {1}}, "zero": {{1, 0}, {0, 0}}, "empty": {{}, {}}} {
		w := newWorld(t, map[string]string{"a.md": sentences(0, 4)})
		in, err := New(w.cfg, w.nodes, w.corpora, fixed{w.model, vectors})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Ingest(context.Background(), Request{Corpus: "c", Paths: []string{w.path("a.md")}}); err == nil || len(w.leaves()) != 0 {
			t.Errorf("%s: %v, leaves %q", name, err, w.texts())
		}
	}
}

// fixed returns the same vectors whatever it is asked.
type fixed struct {
	llm.Embedder
	vectors [][]float32
}

func (f fixed) Embed(context.Context, []string) ([][]float32, error) { return f.vectors, nil }

// An interrupt at any call leaves a state from which running again comes to the same end, and pays for no text twice that
// was stored.
func TestInterruptedAnywhere(t *testing.T) {
	files := map[string]string{"r.jsonl": rows(row{"id": "p0", "document_id": "p", "text": "P zero."}, row{"id": "q", "text": "Q."}, row{"id": "p1", "document_id": "p", "text": "P one."})}
	for i := range 6 {
		files[fmt.Sprintf("%d.md", i)] = sentences(100*i, 6)
	}
	undisturbed := newWorld(t, files)
	undisturbed.ingest(".")
	want := undisturbed.texts()
	for after := range 7 {
		w := newWorld(t, files)
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		w.model.fail = func([]string) error {
			if calls++; calls > after {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		_, err := w.try(ctx, Request{}, ".")
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d calls: %v", after, err)
		}
		w.model.fail = nil
		stored, paid := len(w.leaves()), w.model.paid()
		if stored < paid {
			t.Errorf("after %d calls: %d texts embedded, %d leaves stored", after, paid, stored)
		}
		report := w.ingest(".")
		if diff := cmp.Diff(want, w.texts()); diff != "" {
			t.Errorf("after %d calls: %s", after, diff)
		}
		if again := w.model.paid(); again != len(want)-stored || report.Leaves.Total != len(want) {
			t.Errorf("after %d calls: %d texts embedded the second time, %d leaves were missing", after, again, len(want)-stored)
		}
		if c := w.record(); c.Changes < int64(len(want)) {
			t.Errorf("after %d calls: changes %d, leaves %d", after, c.Changes, len(want))
		}
	}
}

// Standard input that waits for more must not hold up an interrupt.
func TestInterruptedWhileStandardInputWaits(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		w := newWorld(t, nil)
		in, out := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		req := Request{Stdin: in}
		if vectors {
			req.Vectors = w.vectors("v.npy", 2, 1, 2)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			fmt.Fprintln(out, `{"id":"a","text":"A."}`)
			cancel() // the reader now waits for the next row
		})
		if _, err := w.try(ctx, req, "-"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		wg.Wait()
		out.Close()
	}
}

// Whatever calls of the store fail, before or after they took effect: repeated until it succeeds, an ingest comes to the same end,
// and the corpus has never grown by more than the record says.
func TestAFlakyStore(t *testing.T) {
	first := map[string]string{"r.jsonl": rows(row{"id": "p0", "document_id": "p", "text": "P zero."}, row{"id": "p1", "document_id": "p", "text": "P one."})}
	second := map[string]string{"r.jsonl": rows(row{"id": "p1", "document_id": "p", "text": "P one."}, row{"id": "q", "text": "Q."})}
	for i := range 8 {
		first[fmt.Sprintf("%d.md", i)] = sentences(100*i, 6)
		second[fmt.Sprintf("%d.md", i)] = sentences(100*i+i, 8-i)
	}
	want := newWorld(t, first)
	want.ingest(".")
	for name, text := range second {
		want.write(name, text)
	}
	want.ingest(".")
	for seed := range uint64(20) {
		w := newWorld(t, first)
		steady := w.nodes
		w.nodes = storetest.NewFlaky(steady, storetest.Seeded(seed, 0.15))
		w.cfg.PutItems = 3
		w.repeat()
		for name, text := range second {
			w.write(name, text)
		}
		w.repeat()
		w.nodes = steady
		if diff := cmp.Diff(want.texts(), w.texts()); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if got, least := w.record().Changes, want.record().Changes; got < least {
			t.Errorf("seed %d: changes %d, undisturbed %d", seed, got, least)
		}
	}
}

// repeat ingests until everything is in.
func (w *world) repeat() {
	w.t.Helper()
	for range 200 {
		report, err := w.try(context.Background(), Request{}, ".")
		if err == nil && !report.LeftOut() {
			return
		}
	}
	w.t.Fatal("200 attempts have failed")
}

// The record must have counted a leaf before the store holds it.
func TestGrowthIsCountedFirst(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 30)})
	check := &counted{Store: w.nodes, corpora: w.corpora, t: t}
	w.nodes = check
	w.ingest("a.md")
	w.write("a.md", sentences(10, 10))
	w.ingest("a.md")
	if check.writes == 0 || check.removed == 0 {
		t.Errorf("%d writes, %d leaves removed", check.writes, check.removed)
	}
}

type counted struct {
	store.Store
	corpora                 levels.Corpora
	t                       *testing.T
	writes, stored, removed int
}

func (c *counted) grown(ctx context.Context) {
	record, err := c.corpora.Load(ctx, "c")
	if err != nil {
		c.t.Fatal(err)
	}
	// Leaves that took the place of others count once.
	if least := max(c.stored, c.removed); record.Changes < int64(least) {
		c.t.Errorf("%d leaves were written and %d removed when the record said %d", c.stored, c.removed, record.Changes)
	}
}

func (c *counted) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	c.writes++
	ids := make([]tree.ID, len(nodes))
	for i := range nodes {
		ids[i] = nodes[i].ID
	}
	there, err := c.Store.Get(ctx, corpus, ids, store.Fields{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.stored += len(nodes) - len(there) // one that has only moved is no growth
	c.grown(ctx)
	return c.Store.Put(ctx, corpus, nodes)
}

func (c *counted) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if died == tree.Deleted {
		c.removed += len(ids)
		c.grown(ctx)
	}
	return c.Store.SetLife(ctx, corpus, ids, born, died)
}

// One node that the store refuses doesn't keep the others out.
func TestANodeThatTheStoreRefuses(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 4), "b.md": sentences(100, 4)})
	w.nodes = refusing{w.nodes, "number 102 "}
	report := w.ingest(".")
	if diff := cmp.Diff(api.DocumentCounts{Added: 1, Failed: 1}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if report.Leaves.Added != 3 || len(w.leaves()) != 3 || len(report.Errors) != 1 || !strings.Contains(report.Errors[0].Error, "read-only disk") {
		t.Errorf("%+v", report)
	}
}

type refusing struct {
	store.Store
	marker string
}

func (r refusing) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	failed := map[tree.ID]error{}
	var rest []tree.Node
	for _, n := range nodes {
		if strings.Contains(n.Text, r.marker) {
			failed[n.ID] = errors.New("read-only disk")
		} else {
			rest = append(rest, n)
		}
	}
	if err := r.Store.Put(ctx, corpus, rest); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &store.PutError{Failed: failed}
	}
	return nil
}

// When the store is gone the embedder must not be paid for what can't be kept.
func TestAStoreThatIsGoneStopsTheIngest(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 2000)})
	gone := errors.New("connection refused")
	w.nodes = failingPut{w.nodes, gone}
	if _, err := w.try(context.Background(), Request{}, "a.md"); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if paid := w.model.paid(); paid > 200 {
		t.Errorf("%d texts were embedded", paid)
	}
}

type failingPut struct {
	store.Store
	error
}

func (f failingPut) Put(context.Context, string, []tree.Node) error { return f.error }
