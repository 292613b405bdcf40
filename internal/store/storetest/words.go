package storetest

import (
	"math"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// bm25 scores texts against the words of a query: for each of its distinct words
//
//	log(1 + (N - n + 1/2)/(n + 1/2)) · f(k+1) / (f + k(1 - b + b·len/mean)),  k = 1.2, b = 0.75,
//
// with N texts of which n hold the word, f times this one, len words long (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework: BM25 and Beyond", 2009, eq. 3.15). 0 means that no word matches.
func bm25(texts []string, query string) []float64 {
	const k, b = 1.2, 0.75
	counts := make([]map[string]int, len(texts))
	lengths := make([]float64, len(texts))
	mean := 0.0
	for i, text := range texts {
		counts[i] = map[string]int{}
		for _, w := range words(text) {
			counts[i][w]++
			lengths[i]++
		}
		mean += lengths[i] / float64(len(texts))
	}
	scores := make([]float64, len(texts))
	seen := map[string]bool{}
	for _, w := range words(query) {
		if seen[w] {
			continue
		}
		seen[w] = true
		n := 0.0
		for _, c := range counts {
			if c[w] > 0 {
				n++
			}
		}
		idf := math.Log(1 + (float64(len(texts))-n+0.5)/(n+0.5))
		for i, c := range counts {
			if f := float64(c[w]); f > 0 {
				scores[i] += idf * f * (k + 1) / (f + k*(1-b+b*lengths[i]/mean))
			}
		}
	}
	return scores
}

// unspaced are scripts that put no spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// words returns the words of a text, in lower case: runs of letters and digits; of scripts without spaces, every
// character by itself.
func words(text string) []string {
	var all []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			all = append(all, word.String())
			word.Reset()
		}
	}
	for _, r := range cases.Fold().String(norm.NFKC.String(text)) {
		switch {
		case unicode.In(r, unspaced...):
			flush()
			all = append(all, string(r))
		case unicode.In(r, unicode.L, unicode.N, unicode.M):
			word.WriteRune(r)
		default:
			flush()
		}
	}
	flush()
	return all
}
