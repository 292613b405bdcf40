package llm

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/word"
)

// sentence is one sentence of the passages.
type sentence struct {
	text    string // white space collapsed
	passage int
	first   bool // of its passage
	terms   []weighted
	prior   float64
}

// weighted is a term's index with its weight in a sentence's unit vector. A sentence's terms ascend by index.
type weighted struct {
	term   int32
	weight float64
}

// sentenceGraph holds the sentences with their vectors.
type sentenceGraph struct {
	sentences []sentence
	terms     int
}

func newSentenceGraph(texts []string, split func(string) []string) *sentenceGraph {
	g := &sentenceGraph{}
	seen := map[string]bool{}
	for p, text := range texts {
		first := true
		for _, s := range split(text) {
			s = collapse(s)
			if s == "" || seen[s] {
				continue
			}
			seen[s] = true
			g.sentences = append(g.sentences, sentence{text: s, passage: p, first: first})
			first = false
		}
	}
	g.weigh()
	return g
}

// weigh gives each sentence its unit vector: sublinear term frequency, the class of the word, and inverse document
// frequency among the sentences at hand.
func (g *sentenceGraph) weigh() {
	index := make(map[uint64]int32)
	var df []int
	var classes []float64
	var buf []byte
	for i := range g.sentences {
		s := &g.sentences[i]
		words, function := 0, 0
		add := func(h uint64, class float64) {
			id, ok := index[h]
			if !ok {
				id = int32(len(df))
				index[h] = id
				df = append(df, 0)
				classes = append(classes, class)
			}
			for j := range s.terms { // sentences are short
				if s.terms[j].term == id {
					s.terms[j].weight++
					return
				}
			}
			df[id]++
			s.terms = append(s.terms, weighted{id, 1})
		}
		buf = word.EachTerm(s.text, buf, func(t word.Term) {
			if t.Kind != word.Wide {
				weight := t.Weight()
				words++
				if weight <= word.AmbiguousWeight && t.Kind == word.Word {
					function++
				}
				add(hashBytes(seedWord, t.Text), weight)
				return
			}
			words += (t.Runes + 1) / 2
			function += (t.Runes + 1) / 4
			var before rune
			for _, r := range string(t.Text) {
				if before != 0 || t.Runes == 1 {
					add(hashRune(hashRune(seedRune, before), r), 1)
				}
				before = r
			}
		})
		if len(s.terms) == 0 {
			add(hashBytes(seedGram, []byte(s.text)), 1)
		}
		s.prior = prior(s, words, function)
	}
	g.terms = len(df)
	n := float64(len(g.sentences))
	for i := range g.sentences {
		terms := g.sentences[i].terms
		slices.SortFunc(terms, func(a, b weighted) int { return int(a.term) - int(b.term) })
		var norm float64
		for j := range terms {
			id := terms[j].term
			terms[j].weight = tfWeight(int32(terms[j].weight)) * classes[id] * math.Log(1+n/float64(df[id]))
			norm += float64(terms[j].weight * terms[j].weight)
		}
		norm = 1 / math.Sqrt(norm)
		for j := range terms {
			terms[j].weight *= norm
		}
	}
}

// prior favors what reads as a sentence: not a fragment, a heading, a table, code or a question, and not endless. Lists and
// tables of contents give themselves away by the want of function words.
func prior(s *sentence, words, function int) float64 {
	p := 1.0
	if words >= 8 && 7*function < words {
		p *= 0.4
	}
	switch {
	case words < 4:
		p *= 0.2
	case words < 7:
		p *= 0.6
	case words > 60:
		p *= 0.6
	}
	letters, others := 0, 0
	for _, r := range s.text {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			letters++
		case !unicode.IsSpace(r):
			others++
		}
	}
	if letters < 3*others {
		p *= 0.4
	}
	last, _ := utf8.DecodeLastRuneInString(s.text)
	switch {
	case strings.ContainsRune("?？؟", last):
		p *= 0.5
	case unicode.IsLetter(last) || unicode.IsDigit(last) || last == ':':
		p *= 0.7
	}
	if s.first {
		p *= 1.1
	}
	return p
}

// rank returns each sentence's share of the walk, times its prior.
//
// With unit vectors a_i, similarity w_ij = a_i . a_j for i != j and degree r_i = sum_j w_ij, one step is
//
//	x'_j = (1-d)/n + d sum_i x_i w_ij / r_i = (1-d)/n + d (a_j . sum_i (x_i/r_i) a_i - x_j/r_j)
//
// which needs no w. A sentence that shares no term with any other hands its share to all.
func (g *sentenceGraph) rank() []float64 {
	n := len(g.sentences)
	sum := make([]float64, g.terms)
	for i := range g.sentences {
		for _, t := range g.sentences[i].terms {
			sum[t.term] += t.weight
		}
	}
	degree := make([]float64, n)
	for i := range g.sentences {
		degree[i] = g.dot(i, sum) - 1
	}
	x, next := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = 1 / float64(n)
	}
	const alone = 1e-9
	for range walkSteps {
		clear(sum)
		var lost float64
		for i := range g.sentences {
			if degree[i] <= alone {
				lost += x[i]
				continue
			}
			share := x[i] / degree[i]
			for _, t := range g.sentences[i].terms {
				sum[t.term] += float64(share * t.weight)
			}
		}
		var moved float64
		for j := range next {
			v := 0.0
			if degree[j] > alone {
				v = max(0, g.dot(j, sum)-x[j]/degree[j])
			}
			next[j] = (1-damping)/float64(n) + float64(damping*(v+lost/float64(n)))
			moved += math.Abs(next[j] - x[j])
		}
		x, next = next, x
		if moved < walkEnd {
			break
		}
	}
	for i := range x {
		x[i] *= g.sentences[i].prior
	}
	return x
}

func (g *sentenceGraph) dot(i int, dense []float64) float64 {
	var v float64
	for _, t := range g.sentences[i].terms {
		v += float64(t.weight * dense[t.term])
	}
	return v
}

// cosine merges two sentences' terms.
func (g *sentenceGraph) cosine(i, j int) float64 {
	a, b := g.sentences[i].terms, g.sentences[j].terms
	var v float64
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].term < b[0].term:
			a = a[1:]
		case a[0].term > b[0].term:
			b = b[1:]
		default:
			v += float64(a[0].weight * b[0].weight)
			a, b = a[1:], b[1:]
		}
	}
	return v
}

// join puts sentences together in the order of the passages, with a space where the script writes one.
func (g *sentenceGraph) join(chosen []int) string {
	order := slices.Clone(chosen)
	slices.Sort(order)
	var b strings.Builder
	for k, i := range order {
		s := g.sentences[i].text
		if k > 0 {
			last, _ := utf8.DecodeLastRuneInString(b.String())
			first, _ := utf8.DecodeRuneInString(s)
			if !isWideMark(last) || !word.IsWide(first) && !isWideMark(first) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

// isWideMark reports whether a rune carries its own space: ideographs, and the full-width punctuation after them.
func isWideMark(r rune) bool {
	return r >= 0x3000 && (word.IsWide(r) || r <= 0x303f || r >= 0xff00 && r <= 0xffef)
}

// collapse brings white space to single spaces.
func collapse(s string) string {
	if !strings.ContainsAny(s, "\n\t\r\v\f\u00a0\u3000") && !strings.Contains(s, "  ") {
		return strings.TrimSpace(s)
	}
	return strings.Join(strings.Fields(s), " ")
}
