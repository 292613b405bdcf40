package api

import (
	"strings"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
)

// Query is a question with the options that were given.
type Query struct {
	Query  string    `json:"query" doc:"the question"`
	Vector []float32 `json:"vector,omitempty" doc:"the embedding of the question, by the model of the corpus; no embedder is asked then"`
	retrieve.Options
}

// Ask is a question that wants an answer.
type Ask struct {
	Query
	// MinSimilarity is what the best hit must reach, -1 to 1; nil leaves it to the embedder of the corpus.
	MinSimilarity *float64 `json:"min_similarity,omitempty" doc:"least similarity of the best hit for an answer, -1 to 1; the default fits the embedder"`
	// History is what was said before, oldest first: the question is read in its light.
	History []Turn `json:"history,omitempty" doc:"earlier turns of the conversation, oldest first; the question is read in their light"`
}

// Turn is what one side of a conversation said.
type Turn struct {
	Role string `json:"role" enum:"user,assistant"`
	Text string `json:"text"`
}

// Answer is the JSON of aerie ask.
type Answer struct {
	answer.Answer
	Cost    *Cost             `json:"cost"` // nil if the model has no price
	Explain *retrieve.Explain `json:"explain,omitempty"`
}

// Spoken is a sentence of an answer while it is written.
type Spoken struct {
	answer.Sentence
	// Gap is the white space between the sentence before and this one; "" for the first.
	Gap string `json:"gap"`
}

// Conditions reads conditions on metadata as people write them, with semicolons between; none from a blank text.
func Conditions(text string) ([]store.Where, error) {
	var all []store.Where
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		w, err := store.ParseWhere(part)
		if err != nil {
			return nil, Usagef("", "where: %w", err)
		}
		all = append(all, w)
	}
	return all, nil
}
