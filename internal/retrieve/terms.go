package retrieve

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// unspaced are the scripts that are written without spaces between words. Unicode's word boundaries cut them into
// single characters, which say too little: their terms are pairs of neighbors, as in most search engines.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// EachTerm calls fn for every term of a text, in order and with repeats, as packing by coverage sees them: words
// with a letter or a digit, in lower case and compatibility form, without an English possessive; of scripts that
// are written without spaces, pairs of neighboring characters.
func EachTerm(text string, fn func(string)) {
	text = fold(text)
	previous := "" // the last character of a run in an unspaced script
	alone := false // it has been in no pair yet
	flush := func() {
		if alone {
			fn(previous)
		}
		previous, alone = "", false
	}
	for it := words.FromString(text); it.Next(); {
		word := it.Value()
		first, _ := utf8.DecodeRuneInString(word)
		switch {
		case first >= utf8.RuneSelf && unicode.In(first, unspaced...):
			if previous != "" {
				fn(previous + word)
			}
			alone = previous == ""
			previous = word
		case !isWord(word):
			flush()
		default:
			flush()
			fn(strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s"))
		}
	}
	flush()
}

// fold returns the text in lower case and, unless it is ASCII, in compatibility form (NFKC), so that full-width
// letters and ligatures compare equal to plain ones.
func fold(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return strings.ToLower(norm.NFKC.String(text))
		}
	}
	return strings.ToLower(text)
}

// isWord reports whether a segment holds a letter or a digit.
func isWord(segment string) bool {
	for _, r := range segment {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return true
		}
	}
	return false
}
