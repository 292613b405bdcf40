package retrieve

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// openLeaves are the leaves of a corpus that was built with keep_leaves false that are searched all the same: those without a summary
// above them in the published tree, of documents too short for a tree or newer than the build. The others are hidden.
type openLeaves struct {
	ids       map[tree.ID]struct{}
	documents []string // theirs, ascending
	hidden    int      // how many leaves are hidden
}

// narrowedTo is how many documents a search is narrowed to, to find open leaves; of more, all leaves are looked at.
const narrowedTo = 1000

// open returns the open leaves; nil if nothing is hidden. It reads the places of all leaves once after each change.
func (r *Retriever) open(ctx context.Context, record *levels.Corpus) (*openLeaves, error) {
	if !hidesLeaves(record) {
		return nil, nil
	}
	if known := r.memory.open(record); known != nil {
		return known, nil
	}
	shape, err := r.shape(ctx, record)
	if err != nil {
		return nil, err
	}
	open, documents := &openLeaves{ids: map[tree.ID]struct{}{}}, map[string]struct{}{}
	err = r.nodes.Each(ctx, record.Name, store.Leaves().VisibleAt(record.Generation), store.Fields{}, func(n *tree.Node) error {
		if _, below := shape.parented[n.ID]; below || shape.parented == nil {
			open.hidden++
			return nil
		}
		open.ids[n.ID] = struct{}{}
		documents[n.DocumentID] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	open.documents = slices.Sorted(maps.Keys(documents))
	r.memory.keepOpen(record, open)
	return open, nil
}

// Hidden returns how many leaves of a corpus no query finds, since it was built with keep_leaves false and summaries stand above them.
func (r *Retriever) Hidden(ctx context.Context, record *levels.Corpus) (int, error) {
	open, err := r.open(ctx, record)
	if err != nil || open == nil {
		return 0, err
	}
	return open.hidden, nil
}

// hides reports whether a node is a leaf that is hidden.
func (s *search) hides(n *tree.Node) bool {
	if s.open == nil || !n.IsLeaf() {
		return false
	}
	_, open := s.open.ids[n.ID]
	return !open
}

// finder is a store's Search or Keyword.
type finder func(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error)

// find asks a store, and leaves out what is hidden: of the leaves it looks at more and more until enough are open.
func (s *search) find(ctx context.Context, ask finder, q store.Query) ([]store.Hit, error) {
	if s.open == nil || q.Filter.MinLevel > 0 {
		return ask(ctx, s.req.Corpus, q)
	}
	var hits []store.Hit
	if q.Filter.MaxLevel != 0 && !q.Filter.OnMetadata() {
		upper := q
		upper.Filter.MinLevel = 1
		var err error
		if hits, err = ask(ctx, s.req.Corpus, upper); err != nil {
			return nil, err
		}
	}
	leaves := q
	leaves.Filter.MaxLevel = 0
	if !s.narrowToOpen(&leaves.Filter) {
		return hits, nil
	}
	for {
		found, err := ask(ctx, s.req.Corpus, leaves)
		if err != nil {
			return nil, err
		}
		last := len(found) < leaves.Limit
		found = slices.DeleteFunc(found, func(h store.Hit) bool { return s.hides(&h.Node) })
		if last || len(found) >= q.Limit {
			hits = append(hits, found...)
			break
		}
		leaves.Limit *= 2
	}
	slices.SortFunc(hits, func(a, b store.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), a.Node.ID.Compare(b.Node.ID)) })
	return hits[:min(q.Limit, len(hits))], nil
}

// narrowToOpen narrows a filter to the documents of the open leaves, if they are few; false if there is nothing to find.
func (s *search) narrowToOpen(f *store.Filter) bool {
	documents := s.open.documents
	if len(f.Documents) > 0 {
		documents = slices.DeleteFunc(slices.Clone(f.Documents), func(id string) bool {
			_, has := slices.BinarySearch(s.open.documents, id)
			return !has
		})
	}
	if len(documents) == 0 {
		return false
	}
	if len(documents) <= narrowedTo {
		f.Documents = documents
	}
	return true
}
