package retrieve

// Mode says which nodes compete, and how.
type Mode string

// The modes. All of them honor MinLevel, MaxLevel, Documents and Metadata.
const (
	// Collapsed searches all levels at once. When packed by coverage, summaries count by SummaryWeight.
	Collapsed Mode = "collapsed"
	// Traversal walks down from the roots: of the nodes at hand the PerLevel best are kept, their children are at
	// hand on the next level. The winners of every level are candidates, or with LeavesOnly those of level 0.
	Traversal Mode = "traversal"
	// Blend lets all levels compete on similarity alone: summaries count as much as leaves.
	Blend Mode = "blend"
	// Boost multiplies the scores of summaries, and fetches Candidates times as many nodes before it does.
	Boost Mode = "boost"
	// Filter is Collapsed, by the name that says what MinLevel and MaxLevel are for.
	Filter Mode = "filter"
)

// Modes lists the modes in the order of the documentation.
func Modes() []Mode { return []Mode{Collapsed, Traversal, Blend, Boost, Filter} }

// Hops says how far a query goes.
type Hops string

// The ways.
const (
	// AutoHops is two for a query that names something, else one.
	AutoHops Hops = "auto"
	OneHop   Hops = "1"
	// TwoHops follows the rare terms of the first hits.
	TwoHops Hops = "2"
)

// Pack says how candidates are chosen until the budget is used up.
type Pack string

// The ways to pack.
const (
	// Coverage takes, again and again, the node that adds most for its cost to what the chosen ones say already.
	Coverage Pack = "coverage"
	// Similarity takes the best scores first; where a node doesn't fit, the next smaller one is tried.
	Similarity Pack = "similarity"
)

// Packs lists the ways to pack.
func Packs() []Pack { return []Pack{Coverage, Similarity} }

// Fusion says how the scores of vectors and keywords become one.
type Fusion string

// The fusions.
const (
	// Relative adds the two scores, each brought to 0…1 over what was fetched.
	Relative Fusion = "relative"
	// Reciprocal adds the reciprocals of the two ranks, and so needs no scale.
	Reciprocal Fusion = "reciprocal"
)

// Fusions lists the fusions.
func Fusions() []Fusion { return []Fusion{Relative, Reciprocal} }

// Request is one question to one corpus.
type Request struct {
	// Corpus is the name of the corpus. It can't be empty.
	Corpus string `json:"corpus"`
	// Query is the question. It can't be blank.
	Query string `json:"query"`
	// Vector, if not nil, is the query's embedding, and the embedder isn't asked. It must be of the corpus's
	// model; only its width can be checked.
	Vector []float32 `json:"-"`
	Options
}

// Settled returns the request with a value for every option but the bounds of levels: what it means, to be shown and not to be
// asked, since all its options count as given. It returns a *UsageError if a value is out of its range, and an *UnusedError
// for an option that was given and would have no effect.
func (r Request) Settled() (Request, error) {
	given := r.Options
	r.Options = given.settled()
	if err := r.validate(); err != nil {
		return r, err
	}
	return r, given.checkUsed(&r.Options)
}
