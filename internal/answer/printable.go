package answer

import (
	"regexp"
	"strings"
	"unicode"
)

// escapes are the control sequences of terminals: those that set colors and move the cursor (CSI), those that carry a
// text such as a title or a link (OSC, DCS, SOS, PM, APC), and the short ones (ECMA-48, section 5.4 and 5.6).
var escapes = regexp.MustCompile("(?s)" +
	"(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]" +
	"|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f]).*?(?:\x07|\x1b\\\\|\u009c)" +
	"|\x1b[ -/]*[0-~]")

// Printable returns a text without what would steer a terminal, or make a line read otherwise than it is written:
// control sequences and characters but for line feeds and tabs, and marks that turn the direction of text. Texts of
// documents and models go through it before they are printed.
func Printable(text string) string {
	if strings.IndexFunc(text, steers) < 0 {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return -1
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
}

func steers(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}
