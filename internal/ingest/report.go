package ingest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
)

// mostErrors is the number of problems that a report lists; all are counted.
const mostErrors = 1000

// tally collects a report from many goroutines.
type tally struct {
	sync.Mutex
	api.IngestReport
	order map[string]int // of sources, as they came
}

func newTally(name string) *tally {
	return &tally{IngestReport: api.IngestReport{Corpus: name, Skipped: map[string]int{}, Errors: []api.InputError{}}, order: map[string]int{}}
}

// problem adds a problem.
func (t *tally) problem(p corpus.Problem) {
	t.Lock()
	defer t.Unlock()
	t.ErrorCount++
	if _, ok := t.order[p.Source]; !ok {
		t.order[p.Source] = len(t.order)
	}
	if len(t.Errors) < mostErrors {
		t.Errors = append(t.Errors, api.InputError{Source: p.Source, Line: p.Line, Error: p.Error})
	}
}

func (t *tally) skip(source, reason string) {
	t.Lock()
	defer t.Unlock()
	t.Skipped[reason]++
	if source != "" && len(t.SkippedFiles) < mostErrors {
		t.SkippedFiles = append(t.SkippedFiles, api.SkippedFile{Source: source, Reason: reason})
	}
}

// warn adds something that a person may not expect.
func (t *tally) warn(source, text string) {
	t.Lock()
	defer t.Unlock()
	if len(t.Warnings) < mostErrors {
		t.Warnings = append(t.Warnings, api.InputError{Source: source, Error: text})
	}
}

// finished returns the report with its problems in order.
func (t *tally) finished() api.IngestReport {
	t.Lock()
	defer t.Unlock()
	slices.SortStableFunc(t.Errors, func(a, b api.InputError) int {
		return cmp.Or(cmp.Compare(t.order[a.Source], t.order[b.Source]), cmp.Compare(a.Line, b.Line))
	})
	return t.IngestReport
}
