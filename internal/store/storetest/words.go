package storetest

import (
	"math"
	"regexp"
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
		for _, w := range words(text, false) {
			counts[i][w]++
			lengths[i]++
		}
		mean += lengths[i] / float64(len(texts))
	}
	scores := make([]float64, len(texts))
	seen := map[string]bool{}
	for _, w := range words(query, true) {
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

// unseen are characters that take no part in comparing words, and marks that a reader may leave out.
var unseen = regexp.MustCompile(`[\p{Cf}\x{0300}-\x{036f}\x{0591}-\x{05c7}\x{0640}\x{064b}-\x{065f}\x{fe00}-\x{fe0f}]`)

// Names are words of their own beside the runs of letters and digits in them: whole by a sign or a dot in front, tied by dots, lines
// or "and" signs. A query for one of the first two doesn't ask for its letters.
var (
	signed  = regexp.MustCompile(`[\pL\pN]*\pL[\pL\pN]*(?:\+\+|[+#])`)
	dotted  = regexp.MustCompile(`(?:^|[^\pL\pN.])(\.\pL[\pL\pN]*)`)
	tied    = regexp.MustCompile(`[\pL\pN]+(?:[._&][\pL\pN]+)+`)
	version = regexp.MustCompile(`\bv([0-9]+(?:\.[0-9]+)+)`)
	hex     = regexp.MustCompile(`\b0x([0-9a-f]+)\b`)
	ending  = regexp.MustCompile(`[\pL\pN](\.\pL[\pL\pN]+)`)
)

// words returns the words of a text, in lower case: runs of letters and digits; names as they are; of scripts without spaces, every
// character by itself.
func words(text string, query bool) []string {
	text = norm.NFKD.String(unseen.ReplaceAllString(text, ""))
	text = norm.NFC.String(unseen.ReplaceAllString(cases.Fold().String(text), ""))
	var all []string
	names := []*regexp.Regexp{tied, version, hex}
	if !query {
		names = append(names, ending)
	}
	for _, re := range append(names, signed, dotted) {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			all = append(all, m[len(m)-1])
		}
	}
	if query {
		text = dotted.ReplaceAllString(signed.ReplaceAllString(text, " "), " ")
	}
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			all = append(all, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
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
