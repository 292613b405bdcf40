package retrieve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// Errors about the corpus that is asked.
var (
	// ErrUnknown: there is no such corpus.
	ErrUnknown = errors.New("no such corpus")
	// ErrEmpty: the corpus has nothing that could be found.
	ErrEmpty = errors.New("nothing to search")
)

// EmbedderError says that the query would be embedded by another model than the corpus was: such vectors can't
// be compared, and the scores would mean nothing.
type EmbedderError struct {
	Corpus             string
	Pinned, Configured string // names
	PinnedWidth, Width int    // Width is 0 if it isn't known
}

func (e *EmbedderError) Error() string {
	given := e.Configured
	if e.Pinned == e.Configured {
		given = fmt.Sprintf("%s, %d wide", e.Configured, e.Width)
	}
	return fmt.Sprintf("corpus %s holds vectors of %s, %d wide, and the query would get one of %s: set embeddings.provider "+
		"and embeddings.model back to %s, or run `aerie ingest` with --corpus and a new name to embed the documents anew",
		e.Corpus, e.Pinned, e.PinnedWidth, given, e.Pinned)
}

// record loads the record of a corpus.
func (r *Retriever) record(ctx context.Context, corpus string) (*levels.Corpus, error) {
	record, err := r.corpora.Load(ctx, corpus)
	if err == nil {
		return record, nil
	}
	if !errors.Is(err, levels.ErrNotFound) {
		return nil, fmt.Errorf("retrieve: record of corpus %s: %w", corpus, err)
	}
	names, err := r.corpora.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("retrieve: names of the corpora: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("retrieve: corpus %s: %w: there is none yet, run `aerie ingest` first", corpus, ErrUnknown)
	}
	return nil, fmt.Errorf("retrieve: corpus %s: %w: there is %s", corpus, ErrUnknown, strings.Join(names, ", "))
}

// vector returns the query's embedding, of the corpus's model and width; nil if keywords alone are asked for.
func (r *Retriever) vector(ctx context.Context, req *Request, record *levels.Corpus) ([]float32, error) {
	if record.Width == 0 {
		return nil, emptyError(record.Name)
	}
	if *req.Alpha == 0 {
		return nil, nil
	}
	mismatch := &EmbedderError{
		Corpus: record.Name, Pinned: record.Embedder, PinnedWidth: record.Width, Configured: r.embedder.Name(),
	}
	vector := req.Vector
	if vector == nil {
		if record.Embedder != "" && r.embedder.Name() != record.Embedder {
			return nil, mismatch
		}
		var err error
		if vector, err = r.embedder.EmbedQuery(ctx, req.Query); err != nil {
			return nil, fmt.Errorf("retrieve: embedding the query: %w", err)
		}
	}
	if len(vector) != record.Width {
		mismatch.Width = len(vector)
		if req.Vector != nil {
			mismatch.Configured = mismatch.Pinned
		}
		return nil, mismatch
	}
	return unit(vector)
}

// unit returns v at unit length.
func unit(v []float32) ([]float32, error) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("retrieve: the query's vector is zero or not finite: its words mean nothing to the embedder, ask in other words")
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out, nil
}

// filter returns what the hits of a request must be: visible, and as asked for.
func filter(req *Request, record *levels.Corpus) store.Filter {
	f := store.AnyLevel().VisibleAt(record.Generation)
	if req.MinLevel != nil {
		f.MinLevel = *req.MinLevel
	}
	if req.MaxLevel != nil {
		f.MaxLevel = *req.MaxLevel
	}
	if *req.Mode == Traversal && *req.LeavesOnly {
		f.MaxLevel = 0
	}
	f.Documents, f.Metadata, f.Where = req.Documents, req.Metadata, req.Where
	return f
}

// hidesLeaves reports whether the published tree was built with keep_leaves false.
func hidesLeaves(record *levels.Corpus) bool {
	return record.Settings != nil && !record.Settings.KeepLeaves
}

// unchanged reports whether the leaves are those that the published tree was built from.
func unchanged(record *levels.Corpus) bool {
	return record.Baseline != nil && record.Baseline.Changes == record.Changes
}

// whyEmpty returns ErrEmpty if the corpus has nothing that any query could find.
func (r *Retriever) whyEmpty(ctx context.Context, record *levels.Corpus) error {
	n, err := r.nodes.Count(ctx, record.Name, store.AnyLevel().VisibleAt(record.Generation))
	if err != nil {
		return fmt.Errorf("retrieve: corpus %s: %w", record.Name, err)
	}
	if n > 0 {
		return nil
	}
	return emptyError(record.Name)
}

func emptyError(corpus string) error {
	return fmt.Errorf("retrieve: corpus %s: %w: run `aerie ingest` first", corpus, ErrEmpty)
}
