package word

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version names the rules of [Segment]. A change of the rules needs a new number: an index that was fed under others is made anew
// from the texts, since entries can only be taken out by the words that put them in.
const Version = 1

// MaxBytes bounds a word, so that a megabyte of base64 is no word of a megabyte.
const MaxBytes = 96

// Segment writes the words of a text to a string, a space before each. Text is compared in NFKC, without case.
// A word is a run of letters, marks and digits. In scripts without spaces each pair of neighboring characters is
// a word, a character being a letter with its marks. What is indexed holds each character by itself too, so that
// a query of a single one finds it; a query of more asks for its pairs alone, since they say more.
func Segment(text string, query bool) string {
	if IsASCII(text) {
		return segmentASCII(text)
	}
	s := segmenter{query: query}
	s.out.Grow(len(text) + len(text)/2)
	for _, r := range fold(text) {
		s.add(r)
	}
	s.flush()
	return s.out.String()
}

type segmenter struct {
	query bool
	out   strings.Builder
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
	case isUnspaced(r):
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
		s.out.WriteByte(' ')
		s.out.WriteString(cut(string(s.word)))
		s.word = s.word[:0]
	}
}

func (s *segmenter) flushRun() {
	for i, c := range s.run {
		if !s.query || len(s.run) == 1 {
			s.out.WriteByte(' ')
			s.out.WriteString(cut(c))
		}
		if i > 0 {
			s.out.WriteByte(' ')
			s.out.WriteString(cut(s.run[i-1] + c))
		}
	}
	s.run = s.run[:0]
}

// cut shortens a word to MaxBytes, between runes.
func cut(word string) string {
	if len(word) <= MaxBytes {
		return word
	}
	n := MaxBytes
	for !utf8.RuneStart(word[n]) {
		n--
	}
	return word[:n]
}

// segmentASCII is Segment for plain ASCII, which most English text is, at a fraction of the cost.
func segmentASCII(text string) string {
	out := make([]byte, 0, len(text)+1)
	start := -1
	for i := 0; i <= len(text); i++ {
		var c byte
		if i < len(text) {
			c = text[i]
		}
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
		switch {
		case letter && start < 0:
			start = i
		case !letter && start >= 0:
			out = append(out, ' ')
			for _, b := range []byte(text[start:min(i, start+MaxBytes)]) {
				if b >= 'A' && b <= 'Z' {
					b += 'a' - 'A'
				}
				out = append(out, b)
			}
			start = -1
		}
	}
	return string(out)
}

// Query returns the distinct words of a query, in order.
func Query(text string) []string {
	seen := map[string]bool{}
	var words []string
	Each(text, func(word string) {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	})
	return words
}

// Each calls fn with each word of a text as a query asks for it, in order and with repeats. Words stay valid after the call.
func Each(text string, fn func(word string)) {
	for word := range strings.FieldsSeq(Segment(text, true)) {
		fn(word)
	}
}

// Count returns how many words Segment has returned.
func Count(words string) int { return strings.Count(words, " ") }
