package readers

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readTable reads a table whose first row names its columns: each other row is a leaf, "column: value" by lines.
func readTable(comma rune) func(context.Context, []byte, Tools) (Result, error) {
	return func(ctx context.Context, data []byte, t Tools) (Result, error) {
		text, _, err := Decode(data, t.Encoding)
		if err != nil {
			return Result{}, err
		}
		separator := comma
		if comma == ',' && semicolons(text) {
			separator = ';'
		}
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = separator, -1, true, false
		head, err := r.Read()
		if errors.Is(err, io.EOF) {
			return Result{}, errNoText
		}
		if err != nil {
			return Result{}, fmt.Errorf("its first row: %w", err)
		}
		var out Result
		for {
			row, err := r.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return Result{}, err
			}
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			if text := rowText(head, row); text != "" {
				out.Rows = append(out.Rows, text)
			}
		}
		if len(out.Rows) == 0 { // one row: no table, a line
			return one(strings.Join(head, ", "))
		}
		return out, nil
	}
}

// semicolons reports whether the first line is parted by semicolons, as spreadsheets write it where the comma is in numbers.
func semicolons(text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	return strings.Count(first, ";") > strings.Count(first, ",")
}

// rowText is a row of a table by its columns. Cells beyond the columns stand alone; empty ones are left out.
func rowText(head, row []string) string {
	var b strings.Builder
	for i, cell := range row {
		cell = strings.TrimSpace(cell)
		if cell == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if i < len(head) && strings.TrimSpace(head[i]) != "" {
			b.WriteString(strings.TrimSpace(head[i]) + ": ")
		}
		b.WriteString(cell)
	}
	return b.String()
}

// cellText is a text within a row of a Markdown table.
func cellText(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// markdownTable writes rows as Markdown has tables: the first is the head.
func markdownTable(rows [][]string) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	var b strings.Builder
	for i, row := range rows {
		b.WriteByte('|')
		for c := range width {
			cell := ""
			if c < len(row) {
				cell = cellText(row[c])
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteByte('\n')
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", width) + "\n")
		}
	}
	return b.String()
}
