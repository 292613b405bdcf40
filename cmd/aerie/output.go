package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/aerie-rag/aerie/internal/printable"
)

// print writes a result to stdout: the value as JSON, or what table makes of it.
func (c *cli) print(v any, table func(w io.Writer)) error {
	if c.output == "table" {
		var b strings.Builder
		table(&b)
		_, err := io.WriteString(c.out, b.String())
		return err
	}
	return c.printJSON(v)
}

// printJSON writes one value: spread out for json, on one line for jsonl.
func (c *cli) printJSON(v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	if c.output == "json" {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// note writes a line for people to stderr. Several goroutines may have something to say, and so may the log.
func (c *cli) note(format string, args ...any) {
	c.logTo.mu.Lock()
	defer c.logTo.mu.Unlock()
	fmt.Fprintf(c.err, format+"\n", args...)
}

// table writes rows in columns: the first row is the heading, and numbers stand to the right.
func table(w io.Writer, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	width := make([]int, len(rows[0]))
	right := make([]bool, len(rows[0]))
	for j := range rows[0] {
		right[j] = len(rows) > 1
		for i, row := range rows {
			width[j] = max(width[j], len([]rune(row[j])))
			if i > 0 && !numeric(row[j]) {
				right[j] = false
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", width[j]-len([]rune(cell)))
			if right[j] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// numeric reports whether a cell is a number or stands for a missing one.
func numeric(cell string) bool {
	cell = strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(cell, ",", ""), " s"), " %")
	cell = strings.TrimPrefix(cell, "~")
	if cell == "" || cell == "-" {
		return true
	}
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil
}

// pairs writes names and values in two columns.
func pairs(w io.Writer, kv ...string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(kv); i += 2 {
		fmt.Fprintf(tw, "%s\t%s\n", kv[i], kv[i+1])
	}
	tw.Flush()
}

// count writes a number with its thousands apart.
func count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural writes a count with its word: 1 leaf, 2 leaves.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// seconds writes a time for people.
func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	}
	return count(int(s)) + " s"
}

// terminal reports whether a stream is a terminal, and how wide.
func terminal(stream any) (columns int, ok bool) {
	if s, ok := stream.(*shown); ok {
		stream = s.to
	}
	f, isFile := stream.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 20 {
		columns = 80
	}
	return columns, true
}

// colored reports whether a stream takes color: a terminal, without NO_COLOR (no-color.org: set to anything but the
// empty text) and not a dumb one.
func (c *cli) colored(stream any) bool {
	_, ok := terminal(stream)
	return ok && c.lookupEnv("NO_COLOR") == "" && c.lookupEnv("TERM") != "dumb"
}

// bold wraps a text in the terminal's codes for bold, if they are on.
func bold(on bool, text string) string {
	if !on {
		return text
	}
	return boldOn + text + boldOff
}

// firstLine cuts a text to one line of at most n characters.
func firstLine(text string, n int) string {
	r := []rune(strings.Join(strings.Fields(printable.Text(text)), " "))
	if n < 1 {
		n = 1
	}
	if len(r) <= n {
		return string(r)
	}
	return strings.TrimRight(string(r[:n-1]), " ") + "…"
}
