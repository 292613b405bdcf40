package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestListedContract: a store whose documents a roster lists is as any.
func TestListedContract(t *testing.T) {
	Run(t, func(*testing.T) store.Store { return store.Listed(NewMemory(), NewRoster()) })
}

// forgetful loses its roster with every third call.
type forgetful struct {
	*Roster
	calls int
}

func (f *forgetful) After(ctx context.Context, corpus, prefix, after string, limit int) ([]string, bool, error) {
	if f.calls++; f.calls%3 == 0 {
		f.Lose()
	}
	return f.Roster.After(ctx, corpus, prefix, after, limit)
}

// TestListedWithoutItsRoster: a roster that is lost again and again changes no answer.
func TestListedWithoutItsRoster(t *testing.T) {
	Run(t, func(*testing.T) store.Store { return store.Listed(NewMemory(), &forgetful{Roster: NewRoster()}) })
}

// scanless is a store that doesn't like to list its documents.
type scanless struct{ store.Store }

var errScan = errors.New("all documents are read")

func (scanless) Documents(context.Context, string, string, func(store.Document) error) error {
	return errScan
}
func (scanless) DocumentsAfter(context.Context, string, string, string, int) ([]store.Document, error) {
	return nil, errScan
}
func (scanless) CountDocuments(context.Context, string) (int, error) { return 0, errScan }

// TestA27NothingIsScanned: counts and pages of documents don't read all of a corpus, unless the roster was lost.
func TestA27NothingIsScanned(t *testing.T) {
	roster := NewRoster()
	s := store.Listed(scanless{NewMemory()}, roster)
	at := &suite{T: t, corpus: "c"}
	for i := range 30 {
		name := fmt.Sprintf("d%02d", i)
		if err := s.Put(t.Context(), "c", []tree.Node{at.leaf(name, 0, "one"), at.leaf(name, 1, "two")}); err != nil {
			t.Fatal(err)
		}
	}
	gone := at.leaf("d07", 0, "one")
	if err := s.SetLife(t.Context(), "c", []tree.ID{gone.ID, at.leaf("d07", 1, "two").ID}, 0, tree.Deleted); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountDocuments(t.Context(), "c"); err != nil || n != 29 {
		t.Errorf("%d documents, %v; want 29", n, err)
	}
	page, err := s.DocumentsAfter(t.Context(), "c", "d0", "d05", 2)
	if diff := cmp.Diff([]store.Document{{ID: "d06", Leaves: 2, Tokens: 2}, {ID: "d08", Leaves: 2, Tokens: 2}}, page); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	roster.Lose()
	if _, err := s.CountDocuments(t.Context(), "c"); !errors.Is(err, errScan) {
		t.Errorf("without the roster: %v, want that all are read", err)
	}
}
