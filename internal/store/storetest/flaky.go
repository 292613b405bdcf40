package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// ErrInjected is what a call fails with that [Flaky] was told to break.
var ErrInjected = errors.New("injected fault")

// Fault says how a call fails.
type Fault int

// The faults.
const (
	None    Fault = iota
	Before        // the call has no effect
	After         // the call takes effect, and the reply is lost
	Partial       // Put: every other node is written, and a *store.PutError names the rest. Otherwise as After.
)

// Call is one call of a store's method. Number counts all calls of the decorator from 0.
type Call struct {
	Method, Corpus string
	Number         int
}

// Flaky is a store whose calls fail by a schedule.
type Flaky struct {
	inner    store.Store
	schedule func(Call) Fault

	mu     sync.Mutex
	number int
}

var _ store.Store = (*Flaky)(nil)

// NewFlaky wraps a store. schedule decides each call's fate; it is called by one goroutine at a time.
func NewFlaky(inner store.Store, schedule func(Call) Fault) *Flaky {
	return &Flaky{inner: inner, schedule: schedule}
}

// Seeded returns a schedule that breaks calls at random: each with probability p, half of them before their
// effect and half after it. The same seed breaks the same calls when they come in the same order.
func Seeded(seed uint64, p float64) func(Call) Fault {
	random := rand.New(rand.NewPCG(seed, 0x5eed))
	return func(c Call) Fault {
		switch x := random.Float64(); {
		case x >= p:
			return None
		case x < p/2:
			return Before
		case c.Method == "Put" && x < p*3/4:
			return Partial
		}
		return After
	}
}

func (f *Flaky) fate(method, corpus string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Call{Method: method, Corpus: corpus, Number: f.number}
	f.number++
	return f.schedule(c)
}

// around runs a call and makes it fail as the schedule says. An error of the call itself comes first.
func (f *Flaky) around(method, corpus string, call func() error) error {
	fate := f.fate(method, corpus)
	if fate != Before {
		if err := call(); err != nil {
			return err
		}
	}
	if fate == None {
		return nil
	}
	return fmt.Errorf("storetest: %s of corpus %s: %w", method, corpus, ErrInjected)
}

// Put implements [store.Store].
func (f *Flaky) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	switch f.fate("Put", corpus) {
	case Before:
		return fmt.Errorf("storetest: Put to corpus %s: %w", corpus, ErrInjected)
	case After:
		if err := f.inner.Put(ctx, corpus, nodes); err != nil {
			return err
		}
		return fmt.Errorf("storetest: Put to corpus %s: %w", corpus, ErrInjected)
	case Partial:
		return f.putHalf(ctx, corpus, nodes)
	}
	return f.inner.Put(ctx, corpus, nodes)
}

func (f *Flaky) putHalf(ctx context.Context, corpus string, nodes []tree.Node) error {
	failed := map[tree.ID]error{}
	var kept []tree.Node
	for i, n := range nodes {
		if i%2 == 0 {
			failed[n.ID] = ErrInjected
		} else {
			kept = append(kept, n)
		}
	}
	err := f.inner.Put(ctx, corpus, kept)
	var putErr *store.PutError
	switch {
	case errors.As(err, &putErr):
		for id, e := range putErr.Failed {
			failed[id] = e
		}
	case err != nil:
		return err
	}
	if len(failed) == 0 {
		return nil
	}
	return &store.PutError{Failed: failed}
}

// Get implements [store.Store].
func (f *Flaky) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) (nodes []tree.Node, err error) {
	err = f.around("Get", corpus, func() (err error) {
		nodes, err = f.inner.Get(ctx, corpus, ids, with)
		return err
	})
	return ifOK(nodes, err)
}

// Each implements [store.Store].
func (f *Flaky) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	return f.around("Each", corpus, func() error { return f.inner.Each(ctx, corpus, filter, with, fn) })
}

// Count implements [store.Store].
func (f *Flaky) Count(ctx context.Context, corpus string, filter store.Filter) (n int, err error) {
	err = f.around("Count", corpus, func() (err error) {
		n, err = f.inner.Count(ctx, corpus, filter)
		return err
	})
	return ifOK(n, err)
}

// DocumentsAfter implements [store.Store].
func (f *Flaky) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) (page []store.Document, err error) {
	err = f.around("DocumentsAfter", corpus, func() (err error) {
		page, err = f.inner.DocumentsAfter(ctx, corpus, prefix, after, limit)
		return err
	})
	return page, err
}

// CountDocuments implements [store.Store].
func (f *Flaky) CountDocuments(ctx context.Context, corpus string) (n int, err error) {
	err = f.around("CountDocuments", corpus, func() (err error) {
		n, err = f.inner.CountDocuments(ctx, corpus)
		return err
	})
	return n, err
}

// Documents implements [store.Store].
func (f *Flaky) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	return f.around("Documents", corpus, func() error { return f.inner.Documents(ctx, corpus, prefix, fn) })
}

// MetadataKeys implements [store.Store].
func (f *Flaky) MetadataKeys(ctx context.Context, corpus string) (keys []string, err error) {
	err = f.around("MetadataKeys", corpus, func() (err error) {
		keys, err = f.inner.MetadataKeys(ctx, corpus)
		return err
	})
	return ifOK(keys, err)
}

// Search implements [store.Store].
func (f *Flaky) Search(ctx context.Context, corpus string, q store.Query) (hits []store.Hit, err error) {
	err = f.around("Search", corpus, func() (err error) {
		hits, err = f.inner.Search(ctx, corpus, q)
		return err
	})
	return ifOK(hits, err)
}

// Keyword implements [store.Store].
func (f *Flaky) Keyword(ctx context.Context, corpus string, q store.Query) (hits []store.Hit, err error) {
	err = f.around("Keyword", corpus, func() (err error) {
		hits, err = f.inner.Keyword(ctx, corpus, q)
		return err
	})
	return ifOK(hits, err)
}

// SetLife implements [store.Store].
func (f *Flaky) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	return f.around("SetLife", corpus, func() error { return f.inner.SetLife(ctx, corpus, ids, born, died) })
}

// Delete implements [store.Store].
func (f *Flaky) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	return f.around("Delete", corpus, func() error { return f.inner.Delete(ctx, corpus, ids) })
}

// Drop implements [store.Store].
func (f *Flaky) Drop(ctx context.Context, corpus string) error {
	return f.around("Drop", corpus, func() error { return f.inner.Drop(ctx, corpus) })
}

// ifOK keeps a lost reply from being seen.
func ifOK[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}
