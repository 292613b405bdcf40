package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// removeAtOnce is the number of leaves removed in one call of the store.
const removeAtOnce = 1000

// remove takes leaves out of the corpus: first out of sight, then for good, unless a build may read them.
func (in *Ingester) remove(ctx context.Context, name string, ids []tree.ID) error {
	return in.takeOut(ctx, name, ids, func(ctx context.Context, nodes store.Store, part []tree.ID) error {
		return nodes.Delete(ctx, name, part)
	})
}

// supersede takes leaves out of the corpus of whose documents there are newer versions. What is left of each says whose it was, and
// how long, for summaries that rest on it.
func (in *Ingester) supersede(ctx context.Context, name string, ids []tree.ID) error {
	return in.takeOut(ctx, name, ids, func(ctx context.Context, nodes store.Store, part []tree.ID) error {
		read, err := nodes.Get(ctx, name, part, store.Fields{Vector: true})
		if err != nil || len(read) == 0 {
			return err
		}
		for i := range read {
			n := &read[i]
			n.Text, n.Metadata, n.Recipe, n.Died = "", nil, tree.Replaced, tree.Deleted
		}
		return nodes.Put(ctx, name, read)
	})
}

// takeOut takes leaves out of sight, and then their texts away, unless a build may read them.
func (in *Ingester) takeOut(ctx context.Context, name string, ids []tree.ID, away Away) error {
	for part := range slices.Chunk(ids, removeAtOnce) {
		err := in.store.SetLife(ctx, name, part, 0, tree.Deleted)
		if err == nil {
			err = in.cfg.Erase(ctx, name, part, away)
		}
		if err != nil {
			return fmt.Errorf("ingest: corpus %s: remove leaves: %w", name, err)
		}
	}
	return nil
}

// Delete removes documents. Those that don't exist are named, each with the nearest ids that do, in an error that is
// api.ErrUnknown; the others are deleted all the same.
func (in *Ingester) Delete(ctx context.Context, name string, documents []string) (api.IngestReport, error) {
	t := newTally(name)
	err := in.deleteAll(ctx, name, documents, t)
	total, countErr := in.total(context.WithoutCancel(ctx), name)
	t.Leaves.Total = total
	return t.finished(), errors.Join(err, countErr)
}

func (in *Ingester) deleteAll(ctx context.Context, name string, documents []string, t *tally) error {
	if _, err := in.corpora.Load(ctx, name); errors.Is(err, levels.ErrNotFound) {
		return in.noCorpus(ctx, name)
	} else if err != nil {
		return fmt.Errorf("ingest: corpus %s: %w", name, err)
	}
	var unknown []string
	done := map[string]bool{}
	for _, id := range documents {
		if done[id] {
			continue
		}
		done[id] = true
		removed, err := in.deleteOne(ctx, name, id)
		if err != nil {
			return err
		}
		if removed == 0 {
			unknown = append(unknown, id)
			continue
		}
		t.Documents.Removed++
		t.Leaves.Removed += removed
	}
	if len(unknown) == 0 {
		return nil
	}
	return in.unknown(ctx, name, unknown)
}

// deleteOne removes a document and returns the number of its leaves.
func (in *Ingester) deleteOne(ctx context.Context, name, id string) (int, error) {
	var ids []tree.ID // also those that earlier versions had: nothing of a deleted document is left for summaries to rest on
	alive := 0
	err := in.store.Each(ctx, name, store.Leaves().OfDocument(id), store.Fields{}, func(n *tree.Node) error {
		if n.Died != tree.Deleted {
			alive++
		}
		if n.Died != tree.Deleted || n.Superseded() {
			ids = append(ids, n.ID)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ingest: corpus %s: document %q: %w", name, id, err)
	}
	if alive == 0 {
		return 0, nil
	}
	err = in.corpora.Update(ctx, name, func(c *levels.Corpus) error {
		c.Changes += int64(alive)
		c.Deletions++
		c.Deleted = time.Now()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ingest: corpus %s: %w", name, err)
	}
	return alive, in.remove(ctx, name, ids)
}

// DeleteAll removes a corpus with its leaves, summaries and record. One that doesn't exist is no error.
func (in *Ingester) DeleteAll(ctx context.Context, name string) (api.IngestReport, error) {
	t := newTally(name)
	leaves, err := in.total(ctx, name)
	if err != nil {
		return t.finished(), err
	}
	err = in.store.Documents(ctx, name, "", func(store.Document) error {
		t.Documents.Removed++
		return nil
	})
	// The nodes go first: without the record nobody would find them to delete them.
	if err == nil {
		err = in.store.Drop(ctx, name)
	}
	if err == nil {
		t.Leaves.Removed = leaves
		err = in.corpora.Drop(ctx, name)
	}
	if err != nil {
		return t.finished(), fmt.Errorf("ingest: corpus %s: %w", name, err)
	}
	return t.finished(), nil
}
