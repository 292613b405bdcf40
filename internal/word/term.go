package word

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Kind says what a term is.
type Kind uint8

const (
	Word   Kind = iota // a word of a script that writes spaces
	Number             // a word that begins with a digit
	Wide               // a run of a script that writes none: its characters, not it, are the terms
)

// Term is a run of letters, digits and marks in folded text.
type Term struct {
	Text  []byte // folded
	Kind  Kind
	Runes int
}

// fold brings a text into the form in which terms are compared: compatibility composition, then full case folding.
func fold(text string) string {
	if IsASCII(text) {
		return text // terms lower ASCII letters as they go, which is cheaper
	}
	return cases.Fold().String(norm.NFKC.String(text))
}

// EachTerm calls fn for each term of a text, in order. The term's text is valid during the call only. buf is working
// memory, and is returned to be used again.
func EachTerm(text string, buf []byte, fn func(Term)) []byte {
	folded := fold(text)
	for i := 0; i < len(folded); {
		kind, ok := kindAt(folded[i:])
		if !ok {
			_, size := utf8.DecodeRuneInString(folded[i:])
			i += size
			continue
		}
		var runes, size int
		buf, runes, size = appendTerm(buf[:0], folded[i:], kind)
		i += size
		fn(Term{Text: buf, Kind: kind, Runes: runes})
	}
	return buf
}

// kindAt returns the kind of the term that a text begins with; false if it begins with none.
func kindAt(s string) (Kind, bool) {
	c := s[0]
	if c < utf8.RuneSelf {
		if '0' <= c && c <= '9' {
			return Number, true
		}
		return Word, isASCIIWord(c)
	}
	r, _ := utf8.DecodeRuneInString(s)
	if IsWide(r) {
		return Wide, isWordRune(r)
	}
	return Word, isWordRune(r)
}

// appendTerm appends the term that a text begins with, ASCII letters in lower case. It returns its length in runes and,
// of the text, in bytes: a term has one character at least.
func appendTerm(buf []byte, s string, kind Kind) (out []byte, runes, size int) {
	for size < len(s) {
		c := s[size]
		if c < utf8.RuneSelf {
			if !isASCIIWord(c) || kind == Wide {
				break
			}
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			buf = append(buf, c)
			size++
			runes++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[size:])
		if !isWordRune(r) || IsWide(r) != (kind == Wide) && !unicode.IsMark(r) {
			break
		}
		buf = append(buf, s[size:size+n]...)
		size += n
		runes++
	}
	return buf, runes, size
}

func isASCIIWord(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z'
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// IsWide reports whether a rune is of a script that puts no spaces between words, as the embedder sees it: the vectors that it made
// under this table are kept, so it stays as it is, without Hangul, Bopomofo, Tibetan and Yi.
func IsWide(r rune) bool {
	switch {
	case r < 0x0e00:
		return false
	case r <= 0x0eff, // Thai, Lao
		r >= 0x1000 && r <= 0x109f,   // Myanmar
		r >= 0x1780 && r <= 0x17ff,   // Khmer
		r >= 0x3005 && r <= 0x30ff,   // iteration mark, Hiragana, Katakana
		r >= 0x3400 && r <= 0x4dbf,   // Han, extension A
		r >= 0x4e00 && r <= 0x9fff,   // Han
		r >= 0xf900 && r <= 0xfaff,   // Han, compatibility
		r >= 0x20000 && r <= 0x3ffff: // Han, further extensions
		return true
	}
	return false
}
