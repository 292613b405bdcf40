package fence

import (
	"context"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Corpora returns records whose changes are held to the right.
func (h *Hold) Corpora(records levels.Corpora) levels.Corpora { return &fencedCorpora{records, h} }

type fencedCorpora struct {
	levels.Corpora
	h *Hold
}

// Update implements [levels.Corpora].
func (f *fencedCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	return f.h.Do(ctx, func(ctx context.Context) error { return f.Corpora.Update(ctx, name, change) })
}

// Drop implements [levels.Corpora].
func (f *fencedCorpora) Drop(ctx context.Context, name string) error {
	return f.h.Do(ctx, func(ctx context.Context) error { return f.Corpora.Drop(ctx, name) })
}
