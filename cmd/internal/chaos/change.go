package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
)

// change is what becomes of a corpus between two generations: documents that come or are replaced, and documents that go.
type change struct {
	file string // of rows; "" for none
	gone []string
}

// changesOf are those of a round: most documents; the others; some edited, and one deleted; and that one again, with more edits and
// another one deleted.
func (t *test) changesOf(k int, corpus string) ([]change, error) {
	rows := t.rowsOf(k)
	most := len(rows) * 3 / 4 / 40 * 40 // whole documents
	edited := func(documents ...int) []row {
		var out []row
		for _, d := range documents {
			from := len(out)
			for _, r := range rows {
				if r.Document == document(d) {
					out = append(out, r)
				}
			}
			if len(out) > from+7 {
				out[from+7].Text += fmt.Sprintf(" Edited in round %d.", k)
			}
		}
		return out
	}
	parts := []struct {
		rows []row
		gone []string
	}{
		{rows[:most], nil}, {rows, nil}, {edited(1, 3), []string{document(2)}}, {append(edited(0, 1), edited(2)...), []string{document(4)}},
	}
	var out []change
	for g, part := range parts {
		file, err := t.write(fmt.Sprintf("%s-%d.jsonl", corpus, g), part.rows)
		if err != nil {
			return nil, err
		}
		out = append(out, change{file, part.gone})
	}
	if len(rows) < 5*40 {
		return nil, fmt.Errorf("%d leaves are too few: documents 0 to 4 have 40 each", len(rows))
	}
	return out, nil
}

func document(d int) string { return fmt.Sprintf("d%03d", d) }

// apply makes a change through whichever coordinator answers. It may be made twice, after an answer that was lost.
func (t *test) apply(ctx context.Context, corpus string, c change) error {
	if c.file != "" {
		err := t.fleet.ask(ctx, func(to *client.Client) error {
			_, err := ingest.Remote{To: to}.Ingest(ctx, ingest.Request{Corpus: corpus, Paths: []string{c.file}})
			return err
		})
		if err != nil {
			return fmt.Errorf("ingest: %w", err)
		}
	}
	if len(c.gone) == 0 {
		return nil
	}
	err := t.fleet.ask(ctx, func(to *client.Client) error {
		_, err := to.Delete(ctx, corpus, c.gone)
		if errors.Is(err, api.ErrUnknown) {
			return nil // gone already
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// untilPlanned waits until the leaves of the build of a generation are chosen, so that what comes after belongs to the next one.
func (t *test) untilPlanned(ctx context.Context, corpus string, generation int) error {
	for {
		state, err := t.fleet.places.Builds.Load(ctx, corpus)
		if err == nil && state.Generation == generation && (state.Resting() || len(state.Levels) > 0 && state.Levels[0].Phase != levels.Planning) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
