package corpus

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// line is one line of a text that isn't blank.
type line struct {
	start, end int  // without the line break and the white space before it
	indent     int  // columns of white space at its start; a tab goes to the next multiple of 4
	first      int  // where its text begins
	gap        bool // a blank line, or the start of the text, stands before it
}

// lines returns the lines of a text that hold something other than white space. A form feed is a blank line.
func lines(text string) []line {
	var out []line
	gap := true
	for pos := 0; pos < len(text); {
		end, next := len(text), len(text)
		if i := strings.IndexAny(text[pos:], "\n\r\f"); i >= 0 {
			end, next = pos+i, pos+i+1
			if strings.HasPrefix(text[end:], "\r\n") {
				next++
			}
		}
		raw := strings.TrimRightFunc(text[pos:end], unicode.IsSpace)
		if raw == "" {
			// The empty string between a text and a form feed is no blank line, but the feed is.
			gap = true
		} else {
			l := line{start: pos, end: pos + len(raw), gap: gap}
			l.indent, l.first = indent(text, pos, l.end)
			out = append(out, l)
			gap = end < len(text) && text[end] == '\f'
		}
		pos = next
	}
	return out
}

// indent returns the columns of white space at the start of a line, and where its text begins.
func indent(text string, pos, end int) (columns, first int) {
	for pos < end {
		r, size := utf8.DecodeRuneInString(text[pos:end])
		switch {
		case r == '\t':
			columns += 4 - columns%4
		case unicode.IsSpace(r):
			columns++
		default:
			return columns, pos
		}
		pos += size
	}
	return columns, pos
}

// rule returns the character of a line that only repeats it, such as "-----", and how often; 0 for any other line.
func rule(s string) (char byte, n int) {
	if len(s) < 3 || !strings.Contains("=-~^\"'`#*+_.:<>", s[:1]) {
		return 0, 0
	}
	if strings.Trim(s, s[:1]) != "" {
		return 0, 0
	}
	return s[0], len(s)
}

// fence returns the character of a code fence and its length; 0 for any other line.
func fence(s string) (char byte, n int) {
	if !strings.HasPrefix(s, "```") && !strings.HasPrefix(s, "~~~") {
		return 0, 0
	}
	n = len(s) - len(strings.TrimLeft(s, s[:1]))
	if s[0] == '`' && strings.Contains(s[n:], "`") {
		return 0, 0 // code within a line
	}
	return s[0], n
}

// isHeading reports whether a line is a Markdown heading with number signs.
func isHeading(s string) bool {
	n := len(s) - len(strings.TrimLeft(s, "#"))
	return n >= 1 && n <= 6 && (len(s) == n || s[n] == ' ' || s[n] == '\t')
}

// marker returns the length of a list marker with the space after it; 0 if the line starts with none.
func marker(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	switch r {
	case '-', '*', '+', '•', '‣', '◦', '·', '▪', '–', '○', '●':
		return spaceAfter(s, size)
	}
	open := strings.HasPrefix(s, "(")
	body := strings.TrimPrefix(s, "(")
	n := 0
	for n < len(body) && n < 4 && body[n] >= '0' && body[n] <= '9' {
		n++
	}
	if n == 0 && body != "" && (body[0] == '#' || body[0] >= 'a' && body[0] <= 'z') {
		n = 1
	}
	if n == 0 || n == len(body) || n == 4 {
		return 0
	}
	end := n + 1
	if open {
		end++
	}
	if body[n] == ')' || body[n] == '.' && !open {
		return spaceAfter(s, end)
	}
	return 0
}

// opensList reports whether a marker is one that a list starts with: a bullet, or the number one. Any other may be the number or
// the dash of a sentence that goes on in the next line.
func opensList(s string) bool {
	s = strings.TrimPrefix(s, "(")
	r, size := utf8.DecodeRuneInString(s)
	switch r {
	case '–':
		return false
	case '1', '#', 'a', 'i':
		return len(s) > size && (s[size] == '.' || s[size] == ')')
	}
	return !unicode.IsDigit(r) && !unicode.IsLetter(r)
}

// spaceAfter returns n with the white space at s[n:] added, or 0 if there is none.
func spaceAfter(s string, n int) int {
	if n == len(s) {
		return n // the marker of an item whose text follows below
	}
	if s[n] != ' ' && s[n] != '\t' {
		return 0
	}
	return len(s) - len(strings.TrimLeft(s[n:], " \t"))
}

// isTableRow reports whether a line is a row or a border of a table that is drawn with bars and pluses.
func isTableRow(s string) bool {
	return s[0] == '|' && len(s) > 1 || strings.HasPrefix(s, "+-") || strings.HasPrefix(s, "+=")
}

// isBorder reports whether a line is a border of a simple table of reStructuredText: "=====  ====".
func isBorder(s string) bool {
	return strings.HasPrefix(s, "==") && strings.Contains(s, " ") && strings.Trim(s, "= ") == ""
}

// isDelimiterRow reports whether a line separates head and body of a Markdown table: "--- | :--:".
func isDelimiterRow(s string) bool {
	return strings.Contains(s, "|") && strings.Contains(s, "-") && strings.Trim(s, "|-: \t") == ""
}

// field returns whether a line is one of a header or a field list: "Title: …", ":Author: …".
func field(s string) bool {
	name, rest, ok := strings.Cut(strings.TrimPrefix(s, ":"), ":")
	if !ok || name == "" || len(name) > 40 || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return false
	}
	words := 1
	for i, r := range name {
		switch {
		case r == ' ' || r == '-' || r == '_':
			words++
		case i == 0 && !unicode.IsLetter(r), !unicode.IsLetter(r) && !unicode.IsDigit(r):
			return false
		}
	}
	return words <= 3
}

// looksLikeCode reports whether a line of unknown kind has what program text has and prose seldom.
func looksLikeCode(s string) bool {
	switch s[len(s)-1] {
	case '{', '}', ';', '[', '\\', '=':
		return true
	}
	for _, p := range []string{"}", ")", "]", "//", "/*", "*/", "#include", "#!", "@", "def ", "import ", "func ", "return ", "class ", "$ ", "% ", ">>> ", "... ", "<", "--"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	for _, p := range []string{" = ", ":=", "==", "!=", "->", "=>", "();", "):", "+=", "&&", "||", "</", "/>", "[]", "::"} {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
