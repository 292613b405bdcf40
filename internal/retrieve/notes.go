package retrieve

import (
	"fmt"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/word"
)

// notes are the sentences of Result.Notes.
func (s *search) notes() []string {
	var notes []string
	if n := len(s.stale); n > 0 {
		what := "left out until the next build"
		if *s.req.Stale {
			what = "returned all the same, as asked"
		}
		notes = append(notes, fmt.Sprintf("%d of the best summaries rest on text that was deleted or replaced since the build: %s", n, what))
	}
	if s.open != nil && (s.filter.MaxLevel == 0 || s.filter.OnMetadata()) {
		notes = append(notes, fmt.Sprintf("the corpus was built with keep_leaves false: %d leaves with a summary above them are out of search", s.open.hidden))
	}
	if s.filter.OnMetadata() {
		notes = append(notes, "only leaves were searched, since summaries have no metadata")
	}
	return notes
}

// whyLittle says why there are fewer hits than a person might expect, or none.
func (s *search) whyLittle(pool []*candidate) []string {
	var notes []string
	if len(word.Query(s.req.Query)) == 0 {
		notes = append(notes, fmt.Sprintf("the query %.40q holds no word: ask in words", strings.TrimSpace(s.req.Query)))
	}
	notes = append(notes, s.twice()...)
	if len(pool) == 0 && s.filter.OnMetadata() {
		notes = append(notes, fmt.Sprintf("no leaf that the query may find has %s", conditions(s.filter.Conditions())))
	}
	if budget := *s.req.Budget; budget > 0 {
		for _, c := range pool { // in order of score
			if c.fate == Stale || !c.node.IsLeaf() {
				continue
			}
			if c.node.Tokens > budget {
				notes = append(notes, fmt.Sprintf("the best leaf has %d tokens and doesn't fit into the budget of %d: a budget of %d or more holds it", c.node.Tokens, budget, c.node.Tokens))
			}
			break
		}
	}
	return notes
}

// twice names the keys that must have two values at once, which only a list has.
func (s *search) twice() []string {
	var notes []string
	all := s.filter.Conditions()
	for i, w := range all {
		for _, other := range all[:i] {
			if w.Key == other.Key && w.Op == store.Equal && other.Op == store.Equal && !w.Holds(map[string]any{other.Key: other.Value}) {
				notes = append(notes, fmt.Sprintf("both %s must hold, as only a list of values does; for either write %q", conditions([]store.Where{other, w}),
					store.Where{Key: w.Key, Op: store.In, Value: []any{other.Value, w.Value}}.String()))
			}
		}
	}
	return notes
}

func conditions(all []store.Where) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = w.String()
	}
	return strings.Join(texts, " and ")
}
