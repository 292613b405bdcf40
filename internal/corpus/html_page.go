package corpus

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
)

// begin does what the start of an element does to the text. keep says that its end will be seen: what has to be undone there is only
// done then.
func (r *htmlReader) begin(name atom.Atom, a *attributes, keep bool) {
	p := r.page()
	e := element{name: name}
	switch name {
	case atom.Br:
		p.blockEnd("\n")
	case atom.Img:
		if !a.ariaHidden && strings.TrimSpace(a.alt) != "" {
			p.word([]byte(a.alt))
		}
	case atom.Ul, atom.Ol, atom.Menu:
		p.blockEnd("\n\n")
		if e.holds = keep; keep {
			p.list = append(p.list, firstNumber(name, a))
		}
	case atom.Li:
		p.item(a)
		e.holds = keep
	case atom.Pre, atom.Xmp, atom.Listing:
		p.blockEnd("\n\n")
		if e.holds = keep; keep {
			p.pre++
			p.code, p.fresh = true, true
		}
	case atom.Table:
		p.blockEnd("\n\n")
		if e.holds = keep && len(r.tables) < deepestTable; e.holds {
			r.tables = append(r.tables, &grid{spans: map[int]spanned{}})
		}
	case atom.Tr:
		if t := r.table(); t != nil && keep {
			r.endRow(t)
			e.holds = true
		} else {
			p.blockEnd("\n")
		}
	case atom.Td, atom.Th:
		if t := r.table(); t != nil && keep {
			cell := &page{}
			if t.code { // beside the numbers of lines stands code, whatever it is called
				cell.pre, cell.code = 1, true
			}
			r.pages, t.now = append(r.pages, cell), cellOf(a)
			e.holds = true
		} else {
			p.blockEnd("\n")
		}
	default:
		if isBlock(name) {
			p.blockEnd("\n\n")
		}
	}
	if e.from = len(r.page().out); keep {
		r.open = append(r.open, e)
	}
}

// pop ends the innermost open element.
func (r *htmlReader) pop() {
	e := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
	p := r.page()
	switch {
	case e.holds && (e.name == atom.Ul || e.name == atom.Ol || e.name == atom.Menu):
		p.list = p.list[:max(0, len(p.list)-1)]
	case e.holds && e.name == atom.Li:
		p.marker = "" // of an empty item
		p.blockEnd("\n")
	case e.holds && (e.name == atom.Pre || e.name == atom.Xmp || e.name == atom.Listing):
		p.pre, p.fresh = max(0, p.pre-1), false
	case e.holds && (e.name == atom.Td || e.name == atom.Th):
		if t := r.table(); t != nil && len(r.pages) > 1 {
			r.pages = r.pages[:len(r.pages)-1]
			t.now.text, t.now.code = strings.Trim(string(p.out), "\n"), p.code
			t.row = append(t.row, t.now)
		}
		return
	case e.holds && e.name == atom.Tr:
		if t := r.table(); t != nil {
			r.endRow(t)
		}
		return
	case e.holds && e.name == atom.Table:
		r.endRow(r.table())
		r.tables = r.tables[:len(r.tables)-1]
	case e.name == atom.Sup:
		p.superscript(e.from)
	}
	if isBlock(e.name) {
		p.blockEnd("\n\n")
	}
}

// firstNumber is that of a list's first item, -1 for bullets.
func firstNumber(name atom.Atom, a *attributes) int {
	if name != atom.Ol {
		return -1
	}
	if n, err := strconv.Atoi(strings.TrimSpace(a.start)); err == nil && n >= 0 && n < 1<<30 {
		return n
	}
	return 1
}

// page collects text: of the whole page, or of one cell.
type page struct {
	out     []byte
	pending string // the break to write before the next text
	marker  string // of the list item that the next text starts
	space   bool   // white space stands before the next text
	apart   bool   // no letter may follow at once
	pre     int    // depth of preformatted elements
	fresh   bool   // one has just begun: a line break there is no text
	code    bool   // there was one
	list    []int  // number of the next item of each open list, -1 for bullets
}

// item begins a list item with its marker.
func (p *page) item(a *attributes) {
	p.blockEnd("\n")
	marker := "- "
	if depth := len(p.list); depth > 0 && p.list[depth-1] >= 0 {
		if n, err := strconv.Atoi(strings.TrimSpace(a.value)); err == nil && n >= 0 && n < 1<<30 {
			p.list[depth-1] = n
		}
		marker = fmt.Sprintf("%d. ", p.list[depth-1])
		p.list[depth-1]++
	}
	p.marker = strings.Repeat("  ", min(max(0, len(p.list)-1), 16)) + marker
}

// text writes text of the page with its white space collapsed, but within preformatted elements.
func (p *page) text(s []byte) {
	if p.pre > 0 {
		if p.fresh {
			s = bytes.TrimPrefix(bytes.TrimPrefix(s, []byte("\r")), []byte("\n"))
		}
		if len(s) > 0 {
			p.fresh = false
			p.write(s)
		}
		return
	}
	for len(s) > 0 {
		word := bytes.TrimLeftFunc(s, collapses)
		p.space = p.space || len(word) < len(s)
		if len(word) == 0 {
			return
		}
		end := bytes.IndexFunc(word, collapses)
		if end < 0 {
			end = len(word)
		}
		p.write(word[:end])
		s = word[end:]
	}
}

// word writes text that stands for an image: apart from letters on either side.
func (p *page) word(s []byte) {
	p.apart = true
	p.text(s)
	p.apart = true
}

// collapses reports whether a rune is white space that a browser collapses; a no-break space isn't.
func collapses(r rune) bool { return r != '\u00a0' && unicode.IsSpace(r) }

// write writes text after the break or space that is due.
func (p *page) write(s []byte) {
	switch {
	case len(p.out) == 0:
	case p.pending != "":
		p.out = append(p.out, p.pending...)
	case p.space:
		p.out = append(p.out, ' ')
	case p.apart:
		before, _ := utf8.DecodeLastRune(p.out)
		after, _ := utf8.DecodeRune(s)
		if inWord(before) && inWord(after) {
			p.out = append(p.out, ' ')
		}
	}
	p.out = append(p.out, p.marker...)
	p.out = append(p.out, s...)
	p.pending, p.marker, p.space, p.apart = "", "", false, false
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// blockEnd asks for a break before the next text; the larger one wins. In preformatted text a line break is one.
func (p *page) blockEnd(s string) {
	if p.pre > 0 && s == "\n" {
		p.write([]byte("\n"))
		return
	}
	if len(s) > len(p.pending) {
		p.pending = s
	}
}

// superscript marks what was written from a place on as raised, where it would read as a part of the number or name before it. The
// letters of an ordinal (1st) and of a mark are left as they are, and what has a bracket of its own.
func (p *page) superscript(from int) {
	if from <= 0 || from >= len(p.out) || p.pre > 0 {
		return
	}
	before, _ := utf8.DecodeLastRune(p.out[:from])
	raised := string(p.out[from:])
	if !inWord(before) && !strings.ContainsRune(")]}|", before) || strings.ContainsAny(raised, "\n") || len(raised) > 200 {
		return
	}
	first, _ := utf8.DecodeRuneInString(raised)
	words := strings.IndexFunc(raised, func(r rune) bool { return !unicode.IsLetter(r) }) < 0 && utf8.RuneCountInString(raised) > 1
	switch {
	case words, unicode.IsSpace(first), strings.ContainsRune("[(^*†‡§¶®™°'′″,.;:", first):
		return
	case strings.ContainsAny(raised, " +*/=") || strings.LastIndexAny(raised, "-−") > 0:
		raised = "(" + raised + ")"
	}
	p.out = append(append(p.out[:from], '^'), raised...)
}

// grid is a table of which one row is known: text is written row by row.
type grid struct {
	row   []cell
	now   cell // the one that is open
	spans map[int]spanned
	code  bool // numbers of lines of code were passed over in this row
}

type cell struct {
	text          string
	code          bool // some of it is preformatted
	rows, columns int
}

// spanned is a cell that reaches into rows below its own.
type spanned struct {
	text string
	rows int // that are left
}

// mostColumns is the most columns that a row is filled up to for cells that span several.
const mostColumns = 64

func cellOf(a *attributes) cell { return cell{rows: a.rows, columns: a.columns} }

func (r *htmlReader) table() *grid {
	if len(r.tables) == 0 {
		return nil
	}
	return r.tables[len(r.tables)-1]
}

// endRow writes a row: with bars between its cells, or as blocks one after the other if a cell holds more than one block or code, as in
// a table that only lays the page out.
func (r *htmlReader) endRow(t *grid) {
	row, code := t.row, t.code
	t.row, t.code = nil, false
	row = withoutNumbers(row)
	if len(row) == 0 {
		return
	}
	p := r.page()
	flow, text := false, false
	for i := range row {
		flow = flow || row[i].code || strings.Contains(row[i].text, "\n\n")
		text = text || strings.TrimSpace(row[i].text) != ""
	}
	switch {
	case code && len(row) == 1:
		if text {
			p.blockEnd("\n")
			p.code = true
			p.write([]byte(strings.TrimRight(row[0].text, " \t\r\n")))
		} else if p.code && p.pending != "\n\n" {
			p.pending = "\n\n" // an empty line of code
		}
		p.blockEnd("\n")
	case len(row) == 1 && len(t.spans) == 0 && row[0].rows == 1 || flow:
		for i := range row {
			if strings.TrimSpace(row[i].text) == "" {
				continue
			}
			p.blockEnd(map[bool]string{true: "\n\n", false: "\n"}[flow])
			p.code = p.code || row[i].code
			p.write([]byte(row[i].text))
			p.blockEnd(map[bool]string{true: "\n\n", false: "\n"}[flow])
		}
	case text:
		p.blockEnd("\n")
		p.write([]byte("| " + strings.Join(r.columns(t, row), " | ") + " |"))
		p.blockEnd("\n")
	}
}

// columns returns the texts of a row, each in its column.
func (r *htmlReader) columns(t *grid, row []cell) []string {
	var columns []string
	above := func() {
		for {
			s, ok := t.spans[len(columns)]
			if !ok {
				return
			}
			if s.rows--; s.rows == 0 {
				delete(t.spans, len(columns))
			} else {
				t.spans[len(columns)] = s
			}
			if r.spare -= len(s.text) + 3; r.spare < 0 {
				s.text = ""
			}
			columns = append(columns, s.text)
		}
	}
	for _, c := range row {
		above()
		text := strings.Join(strings.Fields(c.text), " ")
		for i := range c.columns {
			if r.spare -= 3; i > 0 && (len(columns) >= mostColumns || r.spare < 0) {
				break
			}
			if c.rows > 1 && len(columns) < mostColumns {
				t.spans[len(columns)] = spanned{text, c.rows - 1}
			}
			columns = append(columns, text)
			text = ""
		}
	}
	above()
	return columns
}

// withoutNumbers takes cells away that hold the numbers of the lines of the code beside them.
func withoutNumbers(row []cell) []cell {
	code := false
	for i := range row {
		code = code || row[i].code && !ascending(row[i].text)
	}
	if !code || len(row) < 2 {
		return row
	}
	kept := row[:0]
	for _, c := range row {
		if !ascending(c.text) {
			kept = append(kept, c)
		}
	}
	return kept
}

// ascending reports whether a text is numbers only, each one more than the one before.
func ascending(text string) bool {
	last, n := 0, 0
	for word := range strings.FieldsSeq(text) {
		number, err := strconv.Atoi(word)
		if err != nil || n > 0 && number != last+1 {
			return false
		}
		last, n = number, n+1
	}
	return n > 0
}
