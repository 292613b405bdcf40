package corpus

import (
	"cmp"
	"slices"
	"strings"
)

// contextTokens is how many tokens the context of a chunk may have.
const contextTokens = 40

// between stands between the headings of a context.
const between = " › "

// title is a heading with its depth, from 1.
type title struct {
	text  string
	level int
}

// outline follows the headings of a text.
type outline struct {
	path   []title
	styles []string // of underlined headings, in the order in which they came: the first is the outermost
}

// contexts gives each chunk of a part of a text its context: the headings that it stands under but doesn't hold, and if it begins within
// a table the table's head.
func (o *outline) contexts(p *packer, chunks []Chunk, ls []line, bs []block) {
	next := 0 // block
	for i := range chunks {
		c := &chunks[i]
		for ; next < len(bs) && ls[bs[next].lo].first < c.Start; next++ {
			o.pass(p.text, ls, bs[next])
		}
		var head string
		if next > 0 {
			if b := bs[next-1]; b.kind == rows && !b.code && ls[b.hi-1].end > c.Start {
				head = tableHead(p.text, ls, b, c.Start)
			}
		}
		path := o.path
		if next < len(bs) && bs[next].kind == heading && ls[bs[next].lo].first == c.Start { // its own heading says what is above it
			if own, ok := o.title(p.text, ls, bs[next]); ok {
				path = above(path, own.level)
			}
		}
		c.Context = p.context(path, head)
	}
	for ; next < len(bs); next++ {
		o.pass(p.text, ls, bs[next])
	}
}

// pass takes a block as read.
func (o *outline) pass(text string, ls []line, b block) {
	if b.kind != heading {
		return
	}
	if t, ok := o.title(text, ls, b); ok {
		o.path = append(above(o.path, t.level), t)
	}
}

// above returns the headings that one of a level stands under.
func above(path []title, level int) []title {
	end := slices.IndexFunc(path, func(t title) bool { return t.level >= level })
	if end < 0 {
		return slices.Clip(path)
	}
	return slices.Clip(path[:end])
}

// title reads a heading; false for a rule that stands alone.
func (o *outline) title(text string, ls []line, b block) (title, bool) {
	at := func(i int) string { return strings.TrimSpace(text[ls[i].first:ls[i].end]) }
	first := at(b.lo)
	if b.hi-b.lo == 1 {
		if !isHeading(first) {
			return title{}, false
		}
		words := strings.TrimLeft(first, "#")
		t := title{plainTitle(strings.TrimRight(words, "# \t")), len(first) - len(words)}
		return t, t.text != ""
	}
	style, words := at(b.hi - 1)[:1], first
	if b.hi-b.lo == 3 {
		style, words = style+style, at(b.lo+1)
	}
	level := slices.Index(o.styles, style)
	if level < 0 {
		level = len(o.styles)
		o.styles = append(o.styles, style)
	}
	t := title{plainTitle(words), level + 1}
	return t, t.text != ""
}

// plainTitle is a heading without the marks of emphasis and code, and without the attributes that some put behind it.
func plainTitle(s string) string {
	if i := strings.LastIndex(s, "{#"); i > 0 && strings.HasSuffix(s, "}") {
		s = s[:i]
	}
	return strings.Join(strings.Fields(strings.NewReplacer("**", "", "__", "", "`", "").Replace(s)), " ")
}

// tableHead returns the head of a table of which a chunk holds later rows.
func tableHead(text string, ls []line, b block, start int) string {
	at := func(i int) string { return strings.TrimSpace(text[ls[i].first:ls[i].end]) }
	for i := b.lo; i+1 < b.hi; i++ {
		if ls[i].end > start {
			return ""
		}
		if s := at(i); strings.Contains(s, "|") && (isDelimiterRow(at(i+1)) || isBorder(at(i+1))) {
			return strings.Join(strings.FieldsFunc(strings.Trim(s, "| \t"), func(r rune) bool { return r == '|' }), "|")
		}
	}
	return ""
}

// context joins headings and the head of a table. What is too long loses the outer headings first.
func (c *cutter) context(path []title, head string) string {
	for from := 0; ; from++ {
		parts := make([]string, 0, len(path)+1)
		for _, t := range path[min(from, len(path)):] {
			parts = append(parts, t.text)
		}
		if head != "" {
			parts = append(parts, strings.Join(strings.Fields(head), " "))
		}
		s := strings.Join(parts, between)
		switch {
		case c.counter.Count(s) <= contextTokens:
			return s
		case len(parts) > 1:
			continue
		}
		first := (&cutter{text: s, budget: contextTokens, counter: c.counter}).cut(nil, span{0, len(s)}, atClause)
		return s[first[0].start:cmp.Or(first[0].end, len(s))]
	}
}
