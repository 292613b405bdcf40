package answer

import (
	"fmt"
	"strings"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/word"
)

// Floors of relevance, below which a corpus is taken to hold no answer. They were chosen on 974 questions about a medical text
// and 25 about anything else: of the former, vectors of a small sentence encoder leave none out and the built-in
// ones 5; of the latter, both let 2 through, for the model to say that the passages hold no answer.
const (
	// ModelFloor is the least similarity for vectors of a model. Models differ: for one whose vectors are all alike, the
	// floor is always met, and the chat model must judge.
	ModelFloor = 0.3
	// LexicalFloor is that for vectors of the built-in embedder.
	LexicalFloor = 0.26
	// WordsFloor is the share of the question's words, weighed by what they tell, that all hits together must hold where
	// no similarity is high enough.
	WordsFloor = 0.65
)

// Floor returns the least similarity for the vectors of an embedder.
func Floor(embedder string) float64 {
	if strings.HasPrefix(embedder, llm.LexicalName) {
		return LexicalFloor
	}
	return ModelFloor
}

// irrelevant says why hits are no ground for an answer; "" if they are one.
func irrelevant(question string, hits []retrieve.Hit, floor float64) string {
	if len(hits) == 0 {
		return "nothing was found"
	}
	best, compared := -1.0, false
	for i := range hits {
		if s := hits[i].Parts.Similarity; s != nil {
			best, compared = max(best, *s), true
		}
	}
	if compared && best >= floor {
		return ""
	}
	share := sharedWords(question, hits)
	if share >= WordsFloor {
		return ""
	}
	words := fmt.Sprintf("the hits hold %.0f %% of what the question's words tell, below %.0f %%", 100*share, 100*WordsFloor)
	if !compared {
		return words
	}
	return fmt.Sprintf("the best similarity is %.2f, below %.2f, and %s", best, floor, words)
}

// sharedWords returns which share of a question's words, weighed by what they tell, the hits hold.
func sharedWords(question string, hits []retrieve.Hit) float64 {
	held := map[string]bool{}
	for i := range hits {
		word.Each(hits[i].Text, func(term string) { held[term] = true })
	}
	all, shared := 0.0, 0.0
	for _, term := range distinctTerms(question) {
		weight := word.Weight(term)
		all += weight
		if held[term] {
			shared += weight
		}
	}
	if all == 0 {
		return 0
	}
	return shared / all
}

// distinctTerms returns the terms of a text in order, each once.
func distinctTerms(text string) []string {
	var terms []string
	seen := map[string]bool{}
	word.Each(text, func(term string) {
		if !seen[term] {
			seen[term] = true
			terms = append(terms, term)
		}
	})
	return terms
}
