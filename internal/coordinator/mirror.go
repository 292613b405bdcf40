package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
)

// MirroredCorpora keeps a copy of each record beside the plans, and restores a record that is lost from there. It is for
// places that may lose what they hold: the queue's streams are flushed to the disk before they say yes, Redis isn't.
type MirroredCorpora struct {
	levels.Corpora
	Plans levels.Plans
}

// Load implements [levels.Corpora].
func (m MirroredCorpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	record, err := m.Corpora.Load(ctx, name)
	if !errors.Is(err, levels.ErrNotFound) {
		return record, err
	}
	if err := m.restore(ctx, name); err != nil {
		return nil, err
	}
	return m.Corpora.Load(ctx, name)
}

// restore puts the copy back; levels.ErrNotFound if there is none.
func (m MirroredCorpora) restore(ctx context.Context, name string) error {
	saved, err := m.Plans.Tree(ctx, name)
	if err != nil {
		return err
	}
	return m.Corpora.Update(ctx, name, func(record *levels.Corpus) error {
		if blank(record) { // else another process has restored it, or a writer has begun it anew
			*record = *saved
			record.Version += lostVersions
		}
		return nil
	})
}

// lostVersions is more than the number of changes that may have been made to a record since its copy was: a copy of one of those
// that is still on its way must not take the place of newer ones.
const lostVersions = 1000

// blank reports whether nothing has been written to a record.
func blank(record *levels.Corpus) bool {
	return record.Embedder == "" && record.Changes == 0 && record.Generation == 0 && record.Epoch == 0
}

// Update implements [levels.Corpora].
func (m MirroredCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	if _, err := m.Load(ctx, name); err != nil && !errors.Is(err, levels.ErrNotFound) {
		return err // a record that is lost must not be begun anew
	}
	var updated levels.Corpus
	err := m.Corpora.Update(ctx, name, func(record *levels.Corpus) error {
		err := change(record)
		record.Version++
		updated = *record
		return err
	})
	if err != nil {
		return err
	}
	if err := m.Plans.PutTree(ctx, &updated); err != nil {
		return fmt.Errorf("coordinator: copy of the record of corpus %s: %w", name, err)
	}
	return nil
}

// List implements [levels.Corpora]. A corpus whose record is lost is listed by its copy.
func (m MirroredCorpora) List(ctx context.Context) ([]string, error) {
	names, err := m.Corpora.List(ctx)
	if err != nil {
		return nil, err
	}
	copies, err := m.Plans.Trees(ctx)
	if err != nil {
		return nil, err
	}
	all := append(names, copies...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Drop implements [levels.Corpora]. The copies go first: a drop that was interrupted can be repeated.
func (m MirroredCorpora) Drop(ctx context.Context, name string) error {
	if err := m.Plans.DropTree(ctx, name); err != nil {
		return err
	}
	return m.Corpora.Drop(ctx, name)
}

// MirroredBuilds keeps a copy of the newest state of each corpus's builds beside the plans, as [MirroredCorpora] does of
// records. Leases have no copy: who held one acquires it anew.
type MirroredBuilds struct {
	levels.Builds
	Plans levels.Plans
}

// Save implements [levels.Builds].
func (m MirroredBuilds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	if err := m.Builds.Save(ctx, lease, state); err != nil {
		return err
	}
	return m.Plans.PutState(ctx, state)
}

// Load implements [levels.Builds].
func (m MirroredBuilds) Load(ctx context.Context, corpus string) (*levels.State, error) {
	state, err := m.Builds.Load(ctx, corpus)
	if !errors.Is(err, levels.ErrNotFound) {
		return state, err
	}
	return m.Plans.State(ctx, corpus)
}
