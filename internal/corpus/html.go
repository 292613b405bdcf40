package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// readHTML returns the visible text of a page: its title, then its blocks with a blank line between them. List items and
// table rows are written as Markdown has them, so that the chunker knows them.
func readHTML(data []byte) (string, error) {
	src, err := charset.NewReader(bytes.NewReader(data), "")
	if err == io.EOF {
		return "", nil // an empty file
	}
	if err != nil {
		return "", fmt.Errorf("its encoding: %w", err)
	}
	if data, err = io.ReadAll(src); err != nil {
		return "", err
	}
	leave, err := enterPage(data)
	if err != nil {
		return "", err
	}
	defer leave()
	root, err := html.Parse(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	var w page
	if title := firstOf(root, atom.Title); title != nil {
		w.children(title)
		w.blockEnd("\n\n")
	}
	if body := firstOf(root, atom.Body); body != nil {
		w.children(body)
	}
	text := strings.TrimSpace(w.out.String())
	if strings.ContainsRune(text, 0) {
		return "", errors.New("it holds NUL characters: it is not a text")
	}
	return strings.ToValidUTF8(text, "\ufffd"), nil
}

// firstOf returns the first element of a kind, or nil.
func firstOf(n *html.Node, kind atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.DataAtom == kind && d.Namespace == "" {
			return d
		}
	}
	return nil
}

// page collects the text of a page.
type page struct {
	out     strings.Builder
	pending string // the break to write before the next text
	marker  string // of the list item that the next text starts
	space   bool   // white space stands before the next text
	pre     int    // depth of preformatted elements
	list    []int  // number of the next item of each open list, -1 for bullets
	cell    bool   // within a table row, breaks become spaces
}

func (w *page) children(n *html.Node) {
	for c := range n.ChildNodes() {
		switch c.Type {
		case html.TextNode:
			w.text(c.Data)
		case html.ElementNode:
			w.element(c)
		}
	}
}

func (w *page) element(n *html.Node) {
	for _, a := range n.Attr {
		if a.Key == "hidden" {
			return
		}
	}
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Nav, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Head, atom.Select, atom.Textarea, atom.Button, atom.Canvas, atom.Audio, atom.Video, atom.Dialog:
		return
	case atom.Br:
		w.blockEnd("\n")
	case atom.Ul, atom.Ol, atom.Menu:
		w.enumeration(n)
	case atom.Li:
		w.item(n)
	case atom.Tr:
		w.row(n)
	case atom.Pre:
		w.blockEnd("\n\n")
		w.pre++
		w.children(n)
		w.pre--
		w.blockEnd("\n\n")
	case atom.P, atom.Div, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Section, atom.Article, atom.Aside, atom.Header, atom.Footer, atom.Main, atom.Blockquote,
		atom.Figure, atom.Figcaption, atom.Table, atom.Caption, atom.Dl, atom.Dt, atom.Dd, atom.Form, atom.Fieldset, atom.Address, atom.Details, atom.Summary, atom.Hr, atom.Center, atom.Hgroup:
		w.blockEnd("\n\n")
		w.children(n)
		w.blockEnd("\n\n")
	default:
		w.children(n)
	}
}

// enumeration writes a list.
func (w *page) enumeration(n *html.Node) {
	next := -1
	if n.DataAtom == atom.Ol {
		next = 1
	}
	w.blockEnd("\n\n")
	w.list = append(w.list, next)
	w.children(n)
	w.list = w.list[:len(w.list)-1]
	w.blockEnd("\n\n")
}

// item writes a list item with its marker.
func (w *page) item(n *html.Node) {
	w.blockEnd("\n")
	marker := "- "
	if depth := len(w.list); depth > 0 && w.list[depth-1] > 0 {
		marker = fmt.Sprintf("%d. ", w.list[depth-1])
		w.list[depth-1]++
	}
	w.marker = strings.Repeat("  ", max(0, len(w.list)-1)) + marker
	w.children(n)
	w.marker = "" // of an empty item
	w.blockEnd("\n")
}

// row writes a table row with bars between its cells.
func (w *page) row(n *html.Node) {
	var cells []string
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode && (c.DataAtom == atom.Td || c.DataAtom == atom.Th) {
			cell := page{cell: true}
			cell.children(c)
			cells = append(cells, strings.Join(strings.Fields(cell.out.String()), " "))
		}
	}
	if strings.Join(cells, "") == "" {
		return
	}
	w.blockEnd("\n")
	if len(cells) == 1 {
		w.write(cells[0]) // a table that only lays the page out
	} else {
		w.write("| " + strings.Join(cells, " | ") + " |")
	}
	w.blockEnd("\n")
}

// text writes text of the page with its white space collapsed, but within preformatted elements.
func (w *page) text(s string) {
	if w.pre > 0 && !w.cell {
		w.write(strings.ReplaceAll(s, "\r", ""))
		return
	}
	for s != "" {
		word := strings.TrimLeftFunc(s, collapses)
		w.space = w.space || len(word) < len(s)
		if word == "" {
			return
		}
		end := strings.IndexFunc(word, collapses)
		if end < 0 {
			end = len(word)
		}
		w.write(word[:end])
		s = word[end:]
	}
}

// collapses reports whether a rune is white space that a browser collapses; a no-break space isn't.
func collapses(r rune) bool { return r != '\u00a0' && unicode.IsSpace(r) }

// write writes text after the break or space that is due.
func (w *page) write(s string) {
	switch {
	case w.out.Len() == 0:
	case w.pending != "":
		w.out.WriteString(w.pending)
	case w.space:
		w.out.WriteByte(' ')
	}
	w.out.WriteString(w.marker)
	w.out.WriteString(s)
	w.pending, w.marker, w.space = "", "", false
}

// blockEnd asks for a break before the next text; the larger one wins.
func (w *page) blockEnd(s string) {
	if w.cell {
		w.space = true
		return
	}
	if len(s) > len(w.pending) {
		w.pending = s
	}
}
