package ingest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
)

func TestDelete(t *testing.T) {
	w := newWorld(t, map[string]string{"docs/a.md": sentences(0, 4), "docs/b.md": "B.", "docs/c.md": "C."})
	w.ingest("docs")
	var report api.IngestReport
	var err error
	grown := w.grown(func() {
		report, err = w.ingester().Delete(context.Background(), "c", []string{"docs/a.md", "docs/bb.md", "c.md", "docs/a.md", "entirely-other-name"})
	})
	if !errors.Is(err, api.ErrUnknown) {
		t.Fatalf("%v", err)
	}
	want := `ingest: corpus c has no document "docs/bb.md" (nearest: docs/b.md, docs/c.md); no document "c.md" (nearest: docs/c.md, docs/b.md); no document "entirely-other-name"`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.DocumentCounts{Removed: 1}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.LeafCounts{Removed: 2, Total: 2}, report.Leaves); diff != "" || grown != 2 {
		t.Errorf("grown by %d; %s", grown, diff)
	}
	if diff := cmp.Diff([]string{"docs/b.md#0 B.", "docs/c.md#0 C."}, w.texts()); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteWhileABuildIsOpen(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": "A.", "b.md": "B."})
	w.ingest(".")
	w.open = true
	if _, err := w.ingester().Delete(context.Background(), "c", []string{"a.md"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b.md#0 B."}, w.texts()); diff != "" {
		t.Error(diff)
	}
	// It is gone for everybody but the build.
	if _, err := w.ingester().Delete(context.Background(), "c", []string{"a.md"}); !errors.Is(err, api.ErrUnknown) {
		t.Errorf("deleted again: %v", err)
	}
	// It comes back alive, without being embedded.
	w.model.paid()
	if report := w.ingest("a.md"); report.Documents.Added != 1 || w.model.paid() != 0 || len(w.leaves()) != 2 {
		t.Errorf("%+v", report)
	}
}

func TestDeleteInACorpusThatDoesNotExist(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": "A."})
	w.ingest("a.md")
	_, err := w.ingester().Delete(context.Background(), "d", []string{"a.md"})
	if !errors.Is(err, api.ErrUnknown) || !strings.Contains(err.Error(), `no corpus "d"`) {
		t.Errorf("%v", err)
	}
}

func TestDeleteAll(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 4), "b.md": "B."})
	w.ingest(".")
	report, err := w.ingester().DeleteAll(context.Background(), "c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.DocumentCounts{Removed: 2}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.LeafCounts{Removed: 3}, report.Leaves); diff != "" {
		t.Error(diff)
	}
	if _, err := w.corpora.Load(context.Background(), "c"); !errors.Is(err, levels.ErrNotFound) || len(w.leaves()) != 0 {
		t.Errorf("after deletion: %v, leaves %q", err, w.texts())
	}
	if _, err := w.ingester().DeleteAll(context.Background(), "c"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	// Another model may begin anew.
	w.model = &embedder{name: "other/model", width: 3}
	w.ingest(".")
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
