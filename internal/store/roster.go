package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/tree"
)

// errEnough ends a listing.
var errEnough = errors.New("enough")

// PageOf is [Store.DocumentsAfter] for a store that has no faster way: it lists all.
func PageOf(ctx context.Context, s Store, corpus, prefix, after string, limit int) ([]Document, error) {
	var page []Document
	err := s.Documents(ctx, corpus, prefix, func(d Document) error {
		if d.ID <= after {
			return nil
		}
		if len(page) >= limit {
			return errEnough
		}
		page = append(page, d)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return page, err
}

// Roster keeps the ids of the documents of corpora in order, for a store that doesn't. It may be lost at any time, and holds more
// than there is for a moment, never less while it is whole. Its methods may be called from many goroutines.
type Roster interface {
	// Add adds ids, and reports whether the corpus's roster is whole.
	Add(ctx context.Context, corpus string, ids []string) (whole bool, err error)
	// Remove takes ids out.
	Remove(ctx context.Context, corpus string, ids []string) error
	// After returns the first ids greater than after that begin with prefix, limit at most, ascending by bytes. whole is false if the
	// roster isn't, whatever it holds.
	After(ctx context.Context, corpus, prefix, after string, limit int) (ids []string, whole bool, err error)
	// Count returns how many ids there are; whole is as of After.
	Count(ctx context.Context, corpus string) (n int, whole bool, err error)
	// Begin returns a mark of now, and Complete says that what was added since then and what was there before is all there is: the
	// roster is whole, unless ids were removed or it was lost since the mark.
	Begin(ctx context.Context, corpus string) (mark string, err error)
	Complete(ctx context.Context, corpus, mark string) error
	// Drop forgets a corpus.
	Drop(ctx context.Context, corpus string) error
}

// Listed returns a store whose documents are listed by a roster. Whoever writes leaves must do so through it. A roster that isn't
// whole is made from the store, which takes as long as [Store.Documents]; one that can't be reached is done without.
func Listed(s Store, r Roster) Store { return &listed{Store: s, roster: r} }

type listed struct {
	Store
	roster Roster
}

const (
	// named is how many documents one call names, and atOnce how many parts of them are counted at a time.
	named  = 1000
	atOnce = 8
	// read is how many leaves are read at most, to be counted by document.
	read = 4000
)

// Put implements [Store]. The ids come first, so that no kill leaves a document out, and again when the leaves are there, should the
// roster have been lost and made anew in between.
func (l *listed) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	ids := documentsOf(nodes)
	if len(ids) == 0 {
		return l.Store.Put(ctx, corpus, nodes)
	}
	whole, err := l.roster.Add(ctx, corpus, ids)
	if err != nil {
		return err
	}
	if !whole {
		if err := l.begin(ctx, corpus); err != nil {
			return err
		}
	}
	err = l.Store.Put(ctx, corpus, nodes)
	_, addErr := l.roster.Add(ctx, corpus, ids)
	return errors.Join(err, addErr)
}

// begin makes the roster of a corpus whole in which there is nothing yet.
func (l *listed) begin(ctx context.Context, corpus string) error {
	mark, err := l.roster.Begin(ctx, corpus)
	if err != nil {
		return err
	}
	n, err := l.Count(ctx, corpus, Leaves())
	if err != nil || n > 0 {
		return err
	}
	return l.roster.Complete(ctx, corpus, mark)
}

func documentsOf(nodes []tree.Node) []string {
	seen := map[string]bool{}
	var ids []string
	for i := range nodes {
		if n := &nodes[i]; n.IsLeaf() && !seen[n.DocumentID] {
			seen[n.DocumentID] = true
			ids = append(ids, n.DocumentID)
		}
	}
	return ids
}

// SetLife implements [Store].
func (l *listed) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if died != tree.Deleted && died != tree.Alive {
		return l.Store.SetLife(ctx, corpus, ids, born, died) // of summaries alone
	}
	touched, err := l.touched(ctx, corpus, ids)
	if err != nil {
		return err
	}
	if died == tree.Alive && len(touched) > 0 { // leaves are brought back
		if _, err := l.roster.Add(ctx, corpus, touched); err != nil {
			return err
		}
	}
	if err := l.Store.SetLife(ctx, corpus, ids, born, died); err != nil || died == tree.Alive {
		return err
	}
	return l.settle(ctx, corpus, touched)
}

// Delete implements [Store].
func (l *listed) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	touched, err := l.touched(ctx, corpus, ids)
	if err != nil {
		return err
	}
	if err := l.Store.Delete(ctx, corpus, ids); err != nil {
		return err
	}
	return l.settle(ctx, corpus, touched)
}

// Drop implements [Store].
func (l *listed) Drop(ctx context.Context, corpus string) error {
	return errors.Join(l.Store.Drop(ctx, corpus), l.roster.Drop(ctx, corpus))
}

// touched returns the documents of which some of the nodes are leaves.
func (l *listed) touched(ctx context.Context, corpus string, ids []tree.ID) ([]string, error) {
	nodes, err := l.Get(ctx, corpus, ids, Fields{})
	return documentsOf(nodes), err
}

// settle takes those of the documents out that have no leaves any more.
func (l *listed) settle(ctx context.Context, corpus string, documents []string) error {
	counted, err := l.counted(ctx, corpus, documents)
	if err != nil {
		return err
	}
	var gone []string
	for _, d := range counted {
		if d.Leaves == 0 {
			gone = append(gone, d.ID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return l.roster.Remove(ctx, corpus, gone)
}

// counted tells of documents what their leaves are; of those without any, that there are none.
func (l *listed) counted(ctx context.Context, corpus string, ids []string) ([]Document, error) {
	out := make([]Document, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for part := range slices.Chunk(out, named/atOnce) {
		group.Go(func() error { return l.count(ctx, corpus, part) })
	}
	return out, group.Wait()
}

// count reads the leaves of some documents, so many documents at a time that the server takes them for few.
func (l *listed) count(ctx context.Context, corpus string, documents []Document) error {
	// The server of a large corpus finds the nodes of documents fast, but not those of level 0, of which there are too many.
	filter := AnyLevel()
	at := make(map[string]int, len(documents))
	for i, d := range documents {
		filter.Documents, at[d.ID] = append(filter.Documents, d.ID), i
	}
	if len(documents) > 1 {
		n, err := l.Count(ctx, corpus, filter)
		switch {
		case err != nil || n == 0:
			return err
		case n > read:
			half := len(documents) / 2
			return errors.Join(l.count(ctx, corpus, documents[:half]), l.count(ctx, corpus, documents[half:]))
		}
	}
	return l.Each(ctx, corpus, filter, Fields{}, func(n *tree.Node) error {
		if n.IsLeaf() && n.Died != tree.Deleted {
			documents[at[n.DocumentID]].Add(n)
		}
		return nil
	})
}

// DocumentsAfter implements [Store].
func (l *listed) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]Document, error) {
	var page []Document
	for len(page) < limit {
		want := min(limit-len(page), named)
		ids, whole, err := l.roster.After(ctx, corpus, prefix, after, want)
		if err != nil {
			return l.Store.DocumentsAfter(ctx, corpus, prefix, after, limit)
		}
		if !whole {
			all, err := l.fill(ctx, corpus)
			if err != nil {
				return nil, err
			}
			for _, d := range all {
				if d.ID > after && strings.HasPrefix(d.ID, prefix) && len(page) < limit {
					page = append(page, d)
				}
			}
			return page, nil
		}
		counted, err := l.counted(ctx, corpus, ids)
		if err != nil {
			return nil, err
		}
		for _, d := range counted {
			if d.Leaves > 0 { // else it is being written or removed
				page = append(page, d)
			}
		}
		if len(ids) < want {
			break
		}
		after = ids[len(ids)-1]
	}
	return page, nil
}

// CountDocuments implements [Store].
func (l *listed) CountDocuments(ctx context.Context, corpus string) (int, error) {
	n, whole, err := l.roster.Count(ctx, corpus)
	switch {
	case err != nil:
		return l.Store.CountDocuments(ctx, corpus)
	case !whole:
		all, err := l.fill(ctx, corpus)
		return len(all), err
	}
	return n, nil
}

// fill makes a roster whole from what the store lists, and returns that.
func (l *listed) fill(ctx context.Context, corpus string) ([]Document, error) {
	mark, err := l.roster.Begin(ctx, corpus)
	if err != nil {
		return nil, err
	}
	var all []Document
	var ids []string
	err = l.Documents(ctx, corpus, "", func(d Document) error {
		all, ids = append(all, d), append(ids, d.ID)
		return nil
	})
	for part := range slices.Chunk(ids, named) {
		if err == nil {
			_, err = l.roster.Add(ctx, corpus, part)
		}
	}
	if err == nil {
		err = l.roster.Complete(ctx, corpus, mark)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the documents of corpus %s: %w", corpus, err)
	}
	return all, nil
}
