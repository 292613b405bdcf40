// Package store is the port to the node store: where the text, vector and place of every node live.
//
// Two implementations ship: package sqlite (embedded) and package weaviate (a fleet). Package storetest holds
// the contract suite that both must pass, an in-memory twin for tests, and fault decorators.
//
// # Visibility
//
// A reader works at a generation G and sees the nodes with Born <= G < Died ([tree.Node.VisibleAt]). Get reads
// by id and ignores generations, because a build reads nodes that no reader may see yet.
//
// # Repeatability
//
// Every write may be repeated: what a node holds is a pure function of its id, but for Born and Died.
package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Errors that every implementation returns, wrapped with what was asked for.
var (
	// ErrWidth: a vector's length is not that of the corpus.
	ErrWidth = errors.New("vector width differs from the corpus")
	// ErrInvalid: a node or a filter that the store can't take; nothing was written.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: the store can't be reached, or can't serve now.
	ErrUnavailable = errors.New("unavailable")
	// ErrIndexDamaged: the keyword index can't be read. Nothing is lost: it is made of the texts, and `aerie repair` makes it again.
	ErrIndexDamaged = errors.New("the keyword index is damaged")
	// ErrReadOnly: this process may read what is kept here, and not change it.
	ErrReadOnly = errors.New("it is read-only")
)

// PutError says which nodes of a Put were not written. The others were.
type PutError struct {
	Failed map[tree.ID]error
}

func (e *PutError) Error() string {
	if len(e.Failed) == 0 {
		return "store: no node failed"
	}
	id := e.ids()[0]
	return fmt.Sprintf("store: %d nodes were not written, one of them %s: %v", len(e.Failed), id, e.Failed[id])
}

// Unwrap returns what went wrong, so that [errors.Is] finds [ErrWidth] or [ErrInvalid] in it.
func (e *PutError) Unwrap() []error {
	var all []error
	for _, id := range e.ids() {
		all = append(all, e.Failed[id])
	}
	return all
}

func (e *PutError) ids() []tree.ID {
	return slices.SortedFunc(maps.Keys(e.Failed), tree.ID.Compare)
}

// Fields says what to read beside ids, level, provenance and life: text (with its context), vector and metadata cost I/O.
type Fields struct {
	Text, Vector, Metadata bool
}

// Filter selects nodes. The zero Filter selects every node that exists, whatever its life.
type Filter struct {
	// At, if not nil, keeps the nodes visible at that generation.
	At *int
	// MinLevel and MaxLevel bound the level, both inclusive. MaxLevel < 0 means no upper bound; since the
	// zero value would mean leaves only, use [AnyLevel] or [Leaves] or [Summaries] to start from.
	MinLevel, MaxLevel int
	// Documents, if not empty, keeps the nodes with one of these document ids. For a summary of a corpus tree
	// that is [tree.CorpusTree].
	Documents []string
	// Paths, if not empty, keeps the leaves of documents that were read at one of these paths.
	Paths []string
	// Metadata keeps the leaves whose metadata holds each of these values: equal, or for a list one of its
	// elements equal. Summaries have no metadata, so any entry here excludes them.
	Metadata map[string]any
	// Where keeps the leaves that meet each of these conditions, and no summaries, beside those of Metadata.
	Where []Where
}

// AnyLevel selects nodes of all levels, Leaves those of level 0, Summaries those above.
func AnyLevel() Filter  { return Filter{MaxLevel: -1} }
func Leaves() Filter    { return Filter{MaxLevel: 0} }
func Summaries() Filter { return Filter{MinLevel: 1, MaxLevel: -1} }

// VisibleAt returns the filter narrowed to what a reader at a generation sees.
func (f Filter) VisibleAt(generation int) Filter { f.At = &generation; return f }

// OfDocument returns the filter narrowed to one document.
func (f Filter) OfDocument(id string) Filter { f.Documents = []string{id}; return f }

// Query asks for the nodes nearest to a vector, or best by keywords.
type Query struct {
	Filter Filter
	// Vector is the query's embedding, of the corpus's width, unit length. Used by Search.
	Vector []float32
	// Text holds the query's words. Used by Keyword. It is plain text: no operator of any engine is honored.
	Text string
	// Limit is the largest number of hits, at least 1.
	Limit int
	With  Fields
}

// Hit is a node with its score: for Search the cosine similarity, -1 to 1; for Keyword a BM25 score, larger is
// better and above 0.
type Hit struct {
	Node  tree.Node
	Score float64
}

// Document is one document's place in the store.
type Document struct {
	ID     string
	Leaves int
	Tokens int // of the leaves
	// Source and Path are those of its leaves, and Updated is that of the newest.
	Source, Path string
	Updated      int64
}

// Add counts a leaf of the document.
func (d *Document) Add(n *tree.Node) {
	d.ID = n.DocumentID
	d.Leaves++
	d.Tokens += n.Tokens
	if d.Source == "" || n.Updated > d.Updated {
		d.Source, d.Path = n.Source, n.Path
	}
	d.Updated = max(d.Updated, n.Updated)
}

// Store keeps the nodes of many corpora; one that it doesn't know holds none. Its methods may be called from many
// goroutines. A node or slice that a method returns belongs to the caller; one that is passed in is not kept nor
// changed.
type Store interface {
	// Put writes nodes; one with an id that exists is replaced. The width of a corpus's vectors is that of its
	// first node; another width is ErrWidth, a vector that is missing, not finite or all zero is ErrInvalid
	// ([CheckNode] has the rules).
	// If some nodes can't be written, the error is a *PutError and the others are.
	Put(ctx context.Context, corpus string, nodes []tree.Node) error

	// Get reads nodes by id, in the order of ids; those that don't exist are left out.
	Get(ctx context.Context, corpus string, ids []tree.ID, with Fields) ([]tree.Node, error)

	// Each calls fn for every node selected, ordered by (level, document id, chunk index, id), until fn returns
	// an error, which Each returns. It reads one consistent state and holds one page in memory. fn may call
	// the store's readers.
	Each(ctx context.Context, corpus string, filter Filter, with Fields, fn func(*tree.Node) error) error

	// Count returns how many nodes are selected.
	Count(ctx context.Context, corpus string, filter Filter) (int, error)

	// Documents calls fn for each document that has leaves with Died != Deleted, by id. prefix, if not empty,
	// keeps the ids that start with it.
	Documents(ctx context.Context, corpus, prefix string, fn func(Document) error) error

	// DocumentsAfter returns the first documents of [Store.Documents] whose ids are greater than after, limit at most. Unlike Documents
	// it doesn't read all of a large corpus for a page.
	DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]Document, error)

	// CountDocuments returns how many documents there are.
	CountDocuments(ctx context.Context, corpus string) (int, error)

	// MetadataKeys returns the keys that the metadata of the corpus's leaves has or has had, sorted.
	MetadataKeys(ctx context.Context, corpus string) ([]string, error)

	// Search returns the nodes nearest to q.Vector by cosine, best first, ties by id.
	Search(ctx context.Context, corpus string, q Query) ([]Hit, error)

	// Keyword returns the nodes that match any word of q.Text, best first, ties by id.
	Keyword(ctx context.Context, corpus string, q Query) ([]Hit, error)

	// SetLife sets Born and Died of the nodes; ids that don't exist are passed over. A node set to
	// Died = tree.Deleted is no longer found by Search or Keyword, at once.
	SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error

	// Delete removes nodes from every index; ids that don't exist are passed over.
	Delete(ctx context.Context, corpus string, ids []tree.ID) error

	// Drop removes a corpus with all it holds. One that doesn't exist is no error.
	Drop(ctx context.Context, corpus string) error
}
