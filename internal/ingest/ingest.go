package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
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
	// Erase is given leaves that must go and that no reader sees any more: it does away with them, unless a build may still read
	// them; then whoever builds deletes them later. Nil means that none ever is built.
	Erase func(ctx context.Context, corpus string, ids []tree.ID, away Away) error
	// Progress, if not nil, is told how far the ingest is, once for each batch written. It must be fast.
	Progress func(Progress)
}

// Away does away with leaves of a store, or with all of them but what must be known of them.
type Away func(ctx context.Context, nodes store.Store, ids []tree.ID) error

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

// withDefaults replaces zeros.
func (c Config) withDefaults() Config {
	for _, f := range []struct {
		field *int
		value int
	}{{&c.ChunkTokens, 100}, {&c.EmbedItems, 64}, {&c.EmbedCalls, 4}, {&c.PutItems, 512}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return c
}

// Progress is how far an ingest is.
type Progress struct {
	Documents int // that ended so far; those of JSONL end all together
	Leaves    int // written
}

// Request says what to ingest.
type Request struct {
	Corpus string
	// Paths are files and folders; "-" reads JSONL from Stdin.
	Paths []string
	// Vectors, if not empty, names a .npy file with one vector for each row of JSONL in the order in which they are read. It
	// takes the place of the rows' own embeddings.
	Vectors string
	// Reading says how files are read.
	Reading corpus.Reading
	// Prune removes the documents under the folders among Paths whose files are gone.
	Prune bool
	Stdin io.Reader
	// Stream, if not nil, takes the place of all of these: it is what Pack wrote, or anything else for corpus.ReadStream.
	Stream io.Reader
	// ChunkTokens, if not 0, is the budget of leaves from now on; else it is what the corpus's were cut with last, or Config.ChunkTokens.
	ChunkTokens int
	// Context says whether leaves have their headings and table heads as context from now on; nil: as before, and in a new corpus yes.
	Context *bool
}

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
	if cfg.Erase == nil {
		cfg.Erase = func(ctx context.Context, _ string, ids []tree.ID, away Away) error { return away(ctx, nodes, ids) }
	}
	return &Ingester{cfg: cfg.withDefaults(), store: nodes, corpora: corpora, embedder: embedder, counter: corpus.NewCounter()}, nil
}

// Ingest reads what the request names and makes the corpus hold it. Input that can't be used is reported, not an error.
//
// An error says what stopped the ingest as a whole; the report then tells what was done before, and running it
// again goes on from there. With a cancelled context it is ctx.Err().
func (in *Ingester) Ingest(ctx context.Context, req Request) (api.IngestReport, error) {
	r, err := in.start(ctx, req)
	if err != nil {
		return r.report.finished(), err
	}
	defer r.close()
	err = r.stream(ctx)
	if err == nil {
		err = r.settle(ctx)
	}
	if err == nil && req.Prune && req.Stream == nil {
		err = r.prune(ctx)
	}
	r.giveUp()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	// The total is wanted also when the ingest was stopped.
	total, countErr := in.total(context.WithoutCancel(ctx), req.Corpus)
	r.report.Leaves.Total = total
	if err == nil {
		err = countErr
	}
	return r.report.finished(), err
}

// total returns the number of leaves that the corpus holds.
func (in *Ingester) total(ctx context.Context, name string) (int, error) {
	n, err := in.store.Count(ctx, name, store.Leaves().VisibleAt(0))
	if err != nil {
		return 0, fmt.Errorf("ingest: corpus %s: %w", name, err)
	}
	return n, nil
}
