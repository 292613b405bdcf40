package printable

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes are the control sequences of terminals: those that set colors and move the cursor (CSI), those that carry a
// text such as a title or a link (OSC, DCS, SOS, PM, APC), and the short ones (ECMA-48, section 5.4 and 5.6).
var escapes = regexp.MustCompile("(?s)" +
	"(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]" +
	"|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f]).*?(?:\x07|\x1b\\\\|\u009c)" +
	"|\x1b[ -/]*[0-~]")

// Text returns a text without what would steer a terminal, or make a line read otherwise than it is written: control sequences and
// characters but for line feeds and tabs, marks that turn the direction of text, and bytes that aren't UTF-8, which become U+FFFD.
func Text(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return -1
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
}

// Line returns a text as one line: Text with every run of white space as one space. What stands in a sentence, a table or a line of a
// log goes through it.
func Line(text string) string { return strings.Join(strings.Fields(Text(text)), " ") }

func steers(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u200e', r == '\u200f', r == '\u061c': // marks of direction
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// Escaped returns a text with what Text would take out written as JSON strings have it, such as \u202e: nothing is lost, and nothing
// steers. Bytes that aren't UTF-8 become U+FFFD.
func Escaped(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !steers(r):
			b.WriteRune(r)
		default: // all of them are below U+10000
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Writer returns a writer that passes on what filter makes of each Write, which must hold whole characters, as those of a logger and of
// fmt do. Its count is that of what it was given.
func Writer(to io.Writer, filter func(string) string) io.Writer { return writer{to, filter} }

type writer struct {
	to     io.Writer
	filter func(string) string
}

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.filter(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
