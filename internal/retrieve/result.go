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
	// Notes are sentences about what a person might not expect, such as summaries that are held back.
	Notes []string `json:"notes,omitempty"`
	// Explain says what became of every candidate; nil unless it was asked for.
	Explain *Explain `json:"explain,omitempty"`
}

// Hit is one node that was found, with where it comes from.
type Hit struct {
	ID    tree.ID `json:"id"`
	Level int     `json:"level"`
	// Score is what the candidates were ordered by: the cosine similarity, or what fusion and boost made of it.
	Score  float64 `json:"score"`
	Parts  Parts   `json:"parts"`
	Tokens int     `json:"tokens"`
	Text   string  `json:"text"`
	// Context is what the text of a leaf stands under: headings, the head of a table. "" if it has none.
	Context string `json:"context,omitempty"`

	// DocumentIDs are the documents that the text comes from, ascending. Never nil.
	DocumentIDs []string `json:"document_ids"`
	// SourceIDs are the leaves under a summary, ascending, at most Config.SourceIDs of them; of a leaf itself.
	// Never nil.
	SourceIDs []tree.ID `json:"source_ids"`
	// NSources is how many source leaves there are, those beyond the cap included.
	NSources int `json:"n_sources"`

	// ChunkIndex is a leaf's place in its document, from 0; -1 for a summary.
	ChunkIndex int `json:"chunk_index"`
	// Metadata holds the caller's properties of a leaf.
	Metadata tree.Metadata `json:"metadata,omitempty"`
}

// Parts is what a score was made from.
type Parts struct {
	// Similarity is the cosine; nil if keywords alone found the node.
	Similarity *float64 `json:"similarity,omitempty"`
	// Keyword is the store's BM25 score; nil if the node holds no word of the query, or none was looked for.
	Keyword *float64 `json:"keyword,omitempty"`
	// Boost is the factor that was applied; 0 if there was none.
	Boost float64 `json:"boost,omitempty"`
	// Relevance is what packing by coverage made of the score: 1 for the best, falling fast.
	Relevance float64 `json:"relevance,omitempty"`
	// Link is how a second hop reached the leaf; nil if none did.
	Link *Link `json:"link,omitempty"`
	// Gain is what the node added per unit of cost when it was chosen by coverage.
	Gain float64 `json:"gain,omitempty"`
}

// Fate is what became of a candidate.
type Fate string

// The fates.
const (
	Chosen   Fate = "chosen"
	Covered  Fate = "covered"  // adds nothing to the chosen ones
	NoRoom   Fate = "no_room"  // doesn't fit into what is left of the budget
	TooMany  Fate = "too_many" // top-k hits were chosen before
	Outside  Fate = "outside"  // fetched, but ranked behind the pool
	Stale    Fate = "stale"    // rests on text that is gone
	Filtered Fate = "filtered" // shut out by a filter
	Beaten   Fate = "beaten"   // at hand in a traversal, and not among the best of its level
)

// Explain is what a query did, for people.
type Explain struct {
	// Fetched is the number of nodes that were fetched, and FetchedByLevel how many of each level.
	Fetched        int   `json:"fetched"`
	FetchedByLevel []int `json:"fetched_by_level"`
	// Lifted is the number of nodes that rank higher by the boost than without.
	Lifted int `json:"lifted"`
	// Candidates are ordered by score, best first; those that a filter shut out come last.
	Candidates []Explained `json:"candidates"`
}

// Explained is one candidate and its fate.
type Explained struct {
	ID     tree.ID `json:"id"`
	Level  int     `json:"level"`
	Score  float64 `json:"score"`
	Parts  Parts   `json:"parts"`
	Tokens int     `json:"tokens"`
	// Rank is the place by score, from 1, and FetchedRank that before the boost.
	Rank        int  `json:"rank"`
	FetchedRank int  `json:"fetched_rank"`
	Fate        Fate `json:"fate"`
	// Why is a sentence about the fate.
	Why string `json:"why"`
	// CoveredBy are the hits that say what the node says, those that say most of it first.
	CoveredBy []tree.ID `json:"covered_by,omitempty"`
}
