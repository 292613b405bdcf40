package queuetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/tree"
)

// MemoryJournal is a journal in memory that keeps the contract of journal.Journal.
type MemoryJournal struct {
	mu       sync.Mutex
	entries  map[string]journal.Entry
	attempts map[attemptKey]journal.Attempts
}

type attemptKey struct {
	build string
	task  tree.ID
}

// NewJournal returns an empty journal.
func NewJournal() *MemoryJournal {
	return &MemoryJournal{entries: map[string]journal.Entry{}, attempts: map[attemptKey]journal.Attempts{}}
}

// Lookup implements journal.Journal.
func (j *MemoryJournal) Lookup(ctx context.Context, key string) (journal.Entry, error) {
	if err := checkKey(ctx, key); err != nil {
		return journal.Entry{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[key]
	if !ok || e.Text == "" {
		return journal.Entry{}, fmt.Errorf("queuetest: key %s: %w", key, journal.ErrNotFound)
	}
	return e, nil
}

// Record implements journal.Journal.
func (j *MemoryJournal) Record(ctx context.Context, key string, e journal.Entry) error {
	if err := checkKey(ctx, key); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries[key].Text == "" {
		j.entries[key] = e
	}
	return nil
}

// Erase implements journal.Journal.
func (j *MemoryJournal) Erase(ctx context.Context, corpus string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for key, e := range j.entries {
		if e.Text != "" && (e.Corpus == corpus || e.Corpus == "") {
			e.Text = ""
			j.entries[key] = e
			n++
		}
	}
	return n, nil
}

// Begin implements journal.Journal.
func (j *MemoryJournal) Begin(ctx context.Context, build string, task tree.ID) (journal.Attempts, error) {
	return j.count(ctx, build, task, func(a *journal.Attempts) { a.Started++ })
}

// End implements journal.Journal.
func (j *MemoryJournal) End(ctx context.Context, build string, task tree.ID, failed bool) (journal.Attempts, error) {
	return j.count(ctx, build, task, func(a *journal.Attempts) {
		if failed {
			a.Failed++
		} else {
			a.Returned++
		}
	})
}

// Forget implements journal.Journal.
func (j *MemoryJournal) Forget(ctx context.Context, build string, task tree.ID) error {
	_, err := j.count(ctx, build, task, func(a *journal.Attempts) { *a = journal.Attempts{} })
	return err
}

// Entries returns the number of answers.
func (j *MemoryJournal) Entries() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries)
}

func (j *MemoryJournal) count(ctx context.Context, build string, task tree.ID, f func(*journal.Attempts)) (journal.Attempts, error) {
	if err := ctx.Err(); err != nil {
		return journal.Attempts{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key := attemptKey{build: build, task: task}
	a := j.attempts[key]
	f(&a)
	j.attempts[key] = a
	return a, nil
}

func checkKey(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	valid := len(key) == 64
	for _, c := range []byte(key) {
		valid = valid && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
	}
	if !valid {
		return fmt.Errorf("queuetest: journal key %q is not 64 lower-case hexadecimal digits", key)
	}
	return nil
}
