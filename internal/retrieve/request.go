package retrieve

import "slices"

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

// Request is one question to one corpus. Start from [NewRequest], which sets the defaults: the zero Request is
// not valid.
type Request struct {
	// Corpus is the name of the corpus. It can't be empty.
	Corpus string `json:"corpus"`
	// Query is the question. It can't be blank.
	Query string `json:"query"`
	// Vector, if not nil, is the query's embedding, and the embedder isn't asked. It must be of the corpus's
	// model; only its width can be checked.
	Vector []float32 `json:"-"`

	// Mode is how nodes are found; Collapsed by default.
	Mode Mode `json:"mode"`
	// Pack is how the budget is filled; Coverage by default.
	Pack Pack `json:"pack"`
	// Budget is the largest number of tokens that the hits' texts have together, 2000 by default; 0: no bound.
	Budget int `json:"budget"`
	// TopK is the largest number of hits; 0, the default: no bound.
	TopK int `json:"top_k"`

	// MinLevel and MaxLevel bound the level of hits, both inclusive, from 0; nil, the default: no bound.
	MinLevel *int `json:"min_level,omitempty"`
	MaxLevel *int `json:"max_level,omitempty"`
	// Documents, if not empty, keeps the hits of these documents. The summaries of a tree over a whole corpus
	// mix documents, so they are no hits then.
	Documents []string `json:"documents,omitempty"`
	// Metadata keeps the leaves that hold each of these values (string, float64 or bool). Summaries have no
	// metadata, so they are no hits then.
	Metadata map[string]any `json:"metadata,omitempty"`

	// Alpha is the weight of vectors against keywords, from 0 (keywords alone) to 1 (vectors alone); 1 by default, and
	// what DefaultAlpha says after Settle.
	Alpha float64 `json:"alpha"`
	// Fusion is how the two are put together where Alpha is neither 0 nor 1; Relative by default.
	Fusion Fusion `json:"fusion"`

	// Boost is the factor on summaries in mode Boost, above 0, 1.1 by default. It divides a negative score, so
	// that a factor above 1 always lifts.
	Boost float64 `json:"boost"`
	// Candidates is how many times as many nodes mode Boost fetches, so that what the boost lifts was fetched at
	// all: at least 1 (which shows what happens without), 3 by default.
	Candidates int `json:"candidates"`

	// PerLevel is how many nodes mode Traversal keeps of each level, at least 1, 40 by default.
	PerLevel int `json:"per_level"`
	// LeavesOnly makes the leaves that mode Traversal arrives at the only hits.
	LeavesOnly bool `json:"leaves_only"`

	// Pool is the number of nodes to choose from, at least 1, 150 by default; in modes Collapsed and Filter that many
	// leaves, and the summaries that rank among them. When the budget has room for more, more are fetched.
	Pool int `json:"pool"`
	// Sharpness says how fast relevance falls with the distance to the best hit: a node that is four standard
	// deviations of the pool below it is worth exp(-Sharpness) of it. At least 0; 2.5 by default.
	Sharpness float64 `json:"sharpness"`
	// Context is how much the leaves beside a leaf in its document add to its relevance when packed by coverage; at
	// least 0, 0.4 by default.
	Context float64 `json:"context"`
	// SummaryWeight is the factor on the relevance of summaries when packed by coverage, in the modes but Blend and
	// Boost; above 0, 0.7 by default.
	SummaryWeight float64 `json:"summary_weight"`

	// Stale returns summaries too that rest on text which was deleted or replaced since the build. Without it
	// they are held back until the next build, and Result.Notes says so.
	Stale bool `json:"stale"`
	// Explain asks for Result.Explain.
	Explain bool `json:"explain"`
}

// NewRequest returns a request with the defaults.
func NewRequest(corpus, query string) Request {
	return Request{
		Corpus: corpus, Query: query, Mode: Collapsed, Pack: Coverage, Budget: 2000,
		Alpha: 1, Fusion: Relative, Boost: 1.1, Candidates: 3, PerLevel: 40,
		Pool: 150, Sharpness: 2.5, Context: 0.4, SummaryWeight: 0.7,
	}
}

// DefaultAlpha is the Alpha that answers best: 0.7 where coverage packs, since its relevance gains from knowing which
// nodes hold the very words of the query; 1 for packing by similarity, which is the paper's and means vectors, and in
// a traversal, which compares nothing else.
func DefaultAlpha(mode Mode, pack Pack) float64 {
	if pack == Coverage && mode != Traversal {
		return 0.7
	}
	return 1
}

// Settle sets the defaults that depend on other options, once these are final. given names the options that were
// set on purpose and stay as they are, by their JSON names.
func (r *Request) Settle(given ...string) {
	if !slices.Contains(given, "alpha") {
		r.Alpha = DefaultAlpha(r.Mode, r.Pack)
	}
}

// Unused returns the options of names that have no effect in the request's mode, for a caller that wants to
// refuse an option which a person gave in vain. Names are those of the JSON fields.
func (r *Request) Unused(names ...string) []string {
	var unused []string
	for _, name := range names {
		used := true
		switch name {
		case "boost", "candidates":
			used = r.Mode == Boost
		case "per_level", "leaves_only":
			used = r.Mode == Traversal
		case "pool":
			used = r.Mode != Traversal
		case "alpha":
			used = r.Mode != Traversal
		case "fusion":
			used = r.Mode != Traversal && r.Alpha > 0 && r.Alpha < 1
		case "sharpness", "context":
			used = r.Pack == Coverage
		case "summary_weight":
			used = r.Pack == Coverage && r.Mode != Blend && r.Mode != Boost
		}
		if !used {
			unused = append(unused, name)
		}
	}
	return unused
}
