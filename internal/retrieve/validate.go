package retrieve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
)

// UsageError says what is wrong with a request, one sentence for each wrong value.
type UsageError struct {
	Problems []string
}

func (e *UsageError) Error() string { return strings.Join(e.Problems, "; ") }

// validate returns a *UsageError if a value of a settled request is out of its range.
func (r *Request) validate() error {
	var bad problems
	if r.Corpus == "" {
		bad.add("no corpus is named")
	}
	if strings.TrimSpace(r.Query) == "" {
		bad.add("the query is blank: ask something")
	}
	oneOf(&bad, "mode", *r.Mode, Modes())
	oneOf(&bad, "pack", *r.Pack, Packs())
	oneOf(&bad, "fusion", *r.Fusion, Fusions())
	oneOf(&bad, "hops", *r.Hops, []Hops{AutoHops, OneHop, TwoHops})
	atLeast(&bad, "budget", *r.Budget, 0, " (0: no bound)")
	atLeast(&bad, "top-k", *r.TopK, 0, " (0: no bound)")
	atLeast(&bad, "per-level", *r.PerLevel, 1, "")
	atLeast(&bad, "pool", *r.Pool, 1, "")
	if !(*r.Alpha >= 0 && *r.Alpha <= 1) {
		bad.add("alpha is %v: it must be between 0 (keywords alone) and 1 (vectors alone)", *r.Alpha)
	}
	if !(*r.Boost > 0) || math.IsInf(*r.Boost, 0) {
		bad.add("boost is %v: it must be a finite number above 0", *r.Boost)
	}
	if !(*r.Candidates >= 1) || *r.Candidates > mostCandidates {
		bad.add("candidates is %v: it must be within 1 to %d", *r.Candidates, mostCandidates)
	}
	if r.Overview != nil && !(*r.Overview >= 0 && *r.Overview <= 1) {
		bad.add("overview is %v: it must be within 0 (no room for upper levels alone) to 1 (nothing else)", *r.Overview)
	}
	if !(*r.Sharpness >= 0) || math.IsInf(*r.Sharpness, 0) {
		bad.add("sharpness is %v: it must be a finite number of at least 0", *r.Sharpness)
	}
	if !(*r.Context >= 0) || math.IsInf(*r.Context, 0) {
		bad.add("context is %v: it must be a finite number of at least 0", *r.Context)
	}
	if !(*r.SummaryWeight > 0) || math.IsInf(*r.SummaryWeight, 0) {
		bad.add("summary-weight is %v: it must be a finite number above 0", *r.SummaryWeight)
	}
	if *r.Mode == Traversal && *r.Alpha != 1 {
		bad.add("alpha is %v, but mode traversal compares vectors alone: leave alpha at 1 or choose another mode", *r.Alpha)
	}
	r.validateSizes(&bad)
	r.validateFilters(&bad)
	for _, x := range r.Vector {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			bad.add("the query's vector holds a value that is not finite")
			break
		}
	}
	return bad.err()
}

func (r *Request) validateFilters(bad *problems) {
	if r.MinLevel != nil {
		atLeast(bad, "min-level", *r.MinLevel, 0, " (0: leaves)")
	}
	if r.MaxLevel != nil {
		atLeast(bad, "max-level", *r.MaxLevel, 0, " (0: leaves)")
	}
	if r.MinLevel != nil && r.MaxLevel != nil && *r.MinLevel > *r.MaxLevel {
		bad.add("min-level %d is above max-level %d, so no node could be found", *r.MinLevel, *r.MaxLevel)
	}
	if *r.LeavesOnly && r.MinLevel != nil && *r.MinLevel > 0 {
		bad.add("min-level %d shuts out the leaves that leaves-only asks for", *r.MinLevel)
	}
	for _, d := range r.Documents {
		if d == "" {
			bad.add("a document to filter by has an empty id")
		}
	}
	conditions := store.Filter{Metadata: r.Metadata, Where: r.Where}
	for _, w := range conditions.Conditions() {
		if err := w.Check(); err != nil {
			bad.add("%v", err)
		}
	}
}

// problems collects the sentences of a UsageError.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &UsageError{Problems: p}
}

func oneOf[T ~string](bad *problems, name string, value T, valid []T) {
	if slices.Contains(valid, value) {
		return
	}
	names := make([]string, len(valid))
	for i, v := range valid {
		names[i] = string(v)
	}
	bad.add("%s %q is unknown: it is one of %s", name, value, strings.Join(names, ", "))
}

func atLeast(bad *problems, name string, value, least int, note string) {
	if value < least {
		bad.add("%s is %d: it must be at least %d%s", name, value, least, note)
	}
}

// The most that one query may ask for: what is beyond it takes the store's time and the memory of this process, and answers nothing
// better.
const (
	mostQueryBytes = 64 << 10
	mostDocuments  = 10_000
	mostMetadata   = 100
	mostPool       = 10_000
	mostCandidates = 100
	widestVector   = 65_535
)

// validateSizes bounds what comes from outside.
func (r *Request) validateSizes(bad *problems) {
	for _, size := range []struct {
		what      string
		got, most int
	}{
		{"query is of %d bytes: it may have %d", len(r.Query), mostQueryBytes}, {"documents are %d: there may be %d", len(r.Documents), mostDocuments},
		{"metadata has %d conditions: there may be %d", len(r.Metadata) + len(r.Where), mostMetadata}, {"pool is %d: it must be at most %d", *r.Pool, mostPool},
		{"per-level is %d: it must be at most %d", *r.PerLevel, mostPool},
		{"the query's vector has %d numbers: it may have %d", len(r.Vector), widestVector},
	} {
		if size.got > size.most {
			bad.add(size.what, size.got, size.most)
		}
	}
}
