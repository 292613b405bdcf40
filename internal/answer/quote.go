package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/word"
)

// Parameters of quoting.
const (
	mostQuotes = 5
	leastQuote = 0.4  // of the best score, below which a sentence says too little about the question
	saidBefore = 0.25 // what a word of the question counts that was quoted already
	rankCost   = 0.1  // how much less a sentence counts with each hit above its own
)

// quotable is a sentence of the hits, with those of the question's words that it has.
type quotable struct {
	text  string
	words []string
	hits  []int // the numbers of the hits that hold it
	place int   // in the order of the hits
}

// quote answers with the sentences of the hits that have most of the question's words, in the order of the hits: at most
// mostQuotes, and as many as fit into so many tokens. hits isn't empty.
func quote(question string, hits []retrieve.Hit, tokens int, counter mapreduce.Counter) []Sentence {
	weights := map[string]float64{}
	for _, term := range distinctTerms(question) {
		weights[term] = word.Weight(term)
	}
	candidates := quotables(hits, weights)
	if len(candidates) == 0 {
		return nil
	}
	weigh(candidates, weights)
	var chosen []*quotable
	best := 0.0
	for len(chosen) < mostQuotes {
		next := slices.MaxFunc(candidates, func(a, b *quotable) int {
			return cmp.Or(cmp.Compare(a.value(weights), b.value(weights)), -cmp.Compare(a.place, b.place))
		})
		value := next.value(weights)
		if best = max(best, value); len(chosen) > 0 && (value < leastQuote*best || value == 0) {
			break
		}
		candidates = slices.DeleteFunc(candidates, func(q *quotable) bool { return q == next })
		if cost := counter.Count(next.text); len(chosen) == 0 || cost <= tokens {
			chosen = append(chosen, next)
			tokens -= cost
			for _, w := range next.words {
				weights[w] *= saidBefore
			}
		}
		if len(candidates) == 0 {
			break
		}
	}
	slices.SortFunc(chosen, func(a, b *quotable) int { return cmp.Compare(a.place, b.place) })
	var out []Sentence
	for i, q := range chosen {
		s := Sentence{Text: q.text, Citations: q.hits, FromCorpus: true}
		for _, n := range q.hits {
			s.Text += fmt.Sprintf(" [%d]", n)
		}
		if i > 0 {
			s.Gap = "\n"
		}
		out = append(out, s)
	}
	return out
}

// quotables returns the sentences of the hits, each once.
func quotables(hits []retrieve.Hit, weights map[string]float64) []*quotable {
	var out []*quotable
	known := map[string]*quotable{}
	for i := range hits {
		for _, raw := range mapreduce.Sentences(hits[i].Text) {
			// Brackets with numbers in them would look like citations of ours.
			text := strings.Join(strings.Fields(printable.Text(citation.ReplaceAllString(raw, ""))), " ")
			if !hasLetter(text) {
				continue
			}
			q := known[text]
			if q == nil {
				q = &quotable{text: text, place: len(out)}
				for _, term := range distinctTerms(text) {
					if _, asked := weights[term]; asked {
						q.words = append(q.words, term)
					}
				}
				known[text] = q
				out = append(out, q)
			}
			if !slices.Contains(q.hits, i+1) {
				q.hits = append(q.hits, i+1)
			}
		}
	}
	return out
}

// weigh makes words that stand in many of the sentences count less: what all speak of doesn't tell them apart.
func weigh(all []*quotable, weights map[string]float64) {
	df := map[string]int{}
	for _, q := range all {
		for _, w := range q.words {
			df[w]++
		}
	}
	for w := range weights {
		weights[w] *= math.Log1p(float64(len(all)) / float64(max(df[w], 1)))
	}
}

// value is what a sentence tells about the question.
func (q *quotable) value(weights map[string]float64) float64 {
	sum := 0.0
	for _, w := range q.words {
		sum += weights[w]
	}
	return sum / (1 + rankCost*float64(q.hits[0]-1))
}
