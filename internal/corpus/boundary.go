package corpus

import (
	"unicode"
	"unicode/utf8"
)

// class is what the tokenizer's regular expression distinguishes, as far as boundaries need it.
type class uint8

const (
	other   class = iota // punctuation, symbols, controls
	upper                // \p{Lu} \p{Lt}
	lower                // \p{Ll}
	letter               // \p{Lm} \p{Lo}
	mark                 // \p{M}
	number               // \p{N}
	blank                // ' '
	newline              // \r \n
	space                // other white space
	quote                // ', which may open a contraction such as 's
)

// classes of ASCII.
const asciiClasses = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x07\x08\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x06\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x00\x00\x00\x00\x00\x00" +
	"\x00\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x00\x00\x00\x00\x00" +
	"\x00\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x00\x00\x00\x00\x00"

func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		return class(asciiClasses[r])
	case r >= 0x4e00 && r < 0x9fff, r >= 0xac00 && r < 0xd7a3, r >= 0x3041 && r < 0x3097: // Han, Hangul, hiragana
		return letter
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.In(r, unicode.Lo, unicode.Lm):
		return letter
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	case unicode.IsSpace(r), r == 0x180e: // which older tables count as white space
		return space
	}
	return other
}

func isLetter(c class) bool { return c >= upper && c <= letter }

func isSpace(c class) bool { return c >= blank && c <= space }

// nextPiece returns the length of the first piece of a text, at least one rune: it ends before the first [boundary].
func nextPiece(text string) int {
	r, i := rune(text[0]), 1
	if r >= utf8.RuneSelf {
		r, i = utf8.DecodeRuneInString(text)
	}
	last := classOf(r)
	word := isLetter(last)
	for i < len(text) {
		size := 1
		r = rune(text[i])
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		next := classOf(r)
		if boundary(last, next, word) && !(last == newline && r == '/') {
			return i
		}
		word = isLetter(next) || next == mark && word
		last = next
		i += size
	}
	return len(text)
}

// boundary reports whether the tokenizer certainly cuts between two runes, so that the parts can be counted one by one. word
// says that the first belongs to a run of letters with their marks. The expression is
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
//
// and a cut is certain where no alternative can match across it and none that ends at it looks beyond it. Only the last but one
// looks ahead, so the first rune must not be white space, save for a newline, which the one before takes first.
func boundary(last, next class, word bool) bool {
	switch {
	case isSpace(last):
		// A newline ends its run before anything but white space and, after punctuation, '/' (see nextPiece).
		return last == newline && !isSpace(next)
	case next == blank:
		return true // a blank only starts a match, or stands in one of white space alone
	case last == number || next == number:
		return last != next // digits match among themselves only
	case last == lower && next == upper:
		return true
	case word:
		// After letters come letters, marks or a contraction.
		return !isLetter(next) && next != mark && next != quote
	}
	return false
}
