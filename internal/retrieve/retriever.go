package retrieve

import (
	"context"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Config holds what is the same for all requests.
type Config struct {
	// Pool is the number of candidates that are fetched before packing; 0 means 150. When the budget has room
	// for more, more are fetched.
	Pool int
	// SourceIDs caps the list of source leaves of each hit; 0 means 100.
	SourceIDs int
}

// Validate reports the first value out of its range.
func (c Config) Validate() error {
	if c.Pool < 0 {
		return fmt.Errorf("retrieve: pool is %d: it must be 0 (150) or more", c.Pool)
	}
	if c.SourceIDs < 0 {
		return fmt.Errorf("retrieve: source ids are capped at %d: the cap must be 0 (100) or more", c.SourceIDs)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Pool == 0 {
		c.Pool = 150
	}
	if c.SourceIDs == 0 {
		c.SourceIDs = 100
	}
	return c
}

// Retriever answers queries. Its methods may be called from many goroutines.
type Retriever struct {
	cfg      Config
	nodes    store.Store
	corpora  levels.Corpora
	embedder llm.Embedder
}

// New returns a retriever over a store. It panics if cfg is not valid.
func New(cfg Config, nodes store.Store, corpora levels.Corpora, embedder llm.Embedder) *Retriever {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Retriever{cfg: cfg.withDefaults(), nodes: nodes, corpora: corpora, embedder: embedder}
}

// maxReruns bounds how often a query is run again because a generation was published while it ran.
const maxReruns = 3

// Retrieve answers a request. The errors a caller may want to tell apart: *UsageError for a wrong request,
// ErrUnknown and ErrEmpty for the corpus, *EmbedderError when the configured embedder isn't that of the corpus.
func (r *Retriever) Retrieve(ctx context.Context, req Request) (Result, error) {
	if err := req.Validate(); err != nil {
		return Result{}, err
	}
	record, err := r.record(ctx, req.Corpus)
	if err != nil {
		return Result{}, err
	}
	vector, err := r.vector(ctx, req, record)
	if err != nil {
		return Result{}, err
	}
	for rerun := 0; ; rerun++ {
		result, err := r.run(ctx, req, vector, record)
		if err != nil {
			return Result{}, fmt.Errorf("retrieve: corpus %s: %w", req.Corpus, err)
		}
		after, err := r.record(ctx, req.Corpus)
		if err != nil {
			return Result{}, err
		}
		if after.Generation == record.Generation || rerun == maxReruns {
			if len(result.Hits) == 0 {
				err = r.whyEmpty(ctx, record)
			}
			return result, err
		}
		record = after
	}
}

// run answers a request at the generation of one record.
func (r *Retriever) run(ctx context.Context, req Request, vector []float32, record *levels.Corpus) (Result, error) {
	result := Result{
		Query: req.Query, Corpus: req.Corpus, Generation: record.Generation,
		Mode: req.Mode, Pack: req.Pack, Hits: []Hit{},
	}
	pool, err := r.collapsed(ctx, req, vector, record)
	if err != nil {
		return Result{}, err
	}
	chosen := packSimilarity(pool, req.Budget, req.TopK)
	result.Hits, err = r.hits(ctx, req.Corpus, chosen)
	for _, h := range result.Hits {
		result.Tokens += h.Tokens
	}
	return result, err
}

// hits reads the texts of the chosen candidates and where they come from. A node that is gone is left out.
func (r *Retriever) hits(ctx context.Context, corpus string, chosen []candidate) ([]Hit, error) {
	ids := make([]tree.ID, len(chosen))
	for i, c := range chosen {
		ids[i] = c.node.ID
	}
	nodes, err := r.nodes.Get(ctx, corpus, ids, store.Fields{Text: true, Metadata: true})
	if err != nil {
		return nil, err
	}
	sources, err := r.sources(ctx, corpus, nodes)
	if err != nil {
		return nil, err
	}
	scores := make(map[tree.ID]float64, len(chosen))
	for _, c := range chosen {
		scores[c.node.ID] = c.score
	}
	hits := make([]Hit, 0, len(nodes))
	for i, n := range nodes {
		hits = append(hits, Hit{
			ID: n.ID, Level: n.Level, Score: scores[n.ID], Tokens: n.Tokens, Text: n.Text,
			DocumentIDs: sources[i].documents, SourceIDs: sources[i].leaves, NSources: sources[i].n,
			ChunkIndex: n.ChunkIndex, Metadata: n.Metadata,
		})
	}
	return hits, nil
}
