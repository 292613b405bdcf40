package telemetry

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Store returns a store that counts and times its calls.
func (t *Telemetry) Store(s store.Store) store.Store { return &watchedStore{Store: s, t: t} }

type watchedStore struct {
	store.Store
	t *Telemetry
}

func (s *watchedStore) timed(err *error) func() { return s.t.timed(StoreCalls, StoreCallSeconds, err) }

func (s *watchedStore) Put(ctx context.Context, corpus string, nodes []tree.Node) (err error) {
	defer s.timed(&err)()
	return s.Store.Put(ctx, corpus, nodes)
}

func (s *watchedStore) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) (nodes []tree.Node, err error) {
	defer s.timed(&err)()
	return s.Store.Get(ctx, corpus, ids, with)
}

// Each takes the time that fn needs off, and doesn't count an error of fn's.
func (s *watchedStore) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	began := time.Now()
	var own error
	err := s.Store.Each(ctx, corpus, filter, with, func(n *tree.Node) error {
		entered := time.Now()
		own = fn(n)
		began = began.Add(time.Since(entered))
		return own
	})
	if own != nil {
		s.t.did(StoreCalls, StoreCallSeconds, began, nil)
	} else {
		s.t.did(StoreCalls, StoreCallSeconds, began, err)
	}
	return err
}

func (s *watchedStore) Count(ctx context.Context, corpus string, filter store.Filter) (n int, err error) {
	defer s.timed(&err)()
	return s.Store.Count(ctx, corpus, filter)
}

// Documents takes the time that fn needs off, and doesn't count an error of fn's.
func (s *watchedStore) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	began := time.Now()
	var own error
	err := s.Store.Documents(ctx, corpus, prefix, func(d store.Document) error {
		entered := time.Now()
		own = fn(d)
		began = began.Add(time.Since(entered))
		return own
	})
	if own != nil {
		s.t.did(StoreCalls, StoreCallSeconds, began, nil)
	} else {
		s.t.did(StoreCalls, StoreCallSeconds, began, err)
	}
	return err
}

func (s *watchedStore) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) (page []store.Document, err error) {
	defer s.timed(&err)()
	return s.Store.DocumentsAfter(ctx, corpus, prefix, after, limit)
}

func (s *watchedStore) CountDocuments(ctx context.Context, corpus string) (n int, err error) {
	defer s.timed(&err)()
	return s.Store.CountDocuments(ctx, corpus)
}

func (s *watchedStore) MetadataKeys(ctx context.Context, corpus string) (keys []string, err error) {
	defer s.timed(&err)()
	return s.Store.MetadataKeys(ctx, corpus)
}

func (s *watchedStore) Search(ctx context.Context, corpus string, q store.Query) (hits []store.Hit, err error) {
	defer s.timed(&err)()
	return s.Store.Search(ctx, corpus, q)
}

func (s *watchedStore) Keyword(ctx context.Context, corpus string, q store.Query) (hits []store.Hit, err error) {
	defer s.timed(&err)()
	return s.Store.Keyword(ctx, corpus, q)
}

func (s *watchedStore) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) (err error) {
	defer s.timed(&err)()
	return s.Store.SetLife(ctx, corpus, ids, born, died)
}

func (s *watchedStore) Delete(ctx context.Context, corpus string, ids []tree.ID) (err error) {
	defer s.timed(&err)()
	return s.Store.Delete(ctx, corpus, ids)
}

func (s *watchedStore) Drop(ctx context.Context, corpus string) (err error) {
	defer s.timed(&err)()
	return s.Store.Drop(ctx, corpus)
}
