package readers

import "testing"

// spacedLine is a line whose letters are half as wide as high, with a gap after each where gaps has one.
func spacedLine(text string, gaps map[int]float64) rawLine {
	l := rawLine{text: text}
	last := -1
	for i, r := range text {
		if r == ' ' {
			continue
		}
		if last >= 0 {
			l.gaps = append(l.gaps, gap{from: last, to: i, width: gaps[last], spaced: i > last})
		}
		last = i + 1
	}
	return l
}

// TestPDFSpaces: words are parted where letters stand apart, and nowhere else, whatever PDFium makes of their shapes; where the widths
// that a file gives its letters can't be right, PDFium's word holds.
func TestPDFSpaces(t *testing.T) {
	lines := []rawLine{
		spacedLine("theorigins of go, fur ther on in th e book", map[int]float64{3: 0.2, 10: 0.2, 13: 0.2, 17: 0.2, 21: 0.0, 26: 0.2, 29: 0.2, 32: 0.2, 35: 0.01, 37: 0.2}),
		spacedLine("between the bounds", map[int]float64{7: 0.08, 11: 0.06}),
	}
	respace(lines)
	for i, want := range []string{"the origins of go, further on in the book", "between the bounds"} {
		if lines[i].text != want {
			t.Errorf("%q, want %q", lines[i].text, want)
		}
	}
	for name, gaps := range map[string]map[int]float64{
		"letters as narrow as nothing": {1: 0.5, 2: 0.5, 3: 0.5, 7: 0.5},
		"letters as wide as spaces":    {},
	} {
		lines := []rawLine{spacedLine("word of", gaps)}
		if respace(lines); lines[0].text != "word of" {
			t.Errorf("%s: %q", name, lines[0].text)
		}
	}
}
