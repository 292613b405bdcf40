package corpus

import (
	"strings"
	"unicode/utf8"
)

// kind says what a block is.
type kind uint8

const (
	prose   kind = iota // sentences, over one line or several
	heading             // with its underline
	item                // a list item up to the first blank line
	rows                // code, a table, a list of fields: every line stands for itself
)

// block is a run of lines of one kind.
type block struct {
	kind   kind
	lo, hi int  // lines
	code   bool // rows that are code, whose indentation means something
	leads  bool // it announces the code that follows
	alone  bool // one short line between blank ones without a full stop: most likely a title
}

// blocks finds the structure of a text, by what Markdown, reStructuredText and plain text have in common: nobody says which of
// them a text is. A guess that is wrong costs a cut at a poor place, never a character.
type blocks struct {
	text  string
	lines []line
	out   []block

	unclosed map[byte]int // length of a fence that nothing closes, by character
	openEnd  bool         // a table border that no other follows was found
	literal  int          // indentation that ends the literal block announced by "::", -1 if none was
}

func findBlocks(text string) ([]line, []block) {
	b := blocks{text: text, lines: lines(text), unclosed: map[byte]int{}, literal: -1}
	for i := 0; i < len(b.lines); {
		i = b.next(i)
	}
	return b.lines, b.out
}

// at returns the text of line i without its indentation.
func (b *blocks) at(i int) string { return b.text[b.lines[i].first:b.lines[i].end] }

// runs reports whether line i exists and follows the one before without a blank line.
func (b *blocks) runs(i int) bool { return i < len(b.lines) && !b.lines[i].gap }

func (b *blocks) add(k kind, lo, hi int, code bool) int {
	b.out = append(b.out, block{kind: k, lo: lo, hi: hi, code: code})
	return hi
}

// next adds the block that starts at line i and returns the line after it.
func (b *blocks) next(i int) int {
	s := b.at(i)
	literal := b.literal
	b.literal = -1
	if literal >= 0 && b.lines[i].indent > literal {
		return b.add(rows, i, b.dedent(i, literal), true)
	}
	if hi := b.fenced(i, s); hi > 0 {
		return b.add(rows, i, hi, true)
	}
	if isHeading(s) {
		return b.add(heading, i, i+1, false)
	}
	if hi := b.underlined(i, s); hi > 0 {
		return b.add(heading, i, hi, false)
	}
	if hi := b.table(i, s); hi > 0 {
		return b.add(rows, i, hi, false)
	}
	if strings.HasPrefix(s, ">>> ") {
		return b.add(rows, i, b.until(i+1, nil), true)
	}
	k := prose
	if marker(s) > 0 {
		k = item
	}
	hi := b.until(i+1, func(j int) bool { return b.interrupts(j, k == item, b.lines[i].indent) })
	b.announce(i, hi)
	return b.paragraph(k, i, hi)
}

// until returns the first line from i on that a blank line precedes or for which stop holds.
func (b *blocks) until(i int, stop func(int) bool) int {
	for b.runs(i) && (stop == nil || !stop(i)) {
		i++
	}
	return i
}

// dedent returns the first line from i on that isn't indented by more than a number of columns.
func (b *blocks) dedent(i, columns int) int {
	for i < len(b.lines) && b.lines[i].indent > columns {
		i++
	}
	return i
}

// interrupts reports whether a line ends the paragraph before it without a blank line; inItem and indent say what that is.
func (b *blocks) interrupts(i int, inItem bool, indent int) bool {
	s := b.at(i)
	if n := marker(s); n > 0 && n < len(s) && (opensList(s) || inItem && b.lines[i].indent <= indent) {
		return true
	}
	if char, _ := fence(s); char != 0 {
		return true
	}
	char, _ := rule(s)
	return char != 0 || isHeading(s) || isTableRow(s) || isBorder(s)
}

// fenced returns the line after the code fence that line i opens, or 0.
func (b *blocks) fenced(i int, s string) int {
	char, n := fence(s)
	if char == 0 {
		return 0
	}
	if m, ok := b.unclosed[char]; ok && n >= m {
		return 0
	}
	for j := i + 1; j < len(b.lines); j++ {
		t := b.at(j)
		if c, m := fence(t); c == char && m >= n && len(t) == m {
			return j + 1
		}
	}
	b.unclosed[char] = n // spares the search for the next one
	return 0
}

// underlined returns the line after the heading that line i starts, with a line of "=", "-" or the like below it and perhaps above,
// or 0. A rule that stands alone is a heading of its own: it separates too.
func (b *blocks) underlined(i int, s string) int {
	if char, _ := rule(s); char != 0 {
		if b.runs(i+1) && b.runs(i+2) {
			if c, _ := rule(b.at(i + 2)); c == char {
				if d, _ := rule(b.at(i + 1)); d == 0 {
					return i + 3
				}
			}
		}
		return i + 1
	}
	if !b.runs(i+1) || marker(s) > 0 {
		return 0
	}
	_, n := rule(b.at(i + 1))
	if n == 0 || 2*n < utf8.RuneCountInString(s) && n < 20 {
		return 0
	}
	return i + 2
}

// table returns the line after the table that line i starts, or 0.
func (b *blocks) table(i int, s string) int {
	switch {
	case isTableRow(s):
		return b.until(i+1, func(j int) bool { return !isTableRow(b.at(j)) })
	case strings.Contains(s, "|") && b.runs(i+1) && isDelimiterRow(b.at(i+1)):
		return b.until(i+2, func(j int) bool { return !strings.Contains(b.at(j), "|") })
	case isBorder(s) && !b.openEnd:
		for j := i + 1; j < len(b.lines); j++ {
			if isBorder(b.at(j)) && !b.runs(j+1) {
				return j + 1
			}
		}
		b.openEnd = true
	}
	return 0
}

// announce notes whether the paragraph lo <= i < hi says that a literal block follows, as reStructuredText does.
func (b *blocks) announce(lo, hi int) {
	s := b.at(hi - 1)
	directive, ok := strings.CutPrefix(b.at(lo), ".. ")
	switch {
	case !ok && strings.HasSuffix(s, "::"):
		b.literal = b.lines[lo].indent
	case ok && isCodeDirective(directive):
		b.literal = b.lines[lo].indent
	}
}

func isCodeDirective(s string) bool {
	name, _, ok := strings.Cut(s, "::")
	if !ok {
		return false
	}
	switch strings.TrimSpace(name) {
	case "code", "code-block", "sourcecode", "parsed-literal", "math", "productionlist", "doctest", "testcode", "graphviz", "csv-table":
		return true
	}
	return false
}

// paragraph adds the lines lo <= i < hi, which no rule above has claimed.
func (b *blocks) paragraph(k kind, lo, hi int) int {
	code, fields := 0, 0
	for i := lo; i < hi; i++ {
		s := b.at(i)
		if looksLikeCode(s) {
			code++
		}
		if field(s) || b.lines[i].indent > b.lines[lo].indent {
			fields++
		}
	}
	n := hi - lo
	indented := b.lines[lo].indent >= 4
	switch {
	case k == prose && (n >= 2 && 10*code >= 6*n || indented && 10*code >= 4*n && code > 0):
		return b.add(rows, lo, hi, true)
	case k == prose && n >= 2 && fields == n && field(b.at(lo)) && field(b.at(hi-1)):
		return b.add(rows, lo, hi, false)
	}
	b.add(k, lo, hi, false)
	last := &b.out[len(b.out)-1]
	last.leads = b.literal >= 0
	last.alone = k == prose && n == 1 && b.lines[lo].gap && !b.runs(hi) && isTitle(b.at(lo))
	return hi
}

// isTitle reports whether a line that stands alone reads like a title: short, and without the mark that ends a sentence.
func isTitle(s string) bool {
	if utf8.RuneCountInString(s) > 80 {
		return false
	}
	r, _ := utf8.DecodeLastRuneInString(s)
	return !strings.ContainsRune(".!?。！？…।؟؛;,，；)\"”」", r)
}
