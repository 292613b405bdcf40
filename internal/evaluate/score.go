package evaluate

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// Metric names what is measured of an answer.
type Metric string

// The metrics that arms are compared by. Larger is better.
const (
	Coverage Metric = "coverage"        // 0…1
	Answered Metric = "answered"        // 0 or 1
	Recall   Metric = "evidence_recall" // 0…1
	NDCG     Metric = "ndcg"            // 0…1
)

// Metrics lists them.
func Metrics() []Metric { return []Metric{Coverage, Answered, Recall, NDCG} }

// Score is what one arm made of one question. A metric that the question gives no ground for is NaN, such as
// coverage where the answer only repeats the words of the question.
type Score struct {
	Coverage, Answered, Recall, NDCG float64
	// Summaries is the share of summaries among the hits; NaN without hits.
	Summaries    float64
	Tokens, Hits int
	// Latency is 0 where the answer shares what was found for another budget.
	Latency time.Duration
}

func (s *Score) metric(m Metric) float64 {
	switch m {
	case Coverage:
		return s.Coverage
	case Answered:
		return s.Answered
	case Recall:
		return s.Recall
	case NDCG:
		return s.NDCG
	}
	panic("evaluate: unknown metric " + string(m))
}

// key is a question made ready for scoring.
type key struct {
	answers  [][]string          // content words of each right answer that has some
	leaves   map[string]bool     // evidence that names leaves
	passages map[string][]string // content words of evidence that is text
	order    []string            // of the passages
}

// leafName is the form DOCUMENT#CHUNK.
var leafName = regexp.MustCompile(`^\S+#[0-9]+$`)

func newKey(q *Question) key {
	k := key{leaves: map[string]bool{}, passages: map[string][]string{}}
	for _, answer := range q.Answer {
		if words := contentWords(answer, q.Question); len(words) > 0 {
			k.answers = append(k.answers, words)
		}
	}
	for _, e := range q.Evidence {
		if _, err := tree.ParseID(e); err == nil || leafName.MatchString(e) {
			k.leaves[e] = true
			continue
		}
		if words := contentWords(e); len(words) > 0 && k.passages[e] == nil {
			k.passages[e] = words
			k.order = append(k.order, e)
		}
	}
	return k
}

// score grades hits, best first.
func (k *key) score(hits []retrieve.Hit, threshold float64) Score {
	held := map[string]bool{}
	s := Score{Coverage: math.NaN(), Answered: math.NaN(), Hits: len(hits)}
	for i := range hits {
		word.Each(hits[i].Text, func(term string) { held[term] = true })
		s.Tokens += hits[i].Tokens
		if hits[i].Level > 0 {
			s.Summaries++
		}
	}
	s.Summaries /= float64(len(hits))
	if len(k.answers) > 0 {
		s.Coverage, s.Answered = 0, 0
		for _, words := range k.answers {
			s.Coverage = max(s.Coverage, share(words, held))
		}
		if s.Coverage >= threshold {
			s.Answered = 1
		}
	}
	s.Recall = k.recall(hits, held)
	s.NDCG = k.ndcg(hits)
	return s
}

// names returns the two names that evidence may call a leaf by.
func names(h *retrieve.Hit) []string {
	if h.Level > 0 || len(h.DocumentIDs) == 0 {
		return nil
	}
	return []string{h.ID.String(), fmt.Sprintf("%s#%d", h.DocumentIDs[0], h.ChunkIndex)}
}

func (k *key) recall(hits []retrieve.Hit, held map[string]bool) float64 {
	n := len(k.leaves) + len(k.order)
	if n == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range hits {
		for _, name := range names(&hits[i]) {
			if k.leaves[name] {
				sum++
				break
			}
		}
	}
	for _, passage := range k.order {
		sum += share(k.passages[passage], held)
	}
	return min(1, sum/float64(n))
}

// ndcg is the discounted cumulative gain of the hits over that of a list with all evidence first (Järvelin and
// Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002, with log2(rank + 1)). A leaf of the evidence
// gains 1. A summary gains the number of evidence leaves among its sources that no hit before it brought, over
// the number of its sources; it can't tell them by the form DOCUMENT#CHUNK, so only evidence that is named by id
// counts below summaries.
func (k *key) ndcg(hits []retrieve.Hit) float64 {
	if len(k.leaves) == 0 {
		return math.NaN()
	}
	brought := map[string]bool{}
	got, ideal := 0.0, 0.0
	for i := range hits {
		h := &hits[i]
		fresh := 0
		take := func(name string) bool {
			if !k.leaves[name] || brought[name] {
				return false
			}
			brought[name] = true
			fresh++
			return true
		}
		if h.Level == 0 {
			for _, name := range names(h) {
				if take(name) {
					break
				}
			}
		} else {
			for _, id := range h.SourceIDs {
				take(id.String())
			}
		}
		got += float64(fresh) / float64(max(1, h.NSources)) / math.Log2(float64(i)+2)
	}
	for rank := range len(k.leaves) {
		ideal += 1 / math.Log2(float64(rank)+2)
	}
	return got / ideal
}
