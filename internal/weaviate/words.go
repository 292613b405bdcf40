package weaviate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// unspaced are the scripts that put no spaces between words, and Hangul, whose words carry endings.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Yi,
}

// segment returns the words of a text. Text is compared in NFKC, without case. A word is a run of letters, marks and
// digits. In scripts without spaces each pair of neighboring characters is a word, a character being a letter with its
// marks. What is indexed holds each character by itself too, so that a query of a single one finds it; a query of more
// asks for its pairs alone, since they say more.
func segment(text string, query bool) []string {
	s := segmenter{query: query}
	for _, r := range cases.Fold().String(norm.NFKC.String(text)) {
		s.add(r)
	}
	s.flush()
	return s.out
}

type segmenter struct {
	query bool
	out   []string
	word  []byte   // the run of letters and digits being read
	run   []string // the run of characters of unspaced scripts being read
}

func (s *segmenter) add(r rune) {
	switch {
	case unicode.In(r, unicode.M):
		if n := len(s.run); n > 0 {
			s.run[n-1] += string(r)
		} else {
			s.word = utf8.AppendRune(s.word, r)
		}
	case r >= 0x0E00 && unicode.In(r, unspaced...):
		s.flushWord()
		s.run = append(s.run, string(r))
	case unicode.In(r, unicode.L, unicode.N):
		s.flushRun()
		s.word = utf8.AppendRune(s.word, r)
	default:
		s.flush()
	}
}

func (s *segmenter) flush() {
	s.flushWord()
	s.flushRun()
}

func (s *segmenter) flushWord() {
	if len(s.word) > 0 {
		s.out = append(s.out, string(s.word))
		s.word = s.word[:0]
	}
}

func (s *segmenter) flushRun() {
	for i, c := range s.run {
		if !s.query || len(s.run) == 1 {
			s.out = append(s.out, c)
		}
		if i > 0 {
			s.out = append(s.out, s.run[i-1]+c)
		}
	}
	s.run = s.run[:0]
}

// serverWords returns the words that the server's tokenization "word" finds in a text.
func serverWords(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	return words
}

// missedWords returns the words of a text that the server's own tokenization doesn't find, as the property words holds
// them; empty for most text in English. Words that both find are left out, since they would count twice.
func missedWords(text string) string {
	if isASCII(text) {
		return ""
	}
	found := map[string]bool{}
	for _, word := range serverWords(text) {
		found[word] = true
	}
	missed := slices.DeleteFunc(segment(text, false), func(word string) bool { return found[word] })
	return strings.Join(missed, " ")
}

// queryWords returns the distinct words of a query, in order.
func queryWords(text string) []string {
	seen := map[string]bool{}
	var words []string
	for _, word := range segment(text, true) {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// torn reports whether the server's tokenization tears one of these words apart, as it does at the vowel signs of Hindi:
// it then finds texts that hold parts of it alone.
func torn(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	})
}

// holdsAny reports whether a text holds one of the words.
func holdsAny(text string, words []string) bool {
	return slices.ContainsFunc(segment(text, false), func(word string) bool { return slices.Contains(words, word) })
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
