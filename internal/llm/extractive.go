package llm

import (
	"context"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// ExtractiveName is the model name of [Extractive]. It changes whenever the same passages would get another summary.
const ExtractiveName = "extractive-1"

// ExtractiveConfig configures [Extractive].
type ExtractiveConfig struct {
	// Counter counts the tokens that bound a summary. Required.
	Counter mapreduce.Counter
	// Sentences cuts a text into sentences; nil means mapreduce.Sentences.
	Sentences func(text string) []string
}

// Extractive is the summarizer that is built in. It chooses sentences of its passages and writes none: whole sentences,
// in the order of the passages, no two nearly the same, within the bound on tokens.
//
// Sentences are ranked by continuous LexRank (Erkan, Radev: LexRank, JAIR 22, 2004): a random walk between sentences
// that prefers similar ones, with the cosine of term vectors as similarity. Because that matrix is a product of term
// vectors, the walk goes through the terms and costs time in the number of terms, not in pairs of sentences. Then
// sentences are taken by rank, discounted by what is said already (maximal marginal relevance; Carbonell, Goldstein,
// SIGIR 1998) and by how often their passage has had its say.
//
// The prompt has no part in it. It fails only when all passages are blank.
type Extractive struct{ cfg ExtractiveConfig }

// NewExtractive returns the built-in summarizer.
func NewExtractive(cfg ExtractiveConfig) *Extractive {
	if cfg.Counter == nil {
		panic("llm: ExtractiveConfig.Counter is required")
	}
	if cfg.Sentences == nil {
		cfg.Sentences = mapreduce.Sentences
	}
	return &Extractive{cfg: cfg}
}

// Parameters of the choice.
const (
	damping      = 0.85 // of the walk, as in LexRank
	walkSteps    = 30
	walkEnd      = 1e-7 // a step that moves less than this is the last
	sameSentence = 0.6  // cosine from which two sentences say the same
	repeatCost   = 0.75 // factor for each sentence that a passage has in the summary already
	leastTail    = 6    // tokens below which nothing worth saying fits
	leastShare   = 0.1  // of the best score, below which a sentence is filler
)

// Summarize chooses from call.Texts. Usage counts one call.
func (e *Extractive) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	if err := ctx.Err(); err != nil {
		return mapreduce.Answer{}, err
	}
	g := newSentenceGraph(call.Texts, e.cfg.Sentences)
	if len(g.sentences) == 0 {
		return mapreduce.Answer{}, mapreduce.ErrNoText
	}
	text := e.choose(g, g.rank(), call.MaxOutputTokens)
	in := call.InputTokens
	if in == 0 {
		for _, t := range call.Texts {
			in += e.cfg.Counter.Count(t)
		}
	}
	return mapreduce.Answer{Text: text, Usage: tree.Usage{
		Calls: 1, InputTokens: in, OutputTokens: e.cfg.Counter.Count(text),
	}}, nil
}

// choose takes sentences by rank while they fit, and returns them in order.
func (e *Extractive) choose(g *sentenceGraph, rank []float64, limit int) string {
	nearest := make([]float64, len(rank)) // cosine to the nearest sentence taken
	said := map[int]int{}                 // sentences taken, by passage
	open := make([]bool, len(rank))
	for i := range open {
		open[i] = true
	}
	var taken []int
	left, top := limit, 0.0
	for left >= min(leastTail, limit) {
		best, bestScore := -1, -1.0
		for i, ok := range open {
			if !ok {
				continue
			}
			score := rank[i] * (1 - nearest[i])
			for range min(said[g.sentences[i].passage], 4) {
				score *= repeatCost
			}
			if score > bestScore {
				best, bestScore = i, score
			}
		}
		if best < 0 || len(taken) > 0 && bestScore < leastShare*top {
			break
		}
		open[best] = false
		top = max(top, bestScore)
		cost := e.cfg.Counter.Count(g.sentences[best].text)
		if len(taken) > 0 {
			cost++ // for what joins them
		}
		if cost > left {
			continue
		}
		left -= cost
		taken = append(taken, best)
		said[g.sentences[best].passage]++
		for i, ok := range open {
			if ok {
				nearest[i] = max(nearest[i], g.cosine(i, best))
				open[i] = nearest[i] < sameSentence
			}
		}
	}
	if len(taken) == 0 {
		return e.cut(g.sentences[argmax(rank)].text, limit)
	}
	for {
		text := g.join(taken)
		if len(taken) == 1 || e.cfg.Counter.Count(text) <= limit {
			return text
		}
		taken = taken[:len(taken)-1] // joined they came out longer than one by one: the last has the lowest rank
	}
}

// cut shortens a sentence that is over the limit by itself: after the last clause that fits if that is at least half of
// what fits, else after the last word, else after the last rune.
func (e *Extractive) cut(s string, limit int) string {
	ends := runeEnds(s)
	n := sort.Search(len(ends), func(i int) bool { return e.cfg.Counter.Count(s[:ends[i]]) > limit })
	if n == 0 {
		return s[:ends[0]] // one rune may be several tokens; an answer is never empty
	}
	if n == len(ends) {
		return s
	}
	fits := s[:ends[n-1]]
	if at := strings.LastIndexFunc(fits, isClauseEnd); at >= len(fits)/2 {
		_, size := utf8.DecodeRuneInString(fits[at:])
		return strings.TrimSpace(fits[:at+size])
	}
	next, _ := utf8.DecodeRuneInString(s[len(fits):])
	if !unicode.IsSpace(next) && !word.IsWide(next) {
		if at := strings.LastIndexFunc(fits, unicode.IsSpace); at > 0 {
			fits = fits[:at]
		}
	}
	if t := strings.TrimSpace(fits); t != "" {
		return t
	}
	return s[:ends[0]]
}

func isClauseEnd(r rune) bool { return strings.ContainsRune(",;:，；：、،؛—–", r) }

func runeEnds(s string) []int {
	ends := make([]int, 0, len(s))
	for i := range s {
		if i > 0 {
			ends = append(ends, i)
		}
	}
	return append(ends, len(s))
}

func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

var _ mapreduce.Summarizer = (*Extractive)(nil)
