package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readHTML returns the visible text of a page: its title, then its blocks with a blank line between them. List items and
// table rows are written as Markdown has them, so that the chunker knows them.
//
// The page is read tag by tag and never held as a tree: no nesting is too deep, and memory is that of the text.
func readHTML(data []byte) (string, error) {
	data, err := decodeHTML(data)
	if err != nil {
		return "", fmt.Errorf("its encoding: %w", err)
	}
	r := htmlReader{data: data, xhtml: isXHTML(data)}
	for !r.read() {
	}
	if errors.Is(r.z.Err(), html.ErrBufferExceeded) {
		return "", fmt.Errorf("a tag or text without a break is longer than %d MiB", longestToken>>20)
	}
	text := strings.TrimSpace(string(bytes.ReplaceAll(r.pages[0].out, []byte("\ufeff"), nil)))
	if strings.ContainsRune(text, 0) {
		return "", errors.New("it holds NUL characters: it is not a text")
	}
	return strings.ToValidUTF8(text, "\ufffd"), nil
}

// deepestHTML is how many open elements are kept in mind. What nests deeper is text all the same; only its lists and tables are no
// lists and tables any more.
const deepestHTML = 512

// longestToken is how many bytes a tag or a text may have that nothing interrupts: attributes take many times their bytes.
const longestToken = 8 << 20

// deepestTable is how many tables may stand in each other's cells before a cell is no more than a block: the text of a cell is
// copied once for each.
const deepestTable = 8

// htmlReader reads one page.
type htmlReader struct {
	data  []byte
	xhtml bool
	// visible are elements that would be left out but have no end: what follows them is no part of them.
	visible map[atom.Atom]bool

	z      *html.Tokenizer
	at     int // bytes of data that the tokenizer has passed
	pages  []*page
	tables []*grid
	open   []element
	titled bool
	next   map[string]int // where the next tag of a name was found
	spare  int            // bytes that may still be written more than once, for cells that span rows and columns
}

// element is an open one.
type element struct {
	name  atom.Atom
	from  int  // length of the page's text where it began, for a superscript
	holds bool // it is the list, the table, the row or the cell that its name says
}

// attributes are those that matter.
type attributes struct {
	class, alt, start, value, alttext, role, kind string
	rows, columns                                 int
	hidden, ariaHidden, open                      bool
}

// read reads the page from its start, and reports whether it came to an end. If it didn't, an element that is left out had none,
// and is a visible one the next time: at most once for each kind.
func (r *htmlReader) read() bool {
	r.tokenize(0)
	r.at, r.pages, r.tables, r.open, r.titled, r.next = 0, []*page{{}}, nil, nil, false, map[string]int{}
	r.spare = len(r.data)
	for {
		kind := r.z.Next()
		r.at += len(r.z.Raw())
		switch kind {
		case html.ErrorToken:
			for len(r.open) > 0 {
				r.pop()
			}
			return true
		case html.TextToken:
			r.page().text(r.z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			if !r.start(kind == html.SelfClosingTagToken) {
				return false
			}
		case html.EndTagToken:
			name, _ := r.z.TagName()
			r.end(atom.Lookup(name))
		}
	}
}

func (r *htmlReader) page() *page { return r.pages[len(r.pages)-1] }

func (r *htmlReader) attributes(more bool) attributes {
	a := attributes{rows: 1, columns: 1}
	for more {
		var key, value []byte
		key, value, more = r.z.TagAttr()
		switch string(key) {
		case "class":
			a.class = string(value)
		case "alt":
			a.alt = string(value)
		case "start":
			a.start = string(value)
		case "value":
			a.value = string(value)
		case "alttext":
			a.alttext = string(value)
		case "role":
			a.role = string(value)
		case "type", "encoding":
			a.kind = strings.ToLower(string(value))
		case "hidden":
			a.hidden = string(value) != "until-found"
		case "aria-hidden":
			a.ariaHidden = string(value) == "true"
		case "open":
			a.open = true
		case "rowspan":
			a.rows = spanOf(value)
		case "colspan":
			a.columns = spanOf(value)
		}
	}
	return a
}

// spanOf reads the number of rows or columns that a cell takes; browsers bound it too.
func spanOf(value []byte) int {
	n, err := strconv.Atoi(strings.TrimSpace(string(value)))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, 1000)
}

// start takes a start tag. It is false if an element that is left out has no end.
func (r *htmlReader) start(selfClosing bool) bool {
	raw, more := r.z.TagName()
	name := atom.Lookup(raw)
	a := r.attributes(more)
	if selfClosing {
		if selfClosing = r.closes(name); selfClosing {
			r.z.NextIsNotRawText()
		}
	}
	switch {
	case leftOut(name, &a) && !void(name) && !r.visible[name] || r.lineNumbers(&a):
		if selfClosing {
			return true
		}
		return r.skip(name)
	case name == atom.Title:
		r.title(selfClosing)
		return true
	case name == atom.Math && !selfClosing:
		return r.math(&a)
	case name == atom.Script: // of a kind that is text
		if r.z.Next() == html.TextToken {
			r.page().text(r.z.Text())
		}
		r.at += len(r.z.Raw())
		return true
	}
	r.imply(name)
	r.begin(name, &a, !selfClosing && !void(name) && len(r.open) < deepestHTML)
	return true
}

// closes reports whether "<name/>" is the whole element. In XHTML it is. In HTML the slash means nothing, but for an element of which
// only text can be inside, a page that writes it means it, unless an end tag follows before the next one of its kind.
func (r *htmlReader) closes(name atom.Atom) bool {
	switch name {
	case atom.Title, atom.Script, atom.Style, atom.Iframe, atom.Textarea, atom.Noframes, atom.Noembed, atom.Xmp:
		return r.xhtml || r.find("<"+name.String()) < r.find("</"+name.String())
	}
	return r.xhtml || void(name)
}

// find returns where a text stands next, in any case; the length of the page if it doesn't.
func (r *htmlReader) find(tag string) int {
	if at, ok := r.next[tag]; ok && at >= r.at {
		return at
	}
	at := indexFold(r.data[r.at:], tag)
	if at < 0 {
		at = len(r.data)
		if strings.HasPrefix(tag, "</") {
			at++ // neither comes: there is no end
		}
		at -= r.at
	}
	r.next[tag] = r.at + at
	return r.at + at
}

// indexFold is bytes.Index for a tag in any case.
func indexFold(data []byte, tag string) int {
	for from := 0; ; {
		i := bytes.IndexByte(data[from:], '<')
		if i < 0 || from+i+len(tag) > len(data) {
			return -1
		}
		from += i
		if strings.EqualFold(string(data[from:from+len(tag)]), tag) {
			return from
		}
		from++
	}
}

// lineNumbers reports whether an element holds the numbers of lines of code, by the names that highlighters give it.
func (r *htmlReader) lineNumbers(a *attributes) bool {
	if a.class == "" || r.page().pre == 0 && !r.within(atom.Tr, atom.Table) {
		return false
	}
	return hasClass(a.class, "linenos", "lineno", "linenumber", "linenumbers", "line-number", "line-numbers", "linenodiv", "lnt", "ln-num", "blob-num",
		"hljs-ln-numbers", "hljs-ln-n", "rouge-gutter", "gutter", "line-num", "lineNumber")
}

// within reports whether the innermost open element is one of those.
func (r *htmlReader) within(names ...atom.Atom) bool {
	for _, n := range names {
		if len(r.open) > 0 && r.open[len(r.open)-1].name == n {
			return true
		}
	}
	return false
}

// skip passes over an element and reports whether it has an end. A cell that is passed over is told to its row.
func (r *htmlReader) skip(name atom.Atom) bool {
	if name == atom.Td || name == atom.Th {
		if t := r.table(); t != nil {
			t.code = true
		}
	}
	for depth := 1; ; {
		kind := r.z.Next()
		r.at += len(r.z.Raw())
		switch kind {
		case html.ErrorToken:
			if errors.Is(r.z.Err(), html.ErrBufferExceeded) {
				return true
			}
			if r.visible == nil {
				r.visible = map[atom.Atom]bool{}
			}
			if r.visible[name] || name == atom.Script || name == atom.Style {
				return true // nothing of them is text
			}
			r.visible[name] = true
			return false
		case html.SelfClosingTagToken:
			if raw, _ := r.z.TagName(); r.xhtml || void(atom.Lookup(raw)) {
				r.z.NextIsNotRawText()
				continue
			}
			fallthrough
		case html.StartTagToken:
			raw, _ := r.z.TagName()
			other := atom.Lookup(raw)
			if depth == 1 && implies(name, other) {
				r.unread()
				return true
			}
			if other == name {
				depth++
			}
		case html.EndTagToken:
			raw, _ := r.z.TagName()
			other := atom.Lookup(raw)
			if other == name {
				depth--
			}
			if depth == 0 {
				return true
			}
			if depth == 1 && optional(name) && other != name && r.isOpen(other) {
				r.unread()
				return true
			}
		}
	}
}

// unread gives back the tag that was read last.
func (r *htmlReader) unread() {
	r.at -= len(r.z.Raw())
	r.tokenize(r.at)
}

func (r *htmlReader) tokenize(from int) {
	r.z = html.NewTokenizer(bytes.NewReader(r.data[from:]))
	r.z.SetMaxBuf(longestToken)
	r.z.AllowCDATA(r.xhtml)
}

func (r *htmlReader) isOpen(name atom.Atom) bool {
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i].name == name {
			return true
		}
	}
	return false
}

// title writes the page's title. One without an end has none.
func (r *htmlReader) title(selfClosing bool) {
	if selfClosing {
		return
	}
	if r.find("</title") > len(r.data) {
		r.z.NextIsNotRawText()
		return
	}
	if r.z.Next() == html.TextToken && !r.titled {
		r.titled = true
		r.page().blockEnd("\n\n")
		r.page().text(r.z.Text())
		r.page().blockEnd("\n\n")
	}
	r.at += len(r.z.Raw())
}

// math writes a formula: what its author wrote for those who can't see it, or the TeX that it was made of, or else its letters.
func (r *htmlReader) math(a *attributes) bool {
	var tex, letters []byte
	within := false
	for {
		kind := r.z.Next()
		r.at += len(r.z.Raw())
		switch kind {
		case html.ErrorToken:
			r.page().text(letters)
			return true
		case html.TextToken:
			if text := r.z.Text(); within {
				tex = append(tex, text...)
			} else {
				letters = append(letters, text...)
			}
		case html.StartTagToken:
			raw, more := r.z.TagName()
			if name := string(raw); name == "annotation" {
				within = strings.Contains(r.attributes(more).kind, "tex")
			} else if name == "annotation-xml" {
				within = false
			}
		case html.EndTagToken:
			raw, _ := r.z.TagName()
			switch string(raw) {
			case "annotation":
				within = false
			case "math":
				p := r.page()
				switch {
				case strings.TrimSpace(a.alttext) != "":
					p.text([]byte(a.alttext))
				case len(bytes.TrimSpace(tex)) > 0:
					p.text(tex)
				default:
					p.text(letters)
				}
				return true
			}
		}
	}
}

// imply ends the open elements that the start of another one ends. It looks no further than the list, table or cell that it stands in.
func (r *htmlReader) imply(begins atom.Atom) {
	switch begins {
	case atom.Li, atom.Dt, atom.Dd, atom.Td, atom.Th, atom.Tr, atom.Tbody, atom.Thead, atom.Tfoot:
	default:
		if !isBlock(begins) {
			return
		}
	}
	for i := len(r.open) - 1; i >= 0; i-- {
		name := r.open[i].name
		if implies(name, begins) {
			r.popTo(i)
			if name == atom.Td || name == atom.Th || name == atom.Tr || name == atom.P {
				continue // a cell ends with its row, a paragraph with the item that it stands in
			}
			return
		}
		if name == atom.Table || name == atom.Ul || name == atom.Ol || name == atom.Menu || name == atom.Dl || isBlock(begins) && name != atom.P && isBlock(name) {
			return
		}
	}
}

// end takes an end tag. One that fits no open element of the same table or cell means nothing, but that a block ends.
func (r *htmlReader) end(name atom.Atom) {
	tables := name == atom.Table || name == atom.Tr || name == atom.Tbody || name == atom.Thead || name == atom.Tfoot
	for i := len(r.open) - 1; i >= 0; i-- {
		open := r.open[i].name
		if open == name {
			r.popTo(i)
			return
		}
		if open == atom.Table || !tables && (open == atom.Td || open == atom.Th) {
			break
		}
	}
	switch {
	case name == atom.Br:
		r.page().blockEnd("\n")
	case isBlock(name):
		r.page().blockEnd("\n\n")
	}
}

// popTo ends open elements down to number i, and that one.
func (r *htmlReader) popTo(i int) {
	for len(r.open) > i {
		r.pop()
	}
}
