package api

import (
	"reflect"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Query is a question with the options that were given; the others have the defaults of [retrieve.NewRequest].
type Query struct {
	Query         string           `json:"query" doc:"the question"`
	Vector        []float32        `json:"vector,omitempty" doc:"the embedding of the question, by the model of the corpus; no embedder is asked then"`
	Mode          *retrieve.Mode   `json:"mode,omitempty" doc:"collapsed (default), traversal, blend, boost or filter"`
	Pack          *retrieve.Pack   `json:"pack,omitempty" doc:"how the budget is filled: coverage (default) or similarity"`
	Budget        *int             `json:"budget,omitempty" doc:"most tokens of all hits together; 0: no limit; default 2000"`
	TopK          *int             `json:"top_k,omitempty" doc:"most hits; 0, the default: no limit"`
	MinLevel      *int             `json:"min_level,omitempty" doc:"lowest level of a hit"`
	MaxLevel      *int             `json:"max_level,omitempty" doc:"highest level of a hit"`
	Documents     []string         `json:"documents,omitempty" doc:"only hits of these documents"`
	Metadata      map[string]any   `json:"metadata,omitempty" doc:"only leaves with these values (text, number or boolean)"`
	Alpha         *float64         `json:"alpha,omitempty" doc:"weight of vectors against keywords, 0 to 1; default 0.7 with pack coverage, else 1"`
	Fusion        *retrieve.Fusion `json:"fusion,omitempty" doc:"how the two become one score: relative (default) or reciprocal"`
	Boost         *float64         `json:"boost,omitempty" doc:"mode boost: factor on summaries; default 1.1"`
	Candidates    *int             `json:"candidates,omitempty" doc:"mode boost: how many times as many nodes are fetched; default 3"`
	PerLevel      *int             `json:"per_level,omitempty" doc:"mode traversal: nodes kept of each level; default 40"`
	LeavesOnly    *bool            `json:"leaves_only,omitempty" doc:"mode traversal: leaves are the only hits"`
	Pool          *int             `json:"pool,omitempty" doc:"nodes that are fetched before packing; default 150"`
	Sharpness     *float64         `json:"sharpness,omitempty" doc:"pack coverage: how fast relevance falls; default 2.5"`
	Context       *float64         `json:"context,omitempty" doc:"pack coverage: how much relevant neighbors lift a leaf; default 0.4"`
	SummaryWeight *float64         `json:"summary_weight,omitempty" doc:"pack coverage: factor on the relevance of summaries; default 0.7"`
	Stale         *bool            `json:"stale,omitempty" doc:"summaries too whose text was deleted or replaced since the build"`
	Explain       *bool            `json:"explain,omitempty" doc:"say what became of every candidate"`
}

// modeOf says which mode an option belongs to: given without a mode, it chooses that.
var modeOf = map[string]retrieve.Mode{
	"boost": retrieve.Boost, "candidates": retrieve.Boost, "per_level": retrieve.Traversal, "leaves_only": retrieve.Traversal,
}

// ModeOf returns the mode that an option belongs to, by its JSON name; ok is false if it belongs to none.
func ModeOf(option string) (mode retrieve.Mode, ok bool) {
	mode, ok = modeOf[option]
	return mode, ok
}

// Given returns the JSON names of the options that were given.
func (q *Query) Given() []string {
	var names []string
	v := reflect.ValueOf(q).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "query" && name != "vector" && !v.Field(i).IsNil() {
			names = append(names, name)
		}
	}
	return names
}

// Request returns the request that the query stands for, its defaults settled. An option that would have no effect is an
// error, and so is a value out of its range.
func (q *Query) Request(corpus string) (retrieve.Request, error) {
	r := retrieve.NewRequest(corpus, q.Query)
	r.Vector, r.MinLevel, r.MaxLevel, r.Documents, r.Metadata = q.Vector, q.MinLevel, q.MaxLevel, q.Documents, q.Metadata
	q.each(&r, func(given, field reflect.Value) {
		if !given.IsNil() {
			field.Set(given.Elem())
		}
	})
	given := q.Given()
	for _, name := range given {
		if mode, ok := modeOf[name]; ok && q.Mode == nil {
			r.Mode = mode
		}
	}
	r.Settle(given...)
	if err := r.Validate(); err != nil {
		return r, err
	}
	for _, name := range r.Unused(given...) {
		return r, Usagef("leave it out or choose another mode", "%s has no effect with mode %s, pack %s and alpha %v", name, r.Mode, r.Pack, r.Alpha)
	}
	return r, nil
}

// QueryOf is the inverse of Request. Only what differs from the defaults counts as given, and alpha if alphaGiven says so.
func QueryOf(r retrieve.Request, alphaGiven bool) Query {
	q := Query{
		Query: r.Query, Vector: r.Vector, MinLevel: r.MinLevel, MaxLevel: r.MaxLevel, Documents: r.Documents, Metadata: r.Metadata,
	}
	defaults := reflect.ValueOf(retrieve.NewRequest("", ""))
	unused := r.Unused("alpha", "boost", "candidates", "per_level", "leaves_only", "pool", "fusion", "sharpness", "context", "summary_weight")
	q.each(&r, func(given, field reflect.Value) {
		given.Set(reflect.New(field.Type()))
		given.Elem().Set(field)
	})
	v := reflect.ValueOf(&q).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := defaults.FieldByName(f.Name)
		switch {
		case f.Type.Kind() != reflect.Pointer || name == "min_level" || name == "max_level":
		case name == "alpha" && alphaGiven && !slices.Contains(unused, name):
		case name == "alpha", slices.Contains(unused, name), v.Field(i).Elem().Equal(field):
			v.Field(i).SetZero()
		}
	}
	return q
}

// each calls fn with every option that is a pointer here and a value in the request, pairwise.
func (q *Query) each(r *retrieve.Request, fn func(given, field reflect.Value)) {
	from, to := reflect.ValueOf(q).Elem(), reflect.ValueOf(r).Elem()
	for i := range from.NumField() {
		f := from.Type().Field(i)
		if f.Type.Kind() == reflect.Pointer && f.Name != "MinLevel" && f.Name != "MaxLevel" {
			fn(from.Field(i), to.FieldByName(f.Name))
		}
	}
}

// Ask is a question that wants an answer.
type Ask struct {
	Query
	// MinSimilarity is what the best hit must reach, -1 to 1; nil leaves it to the embedder of the corpus.
	MinSimilarity *float64 `json:"min_similarity,omitempty" doc:"least similarity of the best hit for an answer, -1 to 1; the default fits the embedder"`
}

// Answer is the JSON of aerie ask.
type Answer struct {
	answer.Answer
	Cost    *coordinator.Cost `json:"cost"` // nil if the model has no price
	Explain *retrieve.Explain `json:"explain,omitempty"`
}

// Spoken is a sentence of an answer while it is written.
type Spoken struct {
	answer.Sentence
	// Gap is the white space between the sentence before and this one; "" for the first.
	Gap string `json:"gap"`
}
