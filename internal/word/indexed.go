package word

import "strings"

// Indexed returns the words of a text as Segment does, and those of its context that the text lacks: what both say counts once.
func Indexed(context, text string) string {
	words := Segment(text, false)
	if context == "" {
		return words
	}
	known := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		known[w] = true
	}
	var b strings.Builder
	b.WriteString(words)
	for w := range strings.FieldsSeq(Segment(context, false)) {
		if !known[w] {
			known[w] = true
			b.WriteByte(' ')
			b.WriteString(w)
		}
	}
	return b.String()
}
