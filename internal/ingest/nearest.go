package ingest

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/store"
)

// nearestIDs is the number of ids that are suggested for one that doesn't exist.
const nearestIDs = 3

// unknownError is an api.ErrUnknown with a sentence of its own.
type unknownError struct{ text string }

func (e *unknownError) Error() string        { return e.text }
func (e *unknownError) Is(target error) bool { return target == api.ErrUnknown }

// unknown is the error that names documents that don't exist.
func (in *Ingester) unknown(ctx context.Context, name string, ids []string) error {
	near := make([]suggestions, len(ids))
	err := in.store.Documents(ctx, name, "", func(d store.Document) error {
		for i, id := range ids {
			near[i].add(id, d.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ingest: corpus %s: %w", name, err)
	}
	var parts []string
	for i, id := range ids {
		parts = append(parts, fmt.Sprintf("no document %q%s", id, near[i].phrase()))
	}
	return &unknownError{fmt.Sprintf("ingest: corpus %s has %s", name, strings.Join(parts, "; "))}
}

// noCorpus is the error that names a corpus that doesn't exist.
func (in *Ingester) noCorpus(ctx context.Context, name string) error {
	names, err := in.corpora.List(ctx)
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	var near suggestions
	for _, other := range names {
		near.add(name, other)
	}
	return &unknownError{fmt.Sprintf("ingest: there is no corpus %q%s", name, near.phrase())}
}

// suggestions are the nearest ids so far, best first.
type suggestions []suggestion

type suggestion struct {
	id       string
	distance int
}

func (s *suggestions) add(want, id string) {
	d := distance(want, id)
	if path.Base(want) == path.Base(id) {
		d = 0 // the same file, under another folder
	}
	if d > max(len(want), len(id))*2/3 {
		return
	}
	*s = append(*s, suggestion{id, d})
	slices.SortFunc(*s, func(a, b suggestion) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.id, b.id))
	})
	if len(*s) > nearestIDs {
		*s = (*s)[:nearestIDs]
	}
}

func (s suggestions) phrase() string {
	if len(s) == 0 {
		return ""
	}
	ids := make([]string, len(s))
	for i, x := range s {
		ids[i] = x.id
	}
	return " (nearest: " + strings.Join(ids, ", ") + ")"
}

// distance returns the Levenshtein distance of two ids by bytes, or a large number if they are too long to be typed.
func distance(a, b string) int {
	const longest = 500
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
