package llm

import (
	"context"
)

// Embedder turns texts into vectors. All its vectors have one width and unit length, and are finite.
type Embedder interface {
	// Name says which model the vectors come from, such as "openai/text-embedding-3-small" or "lexical-1". Vectors
	// of embedders with different names are never mixed in one corpus.
	Name() string
	// Embed returns one vector for each passage, in order.
	Embed(ctx context.Context, passages []string) ([][]float32, error)
	// EmbedQuery returns the vector of a query.
	EmbedQuery(ctx context.Context, query string) ([]float32, error)
}
