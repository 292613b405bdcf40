package readers

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/xuri/excelize/v2"
)

// readXlsx reads each sheet as a table: its first row with more than one cell names the columns, each row after it is a leaf.
func readXlsx(ctx context.Context, data []byte, _ Tools) (Result, error) {
	if _, err := openArchive(data); err != nil {
		return Result{}, err
	}
	f, err := excelize.OpenReader(bytes.NewReader(data), excelize.Options{UnzipSizeLimit: mostUnpacked, UnzipXMLSizeLimit: mostUnpacked})
	if err != nil {
		return Result{}, fmt.Errorf("it is broken: %w", err)
	}
	defer f.Close()
	var out Result
	for _, sheet := range f.GetSheetList() {
		if visible, err := f.GetSheetVisible(sheet); err == nil && !visible {
			continue
		}
		rows, err := f.Rows(sheet)
		if err != nil { // a sheet of charts
			continue
		}
		texts, err := sheetRows(ctx, sheet, rows)
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return Result{}, fmt.Errorf("sheet %s: %w", sheet, err)
		}
		out.Rows = append(out.Rows, texts...)
	}
	if len(out.Rows) == 0 {
		return Result{}, errNoText
	}
	return out, nil
}

func sheetRows(ctx context.Context, sheet string, rows *excelize.Rows) ([]string, error) {
	var head []string
	var texts []string
	for rows.Next() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		row, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		filled := 0
		for _, cell := range row {
			if strings.TrimSpace(cell) != "" {
				filled++
			}
		}
		switch {
		case filled == 0:
		case head == nil && filled > 1:
			head = row
		default:
			texts = append(texts, sheet+"\n"+rowText(head, row))
		}
	}
	if len(texts) == 0 && head != nil {
		texts = append(texts, sheet+"\n"+strings.Join(head, ", "))
	}
	return texts, nil
}
