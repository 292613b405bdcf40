package evaluate

import (
	"context"
	"sync"

	"github.com/aerie-rag/aerie/internal/llm"
)

// Remember wraps an embedder so that the vector of the query that was asked last is at hand: with its EmbedQuery as
// Config.Prepare, arms that share the embedder don't pay for the vector, and their latencies don't count it.
func Remember(embedder llm.Embedder) *Remembering { return &Remembering{Embedder: embedder} }

// Remembering is an embedder with a memory of one query.
type Remembering struct {
	llm.Embedder

	mu     sync.Mutex
	query  string
	vector []float32
}

// EmbedQuery returns the vector of a query. Callers don't change it.
func (r *Remembering) EmbedQuery(ctx context.Context, query string) ([]float32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.vector != nil && r.query == query {
		return r.vector, nil
	}
	vector, err := r.Embedder.EmbedQuery(ctx, query)
	if err != nil {
		return nil, err
	}
	r.query, r.vector = query, vector
	return vector, nil
}

// Prepare embeds a question; it is meant for Config.Prepare.
func (r *Remembering) Prepare(ctx context.Context, question string) error {
	_, err := r.EmbedQuery(ctx, question)
	return err
}
