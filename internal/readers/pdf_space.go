package readers

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

// Gaps between two letters, in heights of their line. Spaces are a fifth and more, justified and kerned ones less; letters of one word
// stand side by side. Between the two bounds PDFium's word holds, which goes by the shapes of letters and not by their widths.
const (
	noGap   = 0.04
	wideGap = 0.13
)

// gap is what stands between two letters of a line that follow each other.
type gap struct {
	from, to int // bytes of the line between them
	width    float64
	spaced   bool // PDFium has a space there
}

// rawLine is a line as PDFium has it, with the gaps between its letters.
type rawLine struct {
	text string
	from int // its first character, as PDFium counts them
	gaps []gap
}

// measure finds the gaps of a line that is written from left to right.
func (l *rawLine) measure(instance pdfium.Pdfium, page references.FPDF_TEXTPAGE) {
	index, last, right := l.from, -1, 0.0
	for i, r := range l.text {
		at := index
		index += max(1, utf16.RuneLen(r))
		if unicode.IsSpace(r) || unicode.IsControl(r) || wideScript(r) || unicode.Is(unicode.Arabic, r) || unicode.Is(unicode.Hebrew, r) || unicode.Is(unicode.M, r) {
			if !unicode.IsSpace(r) {
				last = -1
			}
			continue
		}
		box, err := instance.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: page, Index: at})
		if err != nil {
			last = -1
			continue
		}
		left, height := float64(box.Rect.Left), float64(box.Rect.Top-box.Rect.Bottom)
		if last >= 0 && height > 0 {
			width := (left - right) / height
			if width > -1 { // else it doesn't follow to the right
				l.gaps = append(l.gaps, gap{from: last, to: i, width: width, spaced: i > last})
			}
		}
		last, right = i+utf8.RuneLen(r), float64(box.Rect.Right)
	}
}

// respace puts spaces where letters stand apart and takes them where letters don't, on a page whose letters say how wide they are: if
// that contradicts too much of what PDFium finds, the widths are wrong.
func respace(lines []rawLine) {
	apart, together, narrow, spaces := 0, 0, 0, 0
	for _, l := range lines {
		for _, g := range l.gaps {
			switch {
			case g.spaced && g.width < noGap:
				narrow++
				spaces++
			case g.spaced:
				spaces++
			case g.width > wideGap:
				apart++
			default:
				together++
			}
		}
	}
	if apart*5 > together || narrow*2 > spaces {
		return
	}
	for i := range lines {
		lines[i].text = lines[i].spaced()
	}
}

// spaced is the text of a line by its gaps.
func (l *rawLine) spaced() string {
	var out strings.Builder
	at := 0
	for _, g := range l.gaps {
		switch {
		case g.spaced && g.width < noGap:
			out.WriteString(l.text[at:g.from])
			at = g.to
		case !g.spaced && g.width > wideGap:
			out.WriteString(l.text[at:g.to] + " ")
			at = g.to
		}
	}
	out.WriteString(l.text[at:])
	return out.String()
}
