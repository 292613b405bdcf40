package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/tree"
)

// idsByText returns the visible leaves' ids, those of one text in the order of their places.
func (w *world) idsByText() map[string][]tree.ID {
	w.t.Helper()
	out := map[string][]tree.ID{}
	for _, n := range w.leaves() {
		out[n.Text] = append(out[n.Text], n.ID)
	}
	return out
}

// TestLeavesSurviveAnInsertion: the same text in the same document is the same leaf, wherever it stands, and is never embedded
// again, nor counted as growth.
func TestLeavesSurviveAnInsertion(t *testing.T) {
	paragraphs := func(numbers ...int) string {
		var all []string
		for _, n := range numbers {
			all = append(all, fmt.Sprintf("Paragraph number %d says that nothing at all is like the number %d of its own.", n, n))
		}
		return strings.Join(all, "\n\n") + "\n"
	}
	w := newWorld(t, map[string]string{"a.md": paragraphs(1, 2, 3, 4, 5, 6, 7, 8, 9)})
	w.ingest("a.md")
	w.model.paid()
	before := w.idsByText()
	for step, now := range [][]int{
		{1, 20, 2, 3, 4, 5, 6, 7, 8, 9}, {20, 9, 8, 7, 6, 5, 4, 3, 2, 1}, {3, 4, 5}, {30, 31, 3, 3, 4, 5, 3}, {3, 30, 3, 4, 3, 31, 5},
	} {
		w.write("a.md", paragraphs(now...))
		grown := w.grown(func() { w.ingest("a.md") })
		after := w.idsByText()
		fresh, gone, places := 0, 0, 0
		for text, ids := range after {
			fresh += max(0, len(ids)-len(before[text]))
			places += len(ids)
			seen := map[tree.ID]bool{}
			for _, id := range ids {
				seen[id] = true
			}
			if len(seen) != len(ids) {
				t.Errorf("step %d: two leaves have one id", step)
			}
			kept := 0
			for _, id := range before[text] {
				if seen[id] {
					kept++
				}
			}
			if kept != min(len(ids), len(before[text])) {
				t.Errorf("step %d: %d of %d leaves of %q are those before", step, kept, len(before[text]), text)
			}
		}
		for text, ids := range before {
			gone += max(0, len(ids)-len(after[text]))
		}
		if places != len(now) {
			t.Errorf("step %d: %d leaves, want %d", step, places, len(now))
		}
		if paid := w.model.paid(); paid != fresh {
			t.Errorf("step %d: %d texts were embedded, %d are new", step, paid, fresh)
		}
		if grown != max(fresh, gone) {
			t.Errorf("step %d: %d changes, want %d", step, grown, max(fresh, gone))
		}
		for i, n := range w.leaves() {
			if n.ChunkIndex != i || !strings.Contains(n.Text, fmt.Sprintf("number %d says", now[i])) {
				t.Errorf("step %d: place %d holds leaf %d, %q", step, i, n.ChunkIndex, n.Text)
			}
		}
		if report := w.ingest("a.md"); report.Documents.Unchanged != 1 || w.model.paid() != 0 {
			t.Errorf("step %d: ingested again: %+v", step, report.Documents)
		}
		before = after
	}
}

// TestRowsSurviveAnInsertion: the same for ready-made chunks with a place of their own, many to a document.
func TestRowsSurviveAnInsertion(t *testing.T) {
	chunks := func(from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{\"id\": \"r%d\", \"document_id\": \"d\", \"chunk_index\": %d, \"text\": \"chunk %d\"}\n", i, i, from+i)
		}
		return b.String()
	}
	w := newWorld(t, map[string]string{"a.jsonl": chunks(1, 1500)})
	w.ingest("a.jsonl")
	w.model.paid()
	w.write("a.jsonl", chunks(0, 1501))
	w.ingest("a.jsonl")
	if paid := w.model.paid(); paid != 1 {
		t.Errorf("%d chunks were embedded, one is new", paid)
	}
	if total, err := w.ingester().total(context.Background(), "c"); err != nil || total != 1501 {
		t.Errorf("%d leaves, %v", total, err)
	}
}
