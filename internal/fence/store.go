package fence

import (
	"context"
	"errors"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Store returns a store whose writes are held to the right.
func (h *Hold) Store(nodes store.Store) store.Store { return &fenced{nodes, h} }

type fenced struct {
	store.Store
	h *Hold
}

// write makes one change. One whose outcome nobody knows may still happen: then the right isn't given up, but runs out.
func (f *fenced) write(ctx context.Context, change func(ctx context.Context) error) error {
	return f.h.Do(ctx, func(ctx context.Context) error {
		err := change(ctx)
		f.h.doubtful(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable))
		return err
	})
}

// Put implements [store.Store].
func (f *fenced) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	return f.write(ctx, func(ctx context.Context) error { return f.Store.Put(ctx, corpus, nodes) })
}

// SetLife implements [store.Store].
func (f *fenced) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	return f.write(ctx, func(ctx context.Context) error { return f.Store.SetLife(ctx, corpus, ids, born, died) })
}

// Delete implements [store.Store].
func (f *fenced) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	return f.write(ctx, func(ctx context.Context) error { return f.Store.Delete(ctx, corpus, ids) })
}

// Drop implements [store.Store].
func (f *fenced) Drop(ctx context.Context, corpus string) error {
	return f.write(ctx, func(ctx context.Context) error { return f.Store.Drop(ctx, corpus) })
}
