package corpus

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/words"
)

// A sentence over the budget is cut at the first of these levels that yields parts within it, each part for itself.
const (
	atLine     = iota // rows only: at line breaks
	atClause          // after a comma, a colon, a dash
	atSpace           // at white space, which also parts the sentences of Thai
	atWord            // between words, by the Unicode rules
	atGrapheme        // between characters as people see them
	atRune            // when one of those alone is over the budget
)

// cutter cuts spans of a text into parts within a budget.
type cutter struct {
	text    string
	budget  int
	counter *Counter
}

// cut appends to dst the parts of s, which is over the budget, from a level on. Every part is within the budget, unless it
// is a single rune.
func (c *cutter) cut(dst []span, s span, level int) []span {
	parts := c.parts(s, level)
	for level < atRune && len(parts) == 1 {
		level++
		parts = c.parts(s, level)
	}
	if level == atRune {
		return append(dst, parts...)
	}
	for _, p := range parts {
		if c.counter.Count(c.text[p.start:p.end]) <= c.budget {
			dst = append(dst, p)
		} else {
			dst = c.cut(dst, p, level+1)
		}
	}
	return dst
}

// parts cuts s at every boundary of one level. Small parts of the lower levels are put together until they make up an eighth of the
// budget, so that a text of megabytes without any mark doesn't become millions of parts.
func (c *cutter) parts(s span, level int) []span {
	text := c.text[s.start:s.end]
	var out []span
	from, sum := 0, 0
	emit := func(to int) {
		out = appendTrimmed(out, text[from:to], s.start+from)
		from, sum = to, 0
	}
	small := max(1, c.budget/8)
	group := func(to, last int) { // the part text[last:to] ends at to
		n := c.counter.Count(text[last:to])
		if sum > 0 && sum+n > small {
			emit(last)
		}
		sum += n
		if sum > small {
			emit(to)
		}
	}
	switch level {
	case atLine:
		for i := 0; i < len(text); i++ {
			if text[i] == '\n' {
				emit(i + 1)
			}
		}
	case atClause:
		clauses(text, emit)
	case atSpace:
		spaces(text, group)
	case atWord:
		for it := words.FromString(text); it.Next(); {
			group(it.End(), it.Start())
		}
	case atGrapheme:
		for it := graphemes.FromString(text); it.Next(); {
			group(it.End(), it.Start())
		}
	case atRune:
		for i, r := range text {
			group(i+utf8.RuneLen(r), i)
		}
	}
	emit(len(text))
	return out
}

// spaces calls group with each word of a text and the white space before it, unless there is only one.
func spaces(text string, group func(to, last int)) {
	last, inSpace := 0, true
	for i, r := range text {
		space := unicode.IsSpace(r)
		if space && !inSpace {
			group(i, last)
			last = i
		}
		inSpace = space
	}
	if last > 0 {
		group(len(text), last)
	}
}

// clauses calls emit at the end of every clause. A mark of ASCII counts before white space only: "1,000", "12:30".
func clauses(text string, emit func(int)) {
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		switch {
		case strings.ContainsRune("，、；：。！？…‥—–،؛。､།༎။៖፣፤", r):
		case strings.ContainsRune(",;:.!?", r):
			next, _ := utf8.DecodeRuneInString(text[end+closers(text[end:]):])
			if !unicode.IsSpace(next) {
				continue
			}
		default:
			continue
		}
		end += closers(text[end:])
		next, _ := utf8.DecodeRuneInString(text[end:])
		if end < len(text) && !strings.ContainsRune("，、；：。！？…‥—–,;:.!?", next) {
			emit(end)
		}
	}
}
