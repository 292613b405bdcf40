package retrieve

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Options are the options of a query. Nil is one that wasn't given, which has its default; the names in JSON are those of
// the API, of an arm of aerie eval, and with dashes of the flags.
type Options struct {
	// Mode is how nodes are found.
	Mode *Mode `json:"mode,omitempty" doc:"collapsed (default), traversal, blend, boost or filter"`
	// Pack is how the budget is filled.
	Pack *Pack `json:"pack,omitempty" doc:"how the budget is filled: coverage (default) or similarity"`
	// Budget is the largest number of tokens that the hits' texts have together.
	Budget *int `json:"budget,omitempty" doc:"most tokens of all hits together; 0: no limit; default 2000"`
	// TopK is the largest number of hits.
	TopK *int `json:"top_k,omitempty" doc:"most hits; 0, the default: no limit"`

	// MinLevel and MaxLevel bound the level of hits, both inclusive, from 0; nil: no bound.
	MinLevel *int `json:"min_level,omitempty" doc:"lowest level of a hit"`
	MaxLevel *int `json:"max_level,omitempty" doc:"highest level of a hit"`
	// Documents, if not empty, keeps the hits of these documents. The summaries of a tree over a whole corpus
	// mix documents, so they are no hits then.
	Documents []string `json:"documents,omitempty" doc:"only hits of these documents"`
	// Metadata keeps the leaves that hold each of these values (string, float64 or bool). Summaries have no
	// metadata, so they are no hits then.
	Metadata tree.Metadata `json:"metadata,omitempty" doc:"only leaves with these values (text, number or boolean)"`
	// Where keeps the leaves that meet each of these conditions too.
	Where []store.Where `json:"where,omitempty" doc:"only leaves whose metadata meets each of these conditions; != keeps those without the key too"`

	// Alpha is the weight of vectors against keywords, from 0 (keywords alone) to 1 (vectors alone).
	Alpha *float64 `json:"alpha,omitempty" doc:"weight of vectors against keywords, 0 to 1; default 0.7 with pack coverage, else 1"`
	// Fusion is how the two are put together where Alpha is neither 0 nor 1.
	Fusion *Fusion `json:"fusion,omitempty" doc:"how the two become one score: relative (default) or reciprocal"`

	// Boost is the factor on summaries in mode Boost, above 0. It divides a negative score, so that a factor above 1
	// always lifts.
	Boost *float64 `json:"boost,omitempty" doc:"mode boost: factor on summaries; default 1.1"`
	// Candidates is how many times as many nodes mode Boost fetches, so that what the boost lifts was fetched at
	// all: at least 1, which shows what happens without.
	Candidates *float64 `json:"candidates,omitempty" doc:"mode boost: how many times as many nodes are fetched, such as 1.5; default 3"`

	// PerLevel is how many nodes mode Traversal keeps of each level, at least 1.
	PerLevel *int `json:"per_level,omitempty" doc:"mode traversal: nodes kept of each level; default 40"`
	// LeavesOnly makes the leaves that mode Traversal arrives at the only hits.
	LeavesOnly *bool `json:"leaves_only,omitempty" doc:"mode traversal: leaves are the only hits"`

	// Pool is the number of nodes to choose from, at least 1; in modes Collapsed and Filter that many leaves, and the
	// summaries that rank among them. When the budget has room for more, more are fetched.
	Pool *int `json:"pool,omitempty" doc:"nodes that are fetched before packing; default 150"`
	// Sharpness says how fast relevance falls with the distance to the best hit: a node that is four standard
	// deviations of the pool below it is worth exp(-Sharpness) of it. At least 0.
	Sharpness *float64 `json:"sharpness,omitempty" doc:"pack coverage: how fast relevance falls; default 2.5"`
	// Context is how much the leaves beside a leaf in its document add to its relevance when packed by coverage; at
	// least 0.
	Context *float64 `json:"context,omitempty" doc:"pack coverage: how much relevant neighbors lift a leaf; default 0.4"`
	// SummaryWeight is the factor on the relevance of summaries when packed by coverage, in the modes but Blend and
	// Boost; above 0.
	SummaryWeight *float64 `json:"summary_weight,omitempty" doc:"pack coverage: factor on the relevance of summaries; default 0.7"`

	// Hops says whether what the first hits name is followed to other leaves.
	Hops *Hops `json:"hops,omitempty" doc:"1: only what resembles the query; 2: also what the first hits point to by rare terms; auto (default): 2 if the query names something"`

	// Parents puts a summary in the place of hits that are at least half of its children, where the budget allows.
	Parents *bool `json:"parents,omitempty" doc:"a summary in the place of hits that are at least half of its children"`
	// Overview is the share of the budget, and of the number of hits, that the upper levels have for themselves, 0 to 1. Nil
	// means that the query decides: a half for one that asks about the whole ([Broad]), else nothing.
	Overview *float64 `json:"overview,omitempty" doc:"share of the budget for upper levels alone, 0 to 1; default 0.5 for a query about the whole, else 0"`

	// Stale returns summaries too that rest on text which was deleted or replaced since the build. Without it
	// they are held back until the next build, and Result.Notes says so.
	Stale *bool `json:"stale,omitempty" doc:"summaries too whose text was deleted or replaced since the build"`
	// Explain asks for Result.Explain.
	Explain *bool `json:"explain,omitempty" doc:"say what became of every candidate"`
}

// Defaults returns the options of a query to which nothing is said. Bounds of levels have none.
func Defaults() Options { return Options{}.settled() }

// settled returns the options with a value for each but the bounds of levels.
func (o Options) settled() Options {
	settle(&o.Mode, o.mode())
	settle(&o.Pack, Coverage)
	settle(&o.Budget, 2000)
	settle(&o.TopK, 0)
	settle(&o.Alpha, defaultAlpha(*o.Mode, *o.Pack))
	settle(&o.Fusion, Relative)
	settle(&o.Boost, 1.1)
	settle(&o.Candidates, 3)
	settle(&o.PerLevel, 40)
	settle(&o.LeavesOnly, false)
	settle(&o.Pool, 150)
	settle(&o.Sharpness, 2.5)
	settle(&o.Context, 0.4)
	settle(&o.SummaryWeight, 0.7)
	settle(&o.Hops, AutoHops)
	settle(&o.Parents, false)
	settle(&o.Stale, false)
	settle(&o.Explain, false)
	return o
}

func settle[T any](option **T, value T) {
	if *option == nil {
		*option = &value
	}
}

// mode is that which was given, or else the one that the options which were given belong to.
func (o *Options) mode() Mode {
	switch {
	case o.Mode != nil:
		return *o.Mode
	case o.PerLevel != nil || o.LeavesOnly != nil:
		return Traversal
	case o.Boost != nil || o.Candidates != nil:
		return Boost
	}
	return Collapsed
}

// defaultAlpha is the Alpha that answers best: 0.7 where coverage packs, since its relevance gains from knowing which
// nodes hold the very words of the query; 1 for packing by similarity, which is the paper's and means vectors, and in
// a traversal, which compares nothing else.
func defaultAlpha(mode Mode, pack Pack) float64 {
	if pack == Coverage && mode != Traversal {
		return 0.7
	}
	return 1
}

// UnusedError says that an option was given which has no effect beside the others.
type UnusedError struct {
	Option string // its name in JSON
	Mode   Mode
	Pack   Pack
	Alpha  float64
}

func (e *UnusedError) Error() string {
	return fmt.Sprintf("%s has no effect with mode %s, pack %s and alpha %v", e.Option, e.Mode, e.Pack, e.Alpha)
}

// checkUsed returns an *UnusedError for the first option that was given in vain. settled is what became of the options.
func (o *Options) checkUsed(settled *Options) error {
	mode, pack, alpha := *settled.Mode, *settled.Pack, *settled.Alpha
	for _, x := range []struct {
		option      string
		given, used bool
	}{
		{"alpha", o.Alpha != nil, mode != Traversal},
		{"fusion", o.Fusion != nil, mode != Traversal && alpha > 0 && alpha < 1},
		{"boost", o.Boost != nil, mode == Boost},
		{"candidates", o.Candidates != nil, mode == Boost},
		{"per_level", o.PerLevel != nil, mode == Traversal},
		{"leaves_only", o.LeavesOnly != nil, mode == Traversal},
		{"pool", o.Pool != nil, mode != Traversal},
		{"overview", o.Overview != nil, mode != Traversal && mode != Filter},
		{"hops", o.Hops != nil, (mode == Collapsed || mode == Filter) && alpha > 0 && alpha < 1 && *settled.Fusion == Relative},
		{"sharpness", o.Sharpness != nil, pack == Coverage},
		{"context", o.Context != nil, pack == Coverage},
		{"summary_weight", o.SummaryWeight != nil, pack == Coverage && mode != Blend && mode != Boost},
	} {
		if x.given && !x.used {
			return &UnusedError{x.option, mode, pack, alpha}
		}
	}
	return nil
}

// option is one of the options that are a single value, and how it is read.
type option struct {
	name, wanted string
	set          func(text string) error
}

func (o *Options) all() []option {
	return []option{
		named("mode", &o.Mode), named("pack", &o.Pack), whole("budget", &o.Budget), whole("top_k", &o.TopK),
		whole("min_level", &o.MinLevel), whole("max_level", &o.MaxLevel), decimal("alpha", &o.Alpha), named("fusion", &o.Fusion),
		decimal("boost", &o.Boost), decimal("candidates", &o.Candidates), whole("per_level", &o.PerLevel), truth("leaves_only", &o.LeavesOnly),
		whole("pool", &o.Pool), decimal("sharpness", &o.Sharpness), decimal("context", &o.Context),
		decimal("summary_weight", &o.SummaryWeight), named("hops", &o.Hops), truth("parents", &o.Parents), decimal("overview", &o.Overview), truth("stale", &o.Stale), truth("explain", &o.Explain),
	}
}

func read[T any](name, wanted string, to **T, parse func(string) (T, error)) option {
	return option{name, wanted, func(text string) error {
		value, err := parse(text)
		*to = &value
		return err
	}}
}

func whole(name string, to **int) option { return read(name, "a whole number", to, strconv.Atoi) }

func truth(name string, to **bool) option { return read(name, "true or false", to, strconv.ParseBool) }

func decimal(name string, to **float64) option {
	return read(name, "a number", to, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

func named[T ~string](name string, to **T) option {
	return read(name, "a word", to, func(text string) (T, error) { return T(text), nil })
}

// Names lists the options that Set knows: all but Documents, Metadata and Where.
func Names() []string {
	var names []string
	for _, option := range new(Options).all() {
		names = append(names, option.name)
	}
	return names
}

// Set gives an option the value that a text stands for. Whether the value is in its range is for Settled to say. It panics at
// a name that isn't one of Names.
func (o *Options) Set(name, text string) error {
	all := o.all()
	option := all[slices.IndexFunc(all, func(x option) bool { return x.name == name })]
	if err := option.set(text); err != nil {
		return fmt.Errorf("%s is %q; it must be %s", name, text, option.wanted)
	}
	return nil
}
