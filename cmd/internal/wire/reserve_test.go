package wire

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aerie-rag/aerie/internal/journal"
)

// fullJournal takes nothing while full.
type fullJournal struct {
	journal.Journal
	full    bool
	entries map[string]journal.Entry
}

func (f *fullJournal) Record(_ context.Context, key string, e journal.Entry) error {
	if f.full {
		return syscall.ENOSPC
	}
	f.entries[key] = e
	return nil
}

func (f *fullJournal) Lookup(_ context.Context, key string) (journal.Entry, error) {
	if e, ok := f.entries[key]; ok {
		return e, nil
	}
	return journal.Entry{}, journal.ErrNotFound
}

// TestA18PaidAnswersAreKept: what a full journal can't take is kept beside it, over a kill too, is found there, and goes to the journal
// once that has room; then no word of it is left beside it.
func TestA18PaidAnswersAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), reserveName)
	behind := &fullJournal{full: true, entries: map[string]journal.Entry{}}
	begin := func() *reserve {
		r := newReserve(behind, path, slog.New(slog.DiscardHandler))
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	first := begin()
	for _, key := range []string{"a", "b", "c"} {
		if err := first.Record(t.Context(), key, journal.Entry{Text: "paid " + key}); err != nil {
			t.Fatal(err)
		}
	}
	torn, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteAt([]byte{9, 0, 0, 0, 1}, first.used); err != nil { // a write that a kill cut short
		t.Fatal(err)
	}
	torn.Close()
	second := begin() // the first was killed
	for _, key := range []string{"a", "b", "c"} {
		if e, err := second.Lookup(t.Context(), key); err != nil || e.Text != "paid "+key {
			t.Errorf("%s: %+v, %v", key, e, err)
		}
	}
	if _, err := second.Erase(t.Context(), "corpus"); err == nil {
		t.Error("answers are erased that are still beside the journal")
	}
	behind.full = false
	if err := second.Record(t.Context(), "d", journal.Entry{Text: "paid d"}); err != nil {
		t.Fatal(err)
	}
	if len(behind.entries) != 4 {
		t.Errorf("the journal has %d answers, want 4", len(behind.entries))
	}
	if content, err := os.ReadFile(path); err != nil || bytes.Contains(content, []byte("paid")) || len(content) != reserveBytes {
		t.Errorf("the file still holds text, or isn't as long as it was: %d bytes, %v", len(content), err)
	}
}

// TestA18OfAFleet: without a file answers are kept in memory, and that they might be lost is an error.
func TestA18OfAFleet(t *testing.T) {
	behind := &fullJournal{full: true, entries: map[string]journal.Entry{}}
	var said bytes.Buffer
	r := newReserve(behind, "", slog.New(slog.NewTextHandler(&said, nil)))
	if err := r.Record(t.Context(), "a", journal.Entry{Text: "paid"}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want that the disk is full", err)
	}
	if e, err := r.Lookup(t.Context(), "a"); err != nil || e.Text != "paid" {
		t.Errorf("%+v, %v", e, err)
	}
	if err := r.Close(); err != nil || !strings.Contains(said.String(), "lost with this process") {
		t.Errorf("%v, said %s", err, said.String())
	}
}
