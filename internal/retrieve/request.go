package retrieve

import (
	"fmt"
	"math"
	"strings"
)

// Mode says which nodes compete, and how.
type Mode string

// The modes.
const (
	// Collapsed searches all levels at once.
	Collapsed Mode = "collapsed"
)

// Pack says how the candidates are chosen that fill the budget.
type Pack string

// The ways to pack.
const (
	// Similarity takes the best scores first; where a node doesn't fit, the next smaller one is tried.
	Similarity Pack = "similarity"
)

// Request is one question to one corpus. Start from [NewRequest], which sets the defaults: the zero Request is
// not valid.
type Request struct {
	// Corpus is the name of the corpus. It can't be empty.
	Corpus string
	// Query is the question. It can't be blank.
	Query string
	// Vector, if not nil, is the query's embedding, and the embedder isn't asked. Its model must be that of the
	// corpus; only the width can be checked.
	Vector []float32

	// Mode is how nodes are found; [Collapsed] by default.
	Mode Mode
	// Pack is how the budget is filled.
	Pack Pack
	// Budget is the largest number of tokens that the hits' texts may have together, 2000 by default; 0 means
	// no bound.
	Budget int
	// TopK is the largest number of hits; 0, the default, means no bound.
	TopK int
}

// NewRequest returns a request with the defaults.
func NewRequest(corpus, query string) Request {
	return Request{Corpus: corpus, Query: query, Mode: Collapsed, Pack: Similarity, Budget: 2000}
}

// UsageError says what is wrong with a request, one sentence for each wrong value.
type UsageError struct {
	Problems []string
}

func (e *UsageError) Error() string { return strings.Join(e.Problems, "; ") }

// Validate returns a *UsageError if a value is out of its range.
func (r *Request) Validate() error {
	var bad problems
	if r.Corpus == "" {
		bad.add("no corpus is named")
	}
	if strings.TrimSpace(r.Query) == "" {
		bad.add("the query is blank: ask something")
	}
	if r.Mode != Collapsed {
		bad.add("mode %q is unknown: it is one of collapsed", r.Mode)
	}
	if r.Pack != Similarity {
		bad.add("pack %q is unknown: it is one of similarity", r.Pack)
	}
	if r.Budget < 0 {
		bad.add("budget is %d tokens: it must be 0 (no bound) or more", r.Budget)
	}
	if r.TopK < 0 {
		bad.add("top-k is %d: it must be 0 (no bound) or more", r.TopK)
	}
	for _, x := range r.Vector {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			bad.add("the query's vector holds a value that is not finite")
			break
		}
	}
	return bad.err()
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
