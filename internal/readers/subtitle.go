package readers

import (
	"context"
	"regexp"
	"strings"
)

var (
	cueTime = regexp.MustCompile(`^\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}`)
	cueTag  = regexp.MustCompile(`</?[a-zA-Z][^>]*>|<\d[\d:.]*>|\{\\[^}]*\}`)
)

// readSubtitles takes what is said, without times: lines that go on in the next cue are one sentence.
func readSubtitles(_ context.Context, data []byte, t Tools) (Result, error) {
	text, line, err := Decode(data, t.Encoding)
	if err != nil {
		return Result{}, atLine(line, err)
	}
	var said []string
	speaking := false // within a cue
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case cueTime.MatchString(line):
			speaking = true
		case line == "":
			speaking = false
		case speaking:
			line = strings.TrimSpace(cueTag.ReplaceAllString(line, ""))
			if line != "" && line != last { // captions that roll say a line twice
				said = append(said, line)
				last = line
			}
		}
	}
	return one(paragraphs(said))
}

// paragraphs joins lines into sentences and parts them now and then where one ends.
func paragraphs(lines []string) string {
	const long = 600 // bytes
	var b strings.Builder
	since := 0
	for i, line := range lines {
		if i > 0 {
			ends := strings.ContainsAny(lines[i-1][len(lines[i-1])-1:], ".?!") || strings.HasSuffix(lines[i-1], "。")
			if ends && since > long || strings.HasPrefix(line, "- ") {
				b.WriteString("\n\n")
				since = 0
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(line)
		since += len(line)
	}
	return b.String()
}
