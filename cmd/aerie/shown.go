package main

import (
	"io"
	"strings"

	"github.com/aerie-rag/aerie/internal/printable"
)

// shown is a stream that people read, perhaps on a terminal: everything that goes to it passes the one filter for what comes from
// outside. In JSON nothing may be lost, so there what would steer a terminal is escaped.
type shown struct {
	to io.Writer
	c  *cli
}

// The only codes of terminals that pass are our own: they are written as these characters, which no text is made of (Unicode calls
// them noncharacters).
const boldOn, boldOff = "\ufdd0", "\ufdd1"

var ownCodes = strings.NewReplacer(boldOn, "\x1b[1m", boldOff, "\x1b[0m")

func (s *shown) Write(b []byte) (int, error) {
	text := string(b)
	if s.c.output == "json" || s.c.output == "jsonl" {
		text = printable.Escaped(text)
	} else {
		text = ownCodes.Replace(printable.Text(text))
	}
	if _, err := io.WriteString(s.to, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// bare returns the stream behind the filter, for what moves the cursor and shows no text from outside.
func bare(w io.Writer) io.Writer {
	if s, ok := w.(*shown); ok {
		return s.to
	}
	return w
}
