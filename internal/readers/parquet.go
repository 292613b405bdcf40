package readers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// readParquet reads rows as JSONL has them.
func readParquet(ctx context.Context, data []byte, _ Tools) (out Result, err error) {
	defer func() {
		if r := recover(); r != nil { // what a broken file makes of its decoder
			out, err = Result{}, fmt.Errorf("it is broken: %v", r)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return Result{}, fmt.Errorf("it is broken, or no Parquet: %w", err)
	}
	r := parquet.NewGenericReader[any](file)
	defer r.Close()
	const atOnce = 64
	left := mostUnpacked
	for {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		rows := make([]any, atOnce)
		n, err := r.Read(rows)
		for _, row := range rows[:n] {
			line, jsonErr := json.Marshal(row)
			if jsonErr != nil {
				return Result{}, fmt.Errorf("row %d: %w", len(out.Lines)+1, jsonErr)
			}
			if left -= len(line); left < 0 {
				return Result{}, errBomb
			}
			out.Lines = append(out.Lines, line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, fmt.Errorf("row %d: %w", len(out.Lines)+1, err)
		}
	}
	if len(out.Lines) == 0 {
		return Result{}, errNoText
	}
	return out, nil
}
