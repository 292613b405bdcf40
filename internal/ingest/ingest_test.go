package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestIngestAdds(t *testing.T) {
	w := newWorld(t, map[string]string{
		"docs/a.md": sentences(0, 6), "docs/b.txt": "Short.", "docs/blank.txt": " \n", "docs/x.bin": "?",
		"docs/rows.jsonl": rows(row{"id": "r1", "text": "One row.", "author": "Ann", "year": 1999, "tags": []string{"x"}}, row{"id": "r2", "document_id": "d", "text": "Another."}, row{"id": "r3", "document_id": "d", "text": " "}),
	})
	report := w.ingest("docs")
	want := api.IngestReport{
		Corpus: "c", Documents: api.DocumentCounts{Added: 4}, Leaves: api.LeafCounts{Added: 6, Total: 6},
		Skipped: map[string]int{corpus.SkipBlank: 2, corpus.SkipExtension: 1}, Errors: []api.InputError{},
	}
	if n := len(report.SkippedFiles); n != 3 {
		t.Errorf("%d files are named as skipped, want 3", n)
	}
	report.SkippedFiles = nil
	if diff := cmp.Diff(want, report); diff != "" {
		t.Error(diff)
	}
	leaves := w.leaves()
	if len(leaves) != 6 {
		t.Fatalf("%d leaves: %q", len(leaves), w.texts())
	}
	counter := corpus.NewCounter()
	for i, n := range leaves {
		if !unit(n.Vector) {
			t.Errorf("leaf %d is %v long", i, n.Vector)
		}
		if n.Source == "" || !strings.HasPrefix(n.Path, n.Source) || n.Updated == 0 {
			t.Errorf("leaf %d is of %q, read at %q, at %d", i, n.Source, n.Path, n.Updated)
		}
		n.Vector, n.Source, n.Path, n.Updated = nil, "", "", 0
		wantNode := tree.Node{
			ID: tree.LeafID("c", n.DocumentID, n.ChunkIndex, n.Text), DocumentID: n.DocumentID, ChunkIndex: n.ChunkIndex,
			Text: n.Text, Tokens: counter.Count(n.Text), NLeaves: 1, Died: tree.Alive,
		}
		if n.DocumentID == "r1" {
			wantNode.Metadata = map[string]any{"author": "Ann", "year": 1999.0, "tags": []string{"x"}}
		}
		if diff := cmp.Diff(wantNode, n); diff != "" {
			t.Errorf("leaf %d: %s", i, diff)
		}
	}
	wantTexts := []string{
		"d#0 Another.", "docs/a.md#0 " + strings.TrimSpace(sentences(0, 2)), "docs/a.md#1 " + strings.TrimSpace(sentences(2, 2)), "docs/a.md#2 " + strings.TrimSpace(sentences(4, 2)),
		"docs/b.txt#0 Short.", "r1#0 One row.",
	}
	if diff := cmp.Diff(wantTexts, w.texts()); diff != "" {
		t.Error(diff)
	}
	if c := w.record(); c.Embedder != "test/model" || c.Width != 8 || c.Changes != 6 {
		t.Errorf("record %+v", c)
	}
}

// FAULTS: run-llama/llama_index 14506, 12756.
func TestIngestAgainDoesNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"docs/a.md": sentences(0, 6), "docs/r.jsonl": rows(row{"id": "r", "text": "Row.", "k": []float64{1}})})
	w.ingest("docs")
	w.model.paid()
	grown := w.grown(func() {
		report := w.ingest("docs")
		if diff := cmp.Diff(api.DocumentCounts{Unchanged: 2}, report.Documents); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(api.LeafCounts{Total: 4}, report.Leaves); diff != "" {
			t.Error(diff)
		}
	})
	if grown != 0 || w.model.paid() != 0 {
		t.Errorf("grown by %d", grown)
	}
}

func TestIngestReplacesWhatChanged(t *testing.T) {
	for _, test := range []struct {
		name, now string
		report    api.DocumentCounts
		leaves    api.LeafCounts
		paid      int
		grown     int
	}{
		{"edited", sentences(0, 2) + "A wholly new sentence stands here, as long. And one more of that kind, too. " + sentences(4, 4), api.DocumentCounts{Changed: 1}, api.LeafCounts{Added: 1, Removed: 1, Total: 4}, 1, 1},
		{"longer", sentences(0, 12), api.DocumentCounts{Changed: 1}, api.LeafCounts{Added: 2, Removed: 0, Total: 6}, 2, 2},
		{"shorter", sentences(0, 4), api.DocumentCounts{Changed: 1}, api.LeafCounts{Added: 0, Removed: 2, Total: 2}, 0, 2},
		{"other", sentences(50, 6), api.DocumentCounts{Changed: 1}, api.LeafCounts{Added: 3, Removed: 4, Total: 3}, 3, 4},
		{"blank", "\n", api.DocumentCounts{Removed: 1}, api.LeafCounts{Added: 0, Removed: 4, Total: 0}, 0, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.md": sentences(0, 8)})
			w.ingest("a.md")
			w.model.paid()
			w.write("a.md", test.now)
			grown := w.grown(func() {
				report := w.ingest("a.md")
				if diff := cmp.Diff(test.report, report.Documents); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(test.leaves, report.Leaves); diff != "" {
					t.Error(diff)
				}
			})
			if paid := w.model.paid(); grown != test.grown || paid != test.paid {
				t.Errorf("grown by %d, want %d; %d texts embedded, want %d", grown, test.grown, paid, test.paid)
			}
			var joined strings.Builder
			for i, n := range w.leaves() {
				if n.ChunkIndex != i {
					t.Errorf("leaf %d has index %d", i, n.ChunkIndex)
				}
				joined.WriteString(n.Text + " ")
			}
			if diff := cmp.Diff(strings.Fields(test.now), strings.Fields(joined.String())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The rows of a document may stand anywhere in the input; only what the whole input lacks is removed.
func TestRowsOfADocumentAreScattered(t *testing.T) {
	var first, second []row
	for i := range 600 { // more than one lookup
		for _, doc := range []string{"p", "q"} {
			first = append(first, row{"id": fmt.Sprint(doc, i), "document_id": doc, "chunk_index": i, "text": fmt.Sprint("Chunk ", i, " of ", doc)})
			if doc == "p" || i%2 == 0 {
				second = append(second, first[len(first)-1])
			}
		}
	}
	w := newWorld(t, map[string]string{"r.jsonl": rows(first...)})
	w.cfg.EmbedItems, w.cfg.PutItems = 64, 512
	if diff := cmp.Diff(api.LeafCounts{Added: 1200, Total: 1200}, w.ingest("r.jsonl").Leaves); diff != "" {
		t.Error(diff)
	}
	w.model.paid()
	slices.Reverse(second)
	w.write("r.jsonl", rows(second...))
	grown := w.grown(func() {
		report := w.ingest("r.jsonl")
		if diff := cmp.Diff(api.LeafCounts{Removed: 300, Total: 900}, report.Leaves); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(api.DocumentCounts{Changed: 1, Unchanged: 1}, report.Documents); diff != "" {
			t.Error(diff)
		}
	})
	if grown != 300 || w.model.paid() != 0 {
		t.Errorf("grown by %d", grown)
	}
}

// Each bad row is reported with its line, the others go in, and a document of which a row is bad keeps what it had.
func TestBadRowsAreReported(t *testing.T) {
	good := []row{{"id": "a0", "document_id": "a", "text": "A zero."}, {"id": "a1", "document_id": "a", "text": "A one."}, {"id": "b", "text": "B."}}
	w := newWorld(t, map[string]string{"r.jsonl": rows(good...)})
	w.ingest("r.jsonl")
	w.write("r.jsonl", rows(good[0])+`{"id":"a1","document_id":"a","text":5}`+"\n{broken\n"+rows(good[2], row{"id": "b", "text": "B again."}, row{"id": "c", "text": "C."},
		row{"id": "d0", "document_id": "d", "chunk_index": 3, "text": "D."}, row{"id": "d1", "document_id": "d", "chunk_index": 3, "text": "D too."}))
	report := w.ingest("r.jsonl")
	want := []api.InputError{
		{Source: w.path("r.jsonl"), Line: 2, Error: `key "text" is not a string`},
		{Source: w.path("r.jsonl"), Line: 3, Error: `broken JSON: unexpected 'b' at byte 2`},
		{Source: w.path("r.jsonl"), Line: 5, Error: `id "b" stands already in ` + w.path("r.jsonl") + " line 4"},
		{Source: w.path("r.jsonl"), Line: 8, Error: `document "d" has chunk_index 3 already, in line 7`},
	}
	if diff := cmp.Diff(want, report.Errors); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.DocumentCounts{Added: 1, Unchanged: 1, Failed: 2}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a#0 A zero.", "a#1 A one.", "b#0 B.", "c#0 C.", "d#3 D."}, w.texts()); diff != "" {
		t.Error(diff)
	}
	if !report.LeftOut() || report.ErrorCount != 4 {
		t.Errorf("%d errors", report.ErrorCount)
	}
}

func TestAFileAndRowsMustNotShareADocument(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": "File a.", "b.jsonl": rows(row{"id": "1", "document_id": "a.md", "text": "Row of a."}, row{"id": "2", "document_id": "c.md", "text": "Row of c."}), "c.md": "File c."})
	report := w.ingest("a.md", "b.jsonl", "c.md")
	if report.ErrorCount != 2 || !strings.Contains(report.Errors[0].Error, `"a.md" is that of the file`) || !strings.Contains(report.Errors[1].Error, `"c.md" is that of `) {
		t.Errorf("%+v", report.Errors)
	}
	if diff := cmp.Diff([]string{"a.md#0 File a.", "c.md#0 Row of c."}, w.texts()); diff != "" {
		t.Error(diff)
	}
}

// While a build is open leaves are only hidden, and come back without being embedded again.
func TestRemovalWhileABuildIsOpen(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": sentences(0, 8)})
	w.ingest("a.md")
	w.model.paid()
	w.open = true
	w.write("a.md", sentences(0, 4))
	if diff := cmp.Diff(api.LeafCounts{Removed: 2, Total: 2}, w.ingest("a.md").Leaves); diff != "" {
		t.Error(diff)
	}
	hidden := 0
	for _, text := range []string{strings.TrimSpace(sentences(4, 2)), strings.TrimSpace(sentences(6, 2))} {
		for i := range 4 {
			nodes, err := w.nodes.Get(context.Background(), "c", []tree.ID{tree.LeafID("c", "a.md", i, text)}, allFields)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes {
				hidden++
				if n.Died != tree.Deleted || n.Text != text {
					t.Errorf("a removed leaf: %+v", n)
				}
			}
		}
	}
	if hidden != 2 {
		t.Errorf("%d leaves are hidden, want 2", hidden)
	}
	// A second time there is nothing left to remove.
	if diff := cmp.Diff(api.DocumentCounts{Unchanged: 1}, w.ingest("a.md").Documents); diff != "" {
		t.Error(diff)
	}
	w.write("a.md", sentences(0, 8))
	grown := w.grown(func() {
		report := w.ingest("a.md")
		if diff := cmp.Diff(api.LeafCounts{Added: 2, Total: 4}, report.Leaves); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(api.DocumentCounts{Changed: 1}, report.Documents); diff != "" {
			t.Error(diff)
		}
	})
	if paid := w.model.paid(); paid != 0 || grown != 2 {
		t.Errorf("%d texts embedded, grown by %d", paid, grown)
	}
	if len(w.leaves()) != 4 {
		t.Errorf("leaves: %q", w.texts())
	}
}

func TestChangedMetadataIsWrittenWithoutEmbedding(t *testing.T) {
	w := newWorld(t, map[string]string{"r.jsonl": rows(row{"id": "a", "text": "A.", "k": "old", "gone": 1}, row{"id": "b", "text": "B.", "k": "same"})})
	w.ingest("r.jsonl")
	before := w.leaves()
	w.model.paid()
	w.write("r.jsonl", rows(row{"id": "a", "text": "A.", "k": "new"}, row{"id": "b", "text": "B.", "k": "same"}))
	grown := w.grown(func() {
		report := w.ingest("r.jsonl")
		if diff := cmp.Diff(api.DocumentCounts{Changed: 1, Unchanged: 1}, report.Documents); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(api.LeafCounts{Total: 2}, report.Leaves); diff != "" {
			t.Error(diff)
		}
	})
	before[0].Metadata = map[string]any{"k": "new"}
	if diff := cmp.Diff(before, w.leaves()); diff != "" {
		t.Error(diff)
	}
	if paid := w.model.paid(); paid != 0 || grown != 0 {
		t.Errorf("%d texts embedded, grown by %d", paid, grown)
	}
}

func TestUnreadableFilesAreCountedAndTheirOldLeavesKept(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": "A.", "b.md": "B.", "c.txt": "C."})
	w.ingest(".")
	w.write("a.md", "bad \xff")
	w.write("c.txt", "NUL \x00")
	w.write("d.md.gz", "not gzip")
	report := w.ingest(".")
	if diff := cmp.Diff(api.DocumentCounts{Unchanged: 1, Failed: 3}, report.Documents); diff != "" {
		t.Error(diff)
	}
	if report.ErrorCount != 3 || report.Leaves.Total != 3 {
		t.Errorf("%+v", report)
	}
}

// FAULTS: microsoft/graphrag 1621.
func TestALargeDocument(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": sentences(0, 50_000)}) // 2.4 MB
	w.cfg = Config{Base: w.dir}
	report := w.ingest("a.txt")
	if report.Leaves.Added < 5_000 || report.Leaves.Total != report.Leaves.Added {
		t.Errorf("%+v", report.Leaves)
	}
	if got := len(w.leaves()); got != report.Leaves.Total {
		t.Errorf("%d leaves in the store, %d reported", got, report.Leaves.Total)
	}
}

func TestPrune(t *testing.T) {
	w := newWorld(t, map[string]string{
		"docs/a.md": "A.", "docs/sub/b.md": "B.", "docs2/c.md": "C.", "docs/rows.jsonl": rows(row{"id": "docs/row", "text": "Row."}), "top.md": "Top.",
	})
	w.ingest("docs", "docs2", "top.md")
	for _, name := range []string{"docs/sub/b.md", "docs2/c.md", "docs/rows.jsonl"} {
		if err := os.Remove(w.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.write("docs/a.md", "bad \xff") // it can't be read, but it isn't gone
	w.write("docs/d.md", "D.")
	report, err := w.try(context.Background(), Request{Prune: true}, "docs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.DocumentCounts{Added: 1, Removed: 2, Failed: 1}, report.Documents); diff != "" {
		t.Error(diff)
	}
	want := []string{"docs/a.md#0 A.", "docs/d.md#0 D.", "docs2/c.md#0 C.", "top.md#0 Top."}
	if diff := cmp.Diff(want, w.texts()); diff != "" {
		t.Error(diff)
	}
	if _, err := w.try(context.Background(), Request{Prune: true}, "."); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Delete(want, 2, 3), w.texts()); diff != "" {
		t.Error(diff)
	}
}

func TestReportIsTheJSONOfTheCommandLine(t *testing.T) {
	w := newWorld(t, map[string]string{"r.jsonl": "broken\n"})
	data, err := json.Marshal(w.ingest("r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"corpus":"c","documents":{"added":0,"changed":0,"unchanged":0,"removed":0,"failed":0},"leaves":{"added":0,"removed":0,"total":0},` +
		`"skipped":{},"errors":[{"source":"` + w.path("r.jsonl") + `","line":1,"error":"not a JSON object"}],"error_count":1}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{ChunkTokens: 7}, {ChunkTokens: -1}, {EmbedItems: -1}, {EmbedCalls: -1}, {PutItems: -1}} {
		if _, err := New(cfg, nil, nil, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	w := newWorld(t, nil)
	if _, err := w.ingester().Ingest(context.Background(), Request{Corpus: "c"}); err == nil {
		t.Error("no paths: no error")
	}
	if _, err := w.try(context.Background(), Request{}, "nowhere"); err == nil || !strings.Contains(err.Error(), "there is no file or folder") {
		t.Errorf("a path that doesn't exist: %v", err)
	}
}
