package word

import (
	"unicode"
	"unicode/utf8"
)

// unspaced are the scripts that put no spaces between words, and Hangul, whose words carry endings.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Yi,
}

// isUnspaced reports whether a rune is a character of such a script.
func isUnspaced(r rune) bool { return r >= 0x0E00 && unicode.In(r, unspaced...) }

// IsASCII reports whether a text is plain ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
