package corpus

import (
	"strings"

	"golang.org/x/net/html/atom"
)

// leftOut reports whether an element's text isn't that of the page.
func leftOut(name atom.Atom, a *attributes) bool {
	switch name {
	case atom.Script:
		return !strings.HasPrefix(a.kind, "math/")
	case atom.Style, atom.Nav, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Select, atom.Textarea, atom.Canvas,
		atom.Audio, atom.Video, atom.Noframes, atom.Noembed, atom.Del, atom.S, atom.Strike, atom.Datalist:
		return true
	case atom.Dialog:
		return !a.open
	}
	return a.hidden || a.role == "navigation" || hasClass(a.class, "katex-html")
}

func hasClass(classes string, wanted ...string) bool {
	for class := range strings.FieldsSeq(classes) {
		for _, w := range wanted {
			if strings.EqualFold(class, w) {
				return true
			}
		}
	}
	return false
}

// void reports whether an element has no inside.
func void(name atom.Atom) bool {
	switch name {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}

// isBlock reports whether an element stands apart from the text around it.
func isBlock(name atom.Atom) bool {
	switch name {
	case atom.P, atom.Div, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Section, atom.Article, atom.Aside, atom.Header, atom.Footer, atom.Main, atom.Blockquote,
		atom.Figure, atom.Figcaption, atom.Table, atom.Caption, atom.Dl, atom.Dt, atom.Dd, atom.Form, atom.Fieldset, atom.Address, atom.Details, atom.Summary, atom.Hr, atom.Center, atom.Hgroup,
		atom.Pre, atom.Xmp, atom.Listing, atom.Ul, atom.Ol, atom.Menu, atom.Body, atom.Legend, atom.Optgroup, atom.Search:
		return true
	}
	return false
}

// optional reports whether an element may end without an end tag.
func optional(name atom.Atom) bool {
	switch name {
	case atom.P, atom.Li, atom.Dt, atom.Dd, atom.Tr, atom.Td, atom.Th, atom.Thead, atom.Tbody, atom.Tfoot, atom.Option:
		return true
	}
	return false
}

// implies reports whether an element that begins ends an open one that needs no end tag.
func implies(open, begins atom.Atom) bool {
	switch open {
	case atom.P:
		return isBlock(begins) || begins == atom.Li || begins == atom.Td || begins == atom.Th || begins == atom.Tr
	case atom.Li:
		return begins == atom.Li
	case atom.Dt, atom.Dd:
		return begins == atom.Dt || begins == atom.Dd
	case atom.Td, atom.Th:
		return begins == atom.Td || begins == atom.Th || begins == atom.Tr || begins == atom.Tbody || begins == atom.Thead || begins == atom.Tfoot
	case atom.Tr:
		return begins == atom.Tr || begins == atom.Tbody || begins == atom.Thead || begins == atom.Tfoot
	case atom.Tbody, atom.Thead, atom.Tfoot:
		return begins == atom.Tbody || begins == atom.Thead || begins == atom.Tfoot
	}
	return false
}
