package readers

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// dropRunning leaves out what stands at the head or foot of most pages, such as a title or a page number.
func dropRunning(pages [][]pdfLine) [][]pdfLine {
	if len(pages) < 3 {
		return pages
	}
	const edge = 2                               // lines of a page that may be running ones, at each end
	short := func(lines []pdfLine, i int) bool { // the one further in may be the text's own
		n := utf8.RuneCountInString(lines[i].text)
		return n < 60 || n < 120 && (i == 0 || i == len(lines)-1)
	}
	seen := map[string]int{}
	for _, lines := range pages {
		once := map[string]bool{}
		for _, i := range edges(len(lines), edge) {
			if key := running(lines[i].text); !once[key] && short(lines, i) {
				once[key] = true
				seen[key]++
			}
		}
	}
	need := max(3, len(pages)*2/5)
	kept, all := 0, 0
	for _, lines := range pages {
		for i, l := range lines {
			all += len(l.text)
			if !slices.Contains(edges(len(lines), edge), i) || seen[running(l.text)] < need || !short(lines, i) {
				kept += len(l.text)
			}
		}
	}
	if kept*2 < all { // pages that are alike, not heads of others
		return pages
	}
	out := make([][]pdfLine, len(pages))
	for p, lines := range pages {
		at := edges(len(lines), edge)
		for i, l := range lines {
			if slices.Contains(at, i) && seen[running(l.text)] >= need && short(lines, i) {
				continue
			}
			out[p] = append(out[p], l)
		}
	}
	return out
}

// edges are the first and the last lines of n.
func edges(n, edge int) []int {
	var at []int
	for i := range n {
		if i < edge || i >= n-edge {
			at = append(at, i)
		}
	}
	return at
}

// running is a line without its numbers: page numbers count up. One that is a number only is the same on all pages.
func running(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '#'
		}
		return r
	}, strings.ReplaceAll(text, "0", "#"))), " ")
}

// pdfText joins lines to paragraphs. A line that is set larger than most, short and alone, is a heading.
func pdfText(pages [][]pdfLine) string {
	body, wide := bodySize(pages), bodyWidth(pages)
	var blocks []string
	var at strings.Builder
	end := func() {
		if text := strings.TrimSpace(at.String()); text != "" {
			blocks = append(blocks, text)
		}
		at.Reset()
	}
	var last *pdfLine
	for _, lines := range pages {
		for i := range lines {
			l := &lines[i]
			heading := l.size > 1.15*body && utf8.RuneCountInString(l.text) < 120
			if last != nil && begins(*last, *l, i == 0, wide) || heading || last != nil && last.size > 1.15*body && l.size <= 1.15*body {
				if !(heading && last != nil && last.size == l.size && !strings.HasSuffix(at.String(), ".") && last.bottom-l.top < l.size && last.bottom > l.bottom && strings.HasPrefix(at.String(), "#")) {
					end()
				}
			}
			if heading && at.Len() == 0 {
				at.WriteString("## ")
			}
			join(&at, l.text)
			last = l
		}
	}
	end()
	return strings.Join(blocks, "\n\n")
}

// begins reports whether a line begins a paragraph after another.
func begins(last, l pdfLine, newPage bool, wide float64) bool {
	if isItem(l.text) {
		return true
	}
	ended := strings.ContainsAny(lastRune(last.text), ".!?:。！？")
	if newPage || l.top > last.bottom+l.size { // another page, or another column
		return ended
	}
	gap := last.bottom - l.top
	switch {
	case gap > 0.9*l.size:
		return true
	case l.left > last.left+l.size && last.right-last.left > 0.6*wide && ended: // an indented first line
		return true
	case last.right-last.left < 0.7*wide && ended && startsUpper(l.text): // the line before ends early
		return true
	}
	return false
}

func lastRune(text string) string {
	if text == "" {
		return ""
	}
	_, size := utf8.DecodeLastRuneInString(text)
	return text[len(text)-size:]
}

func startsUpper(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.IsUpper(r) || unicode.IsDigit(r)
}

// isItem reports whether a line begins an item of a list.
func isItem(text string) bool {
	for _, mark := range []string{"• ", "– ", "- ", "▪ ", "◦ ", "* ", "‣ ", "■ ", "● "} {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	return false
}

// join adds a line to a paragraph. A word that the line's end has parted is one again.
func join(at *strings.Builder, text string) {
	before := at.String()
	for _, mark := range []string{"\u00ad", "-"} {
		head, ok := strings.CutSuffix(before, mark)
		if !ok || head == "" {
			continue
		}
		r, _ := utf8.DecodeLastRuneInString(head)
		next, _ := utf8.DecodeRuneInString(text)
		if mark == "\u00ad" || unicode.IsLower(r) && unicode.IsLower(next) {
			at.Reset()
			at.WriteString(head + text)
			return
		}
		at.WriteString(text)
		return
	}
	if before != "" && !strings.HasSuffix(before, "## ") {
		r, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(text)
		if !(wideScript(r) && wideScript(next)) {
			at.WriteByte(' ')
		}
	}
	at.WriteString(text)
}

// wideScript reports whether words of a script stand without spaces.
func wideScript(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef
}

// bodySize is the size of type that most text is set in.
func bodySize(pages [][]pdfLine) float64 {
	chars := map[float64]int{}
	for _, lines := range pages {
		for _, l := range lines {
			chars[float64(int(l.size*2+0.5))/2] += len(l.text)
		}
	}
	best, most := 0.0, 0
	for size, n := range chars {
		if n > most || n == most && size < best {
			best, most = size, n
		}
	}
	return best
}

// bodyWidth is how wide full lines are.
func bodyWidth(pages [][]pdfLine) float64 {
	var widths []float64
	for _, lines := range pages {
		for _, l := range lines {
			widths = append(widths, l.right-l.left)
		}
	}
	if len(widths) == 0 {
		return 0
	}
	slices.Sort(widths)
	return widths[len(widths)*8/10]
}
