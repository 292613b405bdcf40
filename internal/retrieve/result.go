package retrieve

import "github.com/aerie-rag/aerie/internal/tree"

// Result is the answer to a Request. It marshals to the JSON of `aerie query`.
type Result struct {
	Query      string `json:"query"`
	Corpus     string `json:"corpus"`
	Generation int    `json:"generation"` // that was read
	Mode       Mode   `json:"mode"`
	Pack       Pack   `json:"pack"`
	// Tokens is the sum over the hits.
	Tokens int `json:"tokens"`
	// Hits are ordered by score, best first, ties by id. Never nil.
	Hits []Hit `json:"hits"`
}

// Hit is one node that was found, with where it comes from.
type Hit struct {
	ID    tree.ID `json:"id"`
	Level int     `json:"level"`
	// Score is what the hits are ordered by: the cosine similarity.
	Score  float64 `json:"score"`
	Tokens int     `json:"tokens"`
	Text   string  `json:"text"`

	// DocumentIDs are the documents that the text comes from, ascending. Never nil.
	DocumentIDs []string `json:"document_ids"`
	// SourceIDs are the leaves under a summary, ascending, at most Config.SourceIDs of them; for a leaf itself.
	// Never nil.
	SourceIDs []tree.ID `json:"source_ids"`
	// NSources is how many source leaves there are, those beyond the cap included.
	NSources int `json:"n_sources"`

	// ChunkIndex is a leaf's place in its document, from 0; -1 for a summary.
	ChunkIndex int `json:"chunk_index"`
	// Metadata holds the caller's properties of a leaf.
	Metadata map[string]any `json:"metadata,omitempty"`
}
