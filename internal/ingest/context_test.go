package ingest

import (
	"context"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

const installGuide = "# Guide\n\n## Windows\n\n%W\n\n## Linux\n\n%L\n"

func guide(linux string) string {
	filler := strings.Repeat("Run the program that was downloaded and follow what it says there. ", 8)
	return strings.NewReplacer("%W", filler, "%L", filler+linux).Replace(installGuide)
}

// contextOf is the context of the leaf that holds a word.
func (w *world) contextOf(word string) string {
	for _, n := range w.leaves() {
		if strings.Contains(n.Text, word) {
			return n.Context
		}
	}
	w.t.Fatalf("no leaf holds %q", word)
	return ""
}

// TestC15ContextOfLeaves: headings are kept beside the text, are embedded with it, and a heading that changes changes the vector alone.
func TestC15ContextOfLeaves(t *testing.T) {
	w := newWorld(t, map[string]string{"guide.md": guide("Then use brew install aerie.")})
	w.ingest("guide.md")
	if got := w.contextOf("brew"); got != "Guide › Linux" {
		t.Errorf("context %q", got)
	}
	for _, n := range w.leaves() {
		if strings.Contains(n.Text, "brew") && (strings.Contains(n.Text, "Linux") || n.Tokens != corpus.NewCounter().Count(n.Text)) {
			t.Errorf("the context is in the text, or counted: %q, %d tokens", n.Text, n.Tokens)
		}
	}
	before := map[string]tree.Node{}
	for _, n := range w.leaves() {
		before[n.Text] = n
	}
	w.write("guide.md", strings.Replace(guide("Then use brew install aerie."), "## Linux", "## macOS", 1))
	w.ingest("guide.md")
	if got := w.contextOf("brew"); got != "Guide › macOS" {
		t.Errorf("context %q", got)
	}
	for _, n := range w.leaves() {
		old := before[n.Text]
		if strings.Contains(n.Text, "brew") && (n.ID != old.ID || same(n.Vector, old.Vector)) {
			t.Errorf("%q: id %s before %s, the same vector: %t", n.Text, n.ID, old.ID, same(n.Vector, old.Vector))
		}
	}
	w.model.paid()
	if report := w.ingest("guide.md"); report.Documents.Unchanged != 1 || w.model.paid() != 0 {
		t.Errorf("again: %+v", report.Documents)
	}
}

func same(a, b []float32) bool { return sameVector(a, b) }

// TestSettingsBelongToTheCorpus: what documents were cut with stays without the option, and another is said.
func TestSettingsBelongToTheCorpus(t *testing.T) {
	w := newWorld(t, map[string]string{"guide.md": guide("The end of it.")})
	if _, err := w.try(context.Background(), Request{ChunkTokens: 40}, "guide.md"); err != nil {
		t.Fatal(err)
	}
	if c := w.record().Cut; c == nil || *c != (levels.Cut{Tokens: 40, Context: true}) {
		t.Fatalf("the record says %+v", c)
	}
	if report := w.ingest("guide.md"); report.Documents.Unchanged != 1 || len(report.Warnings) > 0 {
		t.Errorf("without the option: %+v, %v", report.Documents, report.Warnings)
	}
	report, err := w.try(context.Background(), Request{ChunkTokens: 80, Context: new(false)}, "guide.md")
	if err != nil {
		t.Fatal(err)
	}
	if report.Documents.Changed != 1 || len(report.Warnings) != 2 || !strings.Contains(report.Warnings[0].Error, "40 tokens") || !strings.Contains(report.Warnings[1].Error, "without") {
		t.Errorf("with others: %+v, %v", report.Documents, report.Warnings)
	}
	if got := w.contextOf("end"); got != "" {
		t.Errorf("context %q", got)
	}
}

// TestContextOfOldCorpora: leaves that an older aerie made get none by themselves, since each would be embedded again.
func TestContextOfOldCorpora(t *testing.T) {
	w := newWorld(t, map[string]string{"guide.md": guide("The end of it.")})
	if _, err := w.try(context.Background(), Request{Context: new(false)}, "guide.md"); err != nil {
		t.Fatal(err)
	}
	if err := w.corpora.Update(t.Context(), "c", func(c *levels.Corpus) error { c.Cut = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	w.model.paid()
	if report := w.ingest("guide.md"); report.Documents.Unchanged != 1 || w.model.paid() != 0 {
		t.Errorf("%+v", report.Documents)
	}
	if _, err := w.try(context.Background(), Request{Context: new(true)}, "guide.md"); err != nil {
		t.Fatal(err)
	}
	if got := w.contextOf("end"); got != "Guide › Linux" {
		t.Errorf("asked for: %q", got)
	}
}
