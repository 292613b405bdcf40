package corpus

import (
	"strings"
	"unicode/utf8"
)

// Shares of the budget that steer the packing.
const (
	// fullShare of the budget filled, a chunk ends before a heading.
	fullShare = 0.35
	// wholeShare of the budget filled, a chunk ends before a block that would fit into the next one whole but not
	// into what is left of this one.
	wholeShare = 0.45
	// mostShare of the budget filled, a chunk ends before any block that doesn't fit into the rest of it.
	mostShare = 0.7
	// tinyShare of the budget or less, a chunk is put to the one before it if that fits.
	tinyShare = 0.25
)

// Chunk is a piece of a text.
type Chunk struct {
	// Text is text[Start:End] of what was cut. It begins and ends with something other than white space, but for
	// the indentation of a first line of code.
	Text       string
	Start, End int
	Tokens     int // of Text
	// Context is what stands over the text: the headings of its section, outermost first, but for one that the text begins with, and the
	// head of the table that it goes on with. "" if there is nothing.
	Context string
}

// Split cuts a text into chunks of at most a budget of tokens, at least 1. Only a single rune that is over the budget by itself
// makes a larger one. Text that is only white space gives none. The time is linear in the text.
//
// The chunks end at sentence ends, and hold whole headings, list items and lines of code or tables. What is over the
// budget by itself is cut at line breaks if it is code, else after clauses, else between words, else between
// graphemes. A heading stays with what follows.
func Split(text string, tokens int, counter *Counter) []Chunk {
	if tokens < 1 {
		panic("corpus: a budget of less than one token")
	}
	var all []Chunk
	var o outline
	for start := 0; ; {
		part := text[start:partEnd(text, start)]
		p := packer{cutter: cutter{text: part, budget: tokens, counter: counter}}
		ls, bs := p.collect()
		chunks := p.pack()
		o.contexts(&p, chunks, ls, bs)
		for i := range chunks {
			chunks[i].Start += start
			chunks[i].End += start
		}
		if all = append(all, chunks...); start+len(part) == len(text) {
			return all
		}
		start += len(part)
	}
}

// partOf is how much of a text is cut at once: cutting takes up to a hundred bytes for each, whatever the text holds.
const partOf = 1 << 20

// partEnd returns where the part that begins at start ends: at a blank line if there is one in its last quarter, else at a line end,
// a space, or at least between two runes.
func partEnd(text string, start int) int {
	if len(text)-start <= partOf {
		return len(text)
	}
	from, end := start+partOf*3/4, start+partOf
	for _, gap := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(text[from:end], gap); i >= 0 {
			return from + i + len(gap)
		}
	}
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}

// unit is what a chunk ends before or after, and is never cut.
type unit struct {
	span
	tokens int  // with the white space before it: an estimate of what it adds to a chunk
	starts bool // a block
	whole  int  // tokens of the block that the unit starts, 0 for the others
	begins bool // a chunk that is full enough ends before it
	holds  bool // the next unit should be in the same chunk
}

// packer packs units into chunks.
type packer struct {
	cutter
	units []unit
	flat  []byte
	spans []span
}

// collect finds the units of the text, and returns its lines and blocks.
func (p *packer) collect() ([]line, []block) {
	ls, bs := findBlocks(p.text)
	for i, b := range bs {
		first := len(p.units)
		end := ls[b.hi-1].end
		switch b.kind {
		case heading:
			p.add(span{ls[b.lo].first, end})
		case item:
			if s := (span{ls[b.lo].first, end}); p.count(s) <= p.budget {
				p.add(s)
				break
			}
			fallthrough
		case prose:
			p.sentences(ls[b.lo:b.hi])
		case rows:
			p.rows(ls[b.lo:b.hi], b.code)
		}
		p.tie(first, b, i+1 == len(bs))
	}
	return ls, bs
}

// rows adds the lines of code or of a table.
func (p *packer) rows(ls []line, code bool) {
	first := len(p.units)
	for _, l := range ls {
		s := span{l.first, l.end}
		if whole := (span{l.start, l.end}); code && p.count(whole) <= p.budget {
			s = whole // with its indentation
		}
		p.add(s)
	}
	if char, _ := fence(p.text[ls[0].first:ls[0].end]); char != 0 || !code {
		// Neither the opening nor the closing fence stands without a line of code, no head of a table without a row.
		p.units[first].holds = true
		if n := len(p.units) - 2; n >= first && code {
			p.units[n].holds = true
		}
	}
}

// tie says how the units of block b, from first on, hang together with each other and with what follows.
func (p *packer) tie(first int, b block, isLast bool) {
	n := len(p.units)
	if first == n {
		return
	}
	u := &p.units[first]
	u.starts, u.whole = true, p.count(span{u.start, p.units[n-1].end})
	title := b.kind == heading || b.alone
	u.begins = u.begins || b.kind == heading
	if title {
		for j := first; j < n-1; j++ {
			p.units[j].holds = true
		}
	}
	last := &p.units[n-1]
	last.holds = !isLast && (title || b.leads || b.kind != rows && leadsIn(p.text[last.start:last.end]))
}

// leadsIn reports whether a paragraph announces what follows it.
func leadsIn(s string) bool { return strings.HasSuffix(s, ":") || strings.HasSuffix(s, "：") }

func (p *packer) count(s span) int { return p.counter.Count(p.text[s.start:s.end]) }

// sentences adds the sentences of a paragraph.
func (p *packer) sentences(ls []line) {
	start, end := ls[0].first, ls[len(ls)-1].end
	p.flat = append(p.flat[:0], p.text[start:end]...)
	unwrapped := longest(p.text, ls) > 200
	from := start
	p.spans = p.spans[:0]
	for i, l := range ls[:len(ls)-1] {
		if unwrapped {
			// Nobody wraps lines this wide: each is a paragraph.
			p.spans = sentencesOf(p.spans, p.text[from:l.end], from)
			from = ls[i+1].first
			continue
		}
		for j := l.end; j < ls[i+1].first; j++ {
			if b := p.flat[j-start]; b == '\n' || b == '\r' {
				p.flat[j-start] = ' '
			}
		}
	}
	p.spans = sentencesOf(p.spans, string(p.flat[from-start:]), from)
	for _, s := range p.spans {
		p.add(s)
	}
}

// longest returns the length of the longest line in runes.
func longest(text string, ls []line) int {
	n := 0
	for _, l := range ls {
		if l.end-l.first > n {
			n = max(n, utf8.RuneCountInString(text[l.first:l.end]))
		}
	}
	return n
}

// add adds a unit, cut into several at its clauses, and below, if it is over the budget.
func (p *packer) add(s span) {
	if p.count(s) <= p.budget {
		p.unit(s)
		return
	}
	first := len(p.units)
	for _, part := range p.cut(nil, s, atClause) {
		p.unit(part)
	}
	// The start of a sentence that must be cut isn't torn off into a chunk that is full enough without it.
	p.units[first].begins = true
}

func (p *packer) unit(s span) {
	from := s.start
	if n := len(p.units); n > 0 {
		from = p.units[n-1].end
	}
	p.units = append(p.units, unit{span: s, tokens: p.count(span{from, s.end})})
}

// pack makes the chunks.
func (p *packer) pack() []Chunk {
	var cuts []int // index of the first unit of each chunk
	for lo := 0; lo < len(p.units); {
		cuts = append(cuts, lo)
		lo = p.fill(lo)
	}
	cuts = p.mend(cuts)
	out := make([]Chunk, 0, len(cuts))
	for i, lo := range cuts {
		hi := len(p.units)
		if i+1 < len(cuts) {
			hi = cuts[i+1]
		}
		s := p.over(lo, hi)
		out = append(out, Chunk{Text: p.text[s.start:s.end], Start: s.start, End: s.end, Tokens: p.count(s)})
	}
	return out
}

// over returns the text of the units lo <= i < hi.
func (p *packer) over(lo, hi int) span { return span{p.units[lo].start, p.units[hi-1].end} }

// fill returns the end of the chunk that starts with unit lo.
func (p *packer) fill(lo int) int {
	full, some, most := int(fullShare*float64(p.budget)), int(wholeShare*float64(p.budget)), int(mostShare*float64(p.budget))
	sum := p.count(p.units[lo].span)
	hi := lo + 1
	for ; hi < len(p.units); hi++ {
		u := &p.units[hi]
		if u.begins && sum >= full && !p.units[hi-1].holds {
			break
		}
		if u.starts && sum+u.whole > p.budget && !p.units[hi-1].holds && (sum >= most || u.whole <= p.budget && sum >= some) {
			break
		}
		if sum+u.tokens <= p.budget {
			sum += u.tokens
			continue
		}
		exact := p.count(p.over(lo, hi+1))
		if exact > p.budget {
			break
		}
		sum = exact
	}
	for hi > lo+1 && p.count(p.over(lo, hi)) > p.budget {
		hi--
	}
	return p.hold(lo, hi)
}

// hold takes the units off the end of a chunk that should stay with what follows, if they can.
func (p *packer) hold(lo, hi int) int {
	if hi == len(p.units) {
		return hi
	}
	end := hi
	for end > lo && p.units[end-1].holds {
		end--
	}
	if end == lo || end == hi || p.count(p.over(end, hi+1)) > p.budget {
		return hi
	}
	return end
}

// mend puts tiny chunks to the one before, or moves units from the end of that one to them.
func (p *packer) mend(cuts []int) []int {
	tiny := int(tinyShare * float64(p.budget))
	out := cuts[:0]
	for i, lo := range cuts {
		hi := len(p.units)
		if i+1 < len(cuts) {
			hi = cuts[i+1]
		}
		n := len(out)
		if n == 0 || p.count(p.over(lo, hi)) > tiny {
			out = append(out, lo)
			continue
		}
		prev := out[n-1]
		if p.count(p.over(prev, hi)) <= p.budget && !p.units[hi-1].holds {
			continue // one chunk
		}
		out = append(out, p.balance(prev, lo, hi))
	}
	return out
}

// balance returns where to part the units prev <= i < hi, parted at lo so far, so that the second part is no longer tiny. The
// first stays the larger one.
func (p *packer) balance(prev, lo, hi int) int {
	first, second := 0, 0
	for i := prev; i < lo; i++ {
		first += p.units[i].tokens
	}
	for i := lo; i < hi; i++ {
		second += p.units[i].tokens
	}
	best := lo
	for at := lo - 1; at > prev; at-- {
		first -= p.units[at].tokens
		second += p.units[at].tokens
		if second > p.budget || second > first {
			break
		}
		if !p.units[at-1].holds {
			best = at
		}
	}
	if p.count(p.over(best, hi)) > p.budget { // the sums were estimates
		return lo
	}
	return best
}
