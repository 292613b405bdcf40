package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Given is the embedder name under which a corpus of ready-made vectors is pinned when the configured embedder is a
// built-in one, since nobody knows which model they came from. Any embedder of the same width may embed queries and
// summaries of such a corpus; leaves without a vector are refused there while the embedder is a built-in one. With any other embedder
// configured, ready-made vectors are taken to be that model's.
const Given = "given"

// Errors, wrapped with the corpus.
var (
	// ErrPinned: the corpus holds vectors of another model or width. Nothing was written.
	ErrPinned = errors.New("another embedder")
	// ErrUnknown: no such document.
	ErrUnknown = errors.New("unknown document")
)

// Config says how to ingest. The zero value of a field is its default unless it says otherwise.
type Config struct {
	// ChunkTokens is the budget of a leaf cut from a text, at least 8; 0 means 100. Ready-made chunks aren't cut.
	ChunkTokens int
	// Base is the directory that ids of files are relative to; a file outside it gets its absolute path as id. Empty
	// means that all do.
	Base string
	// EmbedItems is the number of texts in one call to the embedder, at least 1; 0 means 64.
	EmbedItems int
	// EmbedCalls is the number of such calls at a time, at least 1; 0 means 4.
	EmbedCalls int
	// PutItems is the number of leaves written to the store at once, at least 1; 0 means 512.
	PutItems int
	// BuildOpen reports whether a build of the corpus has begun and may go on, so that leaves that go must only be
	// hidden. Nil means that none ever is.
	BuildOpen func(ctx context.Context, corpus string) (bool, error)
	// Progress, if not nil, is told how far the ingest is, at most once for each batch written. It must be fast.
	Progress func(Progress)
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	switch {
	case c.ChunkTokens != 0 && c.ChunkTokens < 8:
		return fmt.Errorf("ingest: chunking.tokens is %d; it must be at least 8", c.ChunkTokens)
	case c.EmbedItems < 0 || c.EmbedCalls < 0 || c.PutItems < 0:
		return errors.New("ingest: batch sizes and calls must not be negative")
	}
	return nil
}

// Progress is how far an ingest is.
type Progress struct {
	Documents int // finished
	Leaves    int // written
}

// Request says what to ingest.
type Request struct {
	Corpus string
	// Paths are files and folders; "-" reads JSONL from Stdin.
	Paths []string
	// Vectors, if not empty, names a .npy file with one vector for each row of JSONL in the order in which they are read.
	Vectors string
	// Prune removes the documents under the folders among Paths whose files are gone.
	Prune bool
	Stdin io.Reader
}

// Report says what an ingest or a deletion did. It is written as JSON by `aerie ingest`.
type Report struct {
	Corpus    string           `json:"corpus"`
	Documents Documents        `json:"documents"`
	Leaves    Leaves           `json:"leaves"`
	Skipped   map[string]int   `json:"skipped"` // by reason
	Errors    []corpus.Problem `json:"errors"`
}

// Documents counts documents by what became of them.
type Documents struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Removed   int `json:"removed"`
	Failed    int `json:"failed"`
}

// Leaves counts leaves. Total is that of the corpus afterwards.
type Leaves struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Total   int `json:"total"`
}

// LeftOut reports whether something of the input isn't in the corpus that should be: the exit code is 3 then.
func (r *Report) LeftOut() bool { return len(r.Errors) > 0 || r.Documents.Failed > 0 }

// Ingester brings documents into corpora. It may be used from many goroutines, but for one corpus by one at a time.
type Ingester struct {
	cfg      Config
	store    store.Store
	corpora  levels.Corpora
	embedder llm.Embedder
	counter  *corpus.Counter
}

// New returns an ingester.
func New(cfg Config, nodes store.Store, corpora levels.Corpora, embedder llm.Embedder) (*Ingester, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Ingester{cfg: cfg, store: nodes, corpora: corpora, embedder: embedder, counter: corpus.NewCounter()}, nil
}

// Ingest reads what the request names and makes the corpus hold it. Input that can't be used is reported, not an error.
// An error says what stopped the ingest as a whole; the report then tells what was done before, and running it
// again goes on from there. With a cancelled context it is ctx.Err().
func (in *Ingester) Ingest(ctx context.Context, req Request) (Report, error) {
	return Report{Corpus: req.Corpus}, errors.ErrUnsupported
}

// Delete removes documents. Those that don't exist are named, each with the nearest ids that do, in an error that is
// ErrUnknown; the others are deleted all the same.
func (in *Ingester) Delete(ctx context.Context, corpus string, documents []string) (Report, error) {
	return Report{Corpus: corpus}, errors.ErrUnsupported
}

// DeleteAll removes a corpus with its leaves, summaries and record. One that doesn't exist is no error.
func (in *Ingester) DeleteAll(ctx context.Context, corpus string) (Report, error) {
	return Report{Corpus: corpus}, errors.ErrUnsupported
}

var _ = tree.Deleted
