package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
)

// Roster is a [store.Roster] in memory, which can be lost.
type Roster struct {
	mu      sync.Mutex
	corpora map[string]*roster
	marks   int
}

type roster struct {
	ids   map[string]bool
	mark  int
	whole bool
}

// NewRoster returns one that is whole for no corpus.
func NewRoster() *Roster { return &Roster{corpora: map[string]*roster{}} }

var _ store.Roster = (*Roster)(nil)

// Lose forgets everything, as a server that is flushed.
func (r *Roster) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.corpora)
}

// of returns the roster of a corpus; r.mu is held.
func (r *Roster) of(corpus string) *roster {
	if r.corpora[corpus] == nil {
		r.marks++
		r.corpora[corpus] = &roster{ids: map[string]bool{}, mark: r.marks}
	}
	return r.corpora[corpus]
}

// Add implements [store.Roster].
func (r *Roster) Add(_ context.Context, corpus string, ids []string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.of(corpus).ids[id] = true
	}
	return r.of(corpus).whole, nil
}

// Remove implements [store.Roster].
func (r *Roster) Remove(_ context.Context, corpus string, ids []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks++
	r.of(corpus).mark = r.marks
	for _, id := range ids {
		delete(r.of(corpus).ids, id)
	}
	return nil
}

// After implements [store.Roster].
func (r *Roster) After(_ context.Context, corpus, prefix, after string, limit int) ([]string, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.of(corpus).ids {
		if id > after && strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], r.of(corpus).whole, nil
}

// Count implements [store.Roster].
func (r *Roster) Count(_ context.Context, corpus string) (int, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of(corpus).ids), r.of(corpus).whole, nil
}

// Begin implements [store.Roster].
func (r *Roster) Begin(_ context.Context, corpus string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.of(corpus).mark), nil
}

// Complete implements [store.Roster].
func (r *Roster) Complete(_ context.Context, corpus, mark string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.of(corpus).mark) == mark {
		r.of(corpus).whole = true
	}
	return nil
}

// Drop implements [store.Roster].
func (r *Roster) Drop(_ context.Context, corpus string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.corpora, corpus)
	return nil
}
