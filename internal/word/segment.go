package word

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version names the rules of [Segment]. A change of the rules needs a new number: an index that was fed under others is made anew
// from the texts, since entries can only be taken out by the words that put them in.
const Version = 2

// MaxBytes bounds a word, so that a megabyte of base64 is no word of a megabyte.
const MaxBytes = 96

// Symbols are the characters that are neither letters, marks nor digits and may stand in a word.
const Symbols = "+#._&"

// Segment writes the words of a text to a string, a space before each. Words are compared in NFKC, without case, marks that may be
// left out, and characters that aren't seen.
//
// A word is a run of letters, marks and digits. Runs that are tied by '.', '_' or '&' are a word together, besides each by itself:
// "max_retry_count", "v1.2.10" (and "1.2.10"), "AT&T", "a.example.com" (and ".com"). "C++", "C#" and ".NET" are words of their own: what
// is indexed holds their letters too, a query asks for the whole alone, since the letters are another name. Of "0x80070005" the digits
// are a word too.
//
// In scripts without spaces each pair of neighboring characters is a word, a character being a letter with its marks. What is indexed
// holds each character by itself too, so that a query of a single one finds it; a query of more asks for its pairs alone, since they
// say more.
func Segment(text string, query bool) string {
	s := segmenter{text: plain(text), query: query}
	s.out.Grow(len(text) + len(text)/2)
	for s.at < len(s.text) {
		s.next()
	}
	s.flushRun()
	return s.out.String()
}

type segmenter struct {
	text  string // in plain form
	at    int    // what is before it was read
	query bool
	out   strings.Builder
	run   []string // the run of characters of unspaced scripts being read
}

func (s *segmenter) next() {
	r, size := s.rune(s.at)
	switch {
	case len(s.run) > 0 && unicode.In(r, unicode.M):
		s.run[len(s.run)-1] += s.text[s.at : s.at+size]
		s.at += size
	case isUnspaced(r) && !unicode.In(r, unicode.M):
		s.run = append(s.run, s.text[s.at:s.at+size])
		s.at += size
	case inWord(r):
		s.flushRun()
		s.name(s.at)
	case r == '.' && s.leads():
		s.flushRun()
		s.name(s.at + 1)
	default:
		s.flushRun()
		s.at += size
	}
}

// rune returns the rune at a place; 0 at the end.
func (s *segmenter) rune(at int) (rune, int) {
	if at >= len(s.text) {
		return 0, 0
	}
	if c := s.text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s.text[at:])
}

// inWord reports whether a rune belongs to a word of a script that writes spaces.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M) && (!isUnspaced(r) || unicode.In(r, unicode.M))
}

// leads reports whether the full stop that comes next begins a name such as ".net".
func (s *segmenter) leads() bool {
	before, _ := utf8.DecodeLastRuneInString(s.text[:s.at])
	after, _ := s.rune(s.at + 1)
	return before != '.' && !inWord(before) && unicode.IsLetter(after) && inWord(after)
}

// name reads runs that are tied together, the first of which begins at a place, and writes their words.
func (s *segmenter) name(from int) {
	dot := from > s.at
	start := from
	var parts [][2]int
	for {
		end := s.runEnd(from)
		parts = append(parts, [2]int{from, end})
		next, tied := s.tie(end)
		if !tied {
			s.at = end
			break
		}
		from = next
	}
	last := parts[len(parts)-1]
	sign := s.sign(last[0], last[1])
	s.at += len(sign)
	for i, p := range parts {
		part := s.text[p[0]:p[1]]
		if !s.query || !(dot && i == 0) && !(sign != "" && i == len(parts)-1) {
			s.emit(part)
		}
		if digits, ok := hexDigits(part); ok {
			s.emit(digits)
		}
	}
	first := parts[0]
	if dot {
		s.emit(s.text[first[0]-1 : first[1]])
	}
	if sign != "" {
		s.emit(s.text[last[0] : last[1]+len(sign)])
	}
	if len(parts) > 1 {
		s.tied(parts, s.text[start:last[1]+len(sign)])
	}
}

// tied writes the words of several runs together; whole is all of them.
func (s *segmenter) tied(parts [][2]int, whole string) {
	if len(whole) > MaxBytes {
		return // a list or a path: its parts say enough
	}
	s.emit(whole)
	if strings.ContainsAny(whole, "_&") && strings.Contains(whole, ".") {
		for group := range strings.SplitSeq(whole, ".") {
			if strings.ContainsAny(group, "_&") {
				s.emit(group)
			}
		}
	}
	if first := s.text[parts[0][0]:parts[0][1]]; len(first) > 1 && first[0] == 'v' && isDigits(first[1:]) {
		s.emit(whole[1:])
	}
	last := parts[len(parts)-1]
	if r, _ := s.rune(last[0]); !s.query && s.text[last[0]-1] == '.' && last[1]-last[0] > 1 && unicode.IsLetter(r) {
		s.emit(s.text[last[0]-1 : last[1]])
	}
}

// runEnd returns where the run of letters, marks and digits at a place ends.
func (s *segmenter) runEnd(at int) int {
	for {
		r, size := s.rune(at)
		if !inWord(r) {
			return at
		}
		at += size
	}
}

// tie returns where the next run begins if what stands at a place ties it to the one before.
func (s *segmenter) tie(at int) (next int, ok bool) {
	r, _ := s.rune(at)
	if r != '.' && r != '_' && r != '&' {
		return 0, false
	}
	for next = at + 1; r == '_' && next < len(s.text) && s.text[next] == '_'; next++ {
	}
	after, _ := s.rune(next)
	return next, inWord(after)
}

// sign returns the "+", "++" or "#" after a run that is part of its name. Before another run it is an operator or a fragment, but for
// "++" as in "C++11".
func (s *segmenter) sign(from, end int) string {
	rest := s.text[end:]
	sign := rest[:len(rest)-len(strings.TrimLeft(rest, "+#"))]
	after, _ := s.rune(end + len(sign))
	if sign != "+" && sign != "++" && sign != "#" || inWord(after) && sign != "++" {
		return ""
	}
	if strings.IndexFunc(s.text[from:end], unicode.IsLetter) < 0 {
		return "" // "65+"
	}
	return sign
}

// hexDigits returns the digits of a number such as 0x80070005.
func hexDigits(part string) (string, bool) {
	digits, ok := strings.CutPrefix(part, "0x")
	return digits, ok && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func (s *segmenter) emit(word string) {
	s.out.WriteByte(' ')
	s.out.WriteString(cut(word))
}

func (s *segmenter) flushRun() {
	for i, c := range s.run {
		if !s.query || len(s.run) == 1 {
			s.emit(c)
		}
		if i > 0 {
			s.emit(s.run[i-1] + c)
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
