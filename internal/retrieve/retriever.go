package retrieve

import (
	"context"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
)

// Config holds what is the same for all requests.
type Config struct {
	// SourceIDs caps the list of source leaves of each hit; 0 means 100.
	SourceIDs int
	// ByWords compares a query by its words alone unless it says otherwise, since the embedder is not the model that made the
	// vectors of the corpora.
	ByWords bool
}

// Validate reports the first value out of its range.
func (c Config) Validate() error {
	if c.SourceIDs < 0 {
		return fmt.Errorf("retrieve: source ids are capped at %d: the cap must be 0 (100) or more", c.SourceIDs)
	}
	return nil
}

// Retriever answers queries. Its methods may be called from many goroutines.
type Retriever struct {
	cfg      Config
	nodes    store.Store
	corpora  levels.Corpora
	embedder llm.Embedder
	memory   memory
}

// New returns a retriever over a store. It panics if cfg is not valid.
func New(cfg Config, nodes store.Store, corpora levels.Corpora, embedder llm.Embedder) *Retriever {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if cfg.SourceIDs == 0 {
		cfg.SourceIDs = 100
	}
	return &Retriever{cfg: cfg, nodes: nodes, corpora: corpora, embedder: embedder}
}

// maxReruns bounds how often a query is run again because a generation was published while it ran.
const maxReruns = 3

// Retrieve answers a request. Errors that a caller may want to tell apart: *UsageError and *UnusedError for a wrong request,
// *EmbedderError when the configured embedder isn't that of the corpus (all are the asker's to mend), ErrUnknown
// and ErrEmpty for the corpus. A query that matches nothing is no error: the result has no hits.
func (r *Retriever) Retrieve(ctx context.Context, req Request) (Result, error) {
	var result Result
	err := r.RetrieveAt(ctx, req, nil, func(_ int, found Result) { result = found })
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

// RetrieveAt answers a request at several budgets instead of its own, or with nil at that, as Retrieve answers each, and passes
// on every answer with the place of its budget. What doesn't depend on the budget is found once.
func (r *Retriever) RetrieveAt(ctx context.Context, asked Request, budgets []int, each func(i int, result Result)) error {
	req, err := asked.Settled()
	if err != nil {
		return err
	}
	if budgets == nil {
		budgets = []int{*req.Budget}
	}
	for _, budget := range budgets {
		req.Budget = &budget
		if err := req.validate(); err != nil {
			return err
		}
	}
	byWords := r.cfg.ByWords && asked.Alpha == nil && asked.Vector == nil && *req.Mode != Traversal
	if byWords {
		req.Alpha = new(0.0)
	}
	record, err := r.record(ctx, req.Corpus)
	if err != nil {
		return err
	}
	vector, err := r.vector(ctx, &req, record)
	if err != nil {
		return err
	}
	s, err := r.newSearch(ctx, &req, vector, record)
	for i := 0; i < len(budgets) && err == nil; i++ {
		var result Result
		if s, result, err = s.settled(ctx, budgets[i]); err == nil {
			if byWords {
				result.Notes = append(result.Notes, fmt.Sprintf("corpus %s holds vectors that were brought along, and embeddings doesn't name their model: "+
					"the query is compared by its words", req.Corpus))
			}
			each(i, result)
		}
	}
	return err
}

// settled runs the search at a budget, and again where a generation was published while it ran: then with a new search,
// which it returns.
func (s *search) settled(ctx context.Context, budget int) (*search, Result, error) {
	for rerun := 0; ; rerun++ {
		s.req.Budget = &budget
		result, err := s.run(ctx)
		if err != nil {
			return s, result, fmt.Errorf("retrieve: corpus %s: %w", s.req.Corpus, err)
		}
		after, err := s.Retriever.record(ctx, s.req.Corpus)
		if err != nil {
			return s, result, err
		}
		if after.Generation == s.record.Generation || rerun == maxReruns {
			if len(result.Hits) == 0 {
				err = s.whyEmpty(ctx, s.record)
			}
			return s, result, err
		}
		if s, err = s.newSearch(ctx, s.req, s.vector, after); err != nil {
			return s, result, err
		}
	}
}
