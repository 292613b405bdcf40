package corpus

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// span is a part of a text, by bytes.
type span struct{ start, end int }

// longestRun is the number of runes that are neither letter nor digit after which a sentence is ended by force. The
// Unicode rules look ahead over such runs again and again, so that a long one would cost its length squared.
const longestRun = 256

// sentencesOf appends the sentences of a paragraph to dst: spans of text from start to end without the white space around them. flat is a
// copy of the paragraph with every line break replaced by blanks, so that wrapped lines don't end sentences.
func sentencesOf(dst []span, flat string, start int) []span {
	from := 0
	for from < len(flat) {
		to := from + runLength(flat[from:])
		dst = segments(dst, flat[from:to], start+from)
		from = to
	}
	return dst
}

// runLength returns how much of s can be handed to the segmenter at once.
func runLength(s string) int {
	n := 0
	for i, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n = 0
			continue
		}
		if n++; n == longestRun {
			return i + utf8.RuneLen(r)
		}
	}
	return len(s)
}

// segments cuts by the Unicode rules (UAX #29) and puts together what they part wrongly.
func segments(dst []span, s string, start int) []span {
	open := 0 // where the sentence that isn't over yet begins
	for it := sentences.FromString(s); it.Next(); {
		end := openers(s[open:it.End()]) + open
		if end == open || it.End() < len(s) && goesOn(s[open:end], s[end:]) {
			continue
		}
		dst = semicolons(dst, s[open:end], start+open)
		open = end
	}
	return appendTrimmed(dst, s[open:], start+open)
}

// openers returns where the opening quotes and brackets at the end of s begin. The Unicode rules take them for closing ones where no
// blank stands before them, as in "。「".
func openers(s string) int {
	return len(strings.TrimRightFunc(s, func(r rune) bool { return unicode.In(r, unicode.Ps, unicode.Pi) }))
}

// semicolons appends a sentence, cut after each full-width semicolon: Chinese ends a sentence with it where others set a full stop.
func semicolons(dst []span, s string, start int) []span {
	const mark = "；"
	for {
		i := strings.Index(s, mark)
		if i < 0 {
			return appendTrimmed(dst, s, start)
		}
		end := i + len(mark)
		end += closers(s[end:])
		dst = appendTrimmed(dst, s[:end], start)
		s, start = s[end:], start+end
	}
}

// closers returns the length of the closing quotes and brackets at the start of s.
func closers(s string) int {
	for i, r := range s {
		if !strings.ContainsRune("\"'”’»›」』）)】〕》〉]", r) {
			return i
		}
	}
	return len(s)
}

func appendTrimmed(dst []span, s string, start int) []span {
	left := strings.TrimLeftFunc(s, unicode.IsSpace)
	start += len(s) - len(left)
	if s = strings.TrimRightFunc(left, unicode.IsSpace); s == "" {
		return dst
	}
	return append(dst, span{start, start + len(s)})
}

// goesOn reports whether the sentence that begins with head has not ended where the Unicode rules say so. Joining too much
// makes a longer sentence; joining too little would cut one. In doubt it goes on.
func goesOn(head, tail string) bool {
	if strings.HasSuffix(head, "]") && (strings.HasPrefix(tail, "(") || strings.HasPrefix(tail, "[")) {
		return true // the target of a Markdown link
	}
	body := strings.TrimRightFunc(head, unicode.IsSpace)
	spaced := len(body) < len(head)
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(tail, "\"'“‘«([{*_`"))
	stripped := strings.TrimRight(body, "\"'”’»)]}*_`")
	mark, size := utf8.DecodeLastRuneInString(stripped)
	if mark != '.' && mark != '!' && mark != '?' {
		return false
	}
	if !spaced {
		// "foo().Bar", "?q=1": inside a name, save where a script without blanks follows.
		return !unicode.In(next, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
	}
	if unicode.IsLower(next) {
		return true // "Yahoo! is", "“Why?” she asked": only '.' is held by the Unicode rules
	}
	if mark != '.' || len(stripped) < len(body) && !strings.HasSuffix(body, ".") {
		return false
	}
	return abbreviated(stripped[:len(stripped)-size], next)
}
