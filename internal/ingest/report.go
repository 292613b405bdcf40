package ingest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/aerie-rag/aerie/internal/corpus"
)

// mostErrors is the number of problems that a report lists; all are counted.
const mostErrors = 1000

// Report says what an ingest or a deletion did. It is written as JSON by `aerie ingest`.
type Report struct {
	Corpus    string         `json:"corpus"`
	Documents Documents      `json:"documents"`
	Leaves    Leaves         `json:"leaves"`
	Skipped   map[string]int `json:"skipped"` // by reason
	// Errors are the first problems in the order of the input, at most 1,000; ErrorCount counts all.
	Errors     []corpus.Problem `json:"errors"`
	ErrorCount int              `json:"error_count"`
}

// Documents counts documents by what became of them. One is failed if any of it was left out: a broken row, a chunk that
// could not be embedded.
type Documents struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Removed   int `json:"removed"`
	Failed    int `json:"failed"`
}

// Leaves counts leaves. Total is that of the corpus afterwards.
type Leaves struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Total   int `json:"total"`
}

// LeftOut reports whether something of the input isn't in the corpus that should be: the exit code is 3 then.
func (r *Report) LeftOut() bool { return r.ErrorCount > 0 || r.Documents.Failed > 0 }

// tally collects a report from many goroutines.
type tally struct {
	sync.Mutex
	Report
	order map[string]int // of sources, as they came
}

func newTally(name string) *tally {
	return &tally{Report: Report{Corpus: name, Skipped: map[string]int{}, Errors: []corpus.Problem{}}, order: map[string]int{}}
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
		t.Errors = append(t.Errors, p)
	}
}

func (t *tally) skip(reason string) {
	t.Lock()
	defer t.Unlock()
	t.Skipped[reason]++
}

// finished returns the report with its problems in order.
func (t *tally) finished() Report {
	t.Lock()
	defer t.Unlock()
	slices.SortStableFunc(t.Errors, func(a, b corpus.Problem) int {
		return cmp.Or(cmp.Compare(t.order[a.Source], t.order[b.Source]), cmp.Compare(a.Line, b.Line))
	})
	return t.Report
}
