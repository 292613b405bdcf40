package answer

import (
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/word"
)

// Who found a citation.
const (
	ByModel = "model"
	ByAerie = "aerie"
)

const (
	// supported is the share of a sentence's words, by weight, that a hit holds which supports it.
	supported = 0.6
	// doubtful is the share below which a hit that the model cites says something else.
	doubtful = 0.15
	// fewestWords of a sentence tell where it comes from; fewer stand anywhere.
	fewestWords = 3
)

// evidence knows the words of the hits that an answer was written from.
type evidence struct {
	hits  []retrieve.Hit
	words []map[string]bool
}

func newEvidence(hits []retrieve.Hit) *evidence {
	e := &evidence{hits: hits, words: make([]map[string]bool, len(hits))}
	for i := range hits {
		e.words[i] = map[string]bool{}
		word.Each(hits[i].Text, func(w string) { e.words[i][w] = true })
	}
	return e
}

// shares returns, for each hit, the share of a sentence's words that it holds, by their weight; nil if the sentence has too few.
func (e *evidence) shares(sentence string) []float64 {
	var words []string
	var weights []float64
	total := 0.0
	for _, w := range word.Query(sentence) { // in order, so that the sums are the same each time
		if weight := word.Weight(w); weight > word.AmbiguousWeight {
			words, weights = append(words, w), append(weights, weight)
			total += weight
		}
	}
	if len(words) < fewestWords {
		return nil
	}
	out := make([]float64, len(e.words))
	for i, held := range e.words {
		for j, w := range words {
			if held[w] {
				out[i] += weights[j] / total
			}
		}
	}
	return out
}

// cite adds the citation that a sentence lacks, if a hit supports it, and notes which of its own say something else.
func (e *evidence) cite(s *Sentence) {
	shares := e.shares(citation.ReplaceAllString(s.Text, ""))
	if shares == nil {
		return
	}
	if s.FromCorpus {
		for _, n := range s.Citations {
			if shares[n-1] < doubtful {
				s.Doubtful = append(s.Doubtful, n)
			}
		}
		return
	}
	best := 0
	for i, share := range shares {
		if share > shares[best] {
			best = i
		}
	}
	if shares[best] < supported || len(s.Citations) > 0 { // what cites a hit that doesn't exist is no quotation
		return
	}
	s.Text += fmt.Sprintf(" [%d]", best+1)
	s.Citations, s.FromCorpus, s.By = []int{best + 1}, true, ByAerie
}

// unsupported is the note on sentences that nothing supports; "" if all are supported.
func unsupported(sentences []Sentence) string {
	n := 0
	for _, s := range sentences {
		if !s.FromCorpus {
			n++
		}
	}
	switch {
	case n == 0:
		return ""
	case n == len(sentences):
		return "nothing of the answer is supported by what was found: it is the model's own, or not an answer at all"
	}
	return fmt.Sprintf("%d of %d sentences are supported by nothing that was found, and are the model's own", n, len(sentences))
}

// foundByAerie reports whether aerie found any of the citations.
func foundByAerie(sentences []Sentence) bool {
	return slices.ContainsFunc(sentences, func(s Sentence) bool { return s.By == ByAerie })
}
