package retrieve

import (
	"context"
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// explain describes every candidate of a pool in the order of scores, then those that a traversal passed over, then
// those that a filter shut out.
func (s *search) explain(ctx context.Context, pool []*candidate) (*Explain, error) {
	shut, err := s.shutOut(ctx)
	if err != nil {
		return nil, err
	}
	sortCandidates(s.beaten)
	out := &Explain{
		Fetched: len(pool) + len(s.beaten), FetchedByLevel: []int{},
		Candidates: make([]Explained, 0, len(pool)+len(s.beaten)+len(shut)),
	}
	for _, c := range s.beaten {
		c.fate, c.rank = Beaten, len(pool)
	}
	for rank, c := range slices.Concat(pool, s.beaten) {
		for len(out.FetchedByLevel) <= c.node.Level {
			out.FetchedByLevel = append(out.FetchedByLevel, 0)
		}
		out.FetchedByLevel[c.node.Level]++
		if c.fate != Beaten && rank < c.rank {
			out.Lifted++
		}
		out.Candidates = append(out.Candidates, s.explained(c, rank))
	}
	for _, c := range shut {
		out.Candidates = append(out.Candidates, s.explained(c, len(out.Candidates)))
	}
	return out, nil
}

func (s *search) explained(c *candidate, rank int) Explained {
	return Explained{
		ID: c.node.ID, Level: c.node.Level, Score: c.score, Parts: c.parts, Tokens: c.node.Tokens,
		Rank: rank + 1, FetchedRank: c.rank + 1, Fate: c.fate, Why: s.why(c), CoveredBy: c.coveredBy,
	}
}

// why is the sentence about a candidate's fate, and about its text where that is older than its place.
func (s *search) why(c *candidate) string {
	why := s.fate(c)
	if l := c.parts.Link; l != nil {
		why += fmt.Sprintf("; linked: %s → %q → this", l.From, l.Term)
	}
	if n := &c.node; n.Carried() {
		why += fmt.Sprintf("; its text was carried over from %s and has not seen %d tokens below it", n.Author, n.Unseen)
	}
	return why
}

func (s *search) fate(c *candidate) string {
	switch c.fate {
	case Chosen:
		if *s.req.Pack == Coverage {
			return "it added most for its length when it was chosen"
		}
		return "it was the best that fitted"
	case Covered:
		if len(c.coveredBy) == 0 {
			return "it holds no words"
		}
		return fmt.Sprintf("more relevant hits say all of it, %s most", c.coveredBy[0])
	case NoRoom:
		return fmt.Sprintf("its %d tokens don't fit into what the hits leave of %d", c.node.Tokens, *s.req.Budget)
	case TooMany:
		return fmt.Sprintf("top-k is %d", *s.req.TopK)
	case Outside:
		return fmt.Sprintf("only the best %d are looked at", *s.req.Pool)
	case Stale:
		return "it rests on text that was deleted or replaced since the build"
	case Beaten:
		return fmt.Sprintf("%d nodes of its level are more similar", *s.req.PerLevel)
	case Filtered:
		return s.whyFiltered(&c.node)
	}
	return ""
}

// shutOut returns those of the nearest nodes that would have been fetched but for the filters, at most Pool.
func (s *search) shutOut(ctx context.Context) ([]*candidate, error) {
	if s.vector == nil {
		return nil, nil
	}
	hits, err := s.nodes.Search(ctx, s.req.Corpus, store.Query{
		Filter: store.AnyLevel().VisibleAt(s.record.Generation), Vector: s.vector, Limit: *s.req.Pool,
		With: store.Fields{Metadata: true},
	})
	if err != nil {
		return nil, err
	}
	var shut []*candidate
	for i, h := range hits {
		if !s.filter.Selects(&h.Node) || s.hides(&h.Node) {
			c := &candidate{node: h.Node, score: h.Score, rank: i, fate: Filtered}
			c.parts.Similarity = &c.score
			shut = append(shut, c)
		}
	}
	return shut, nil
}

func (s *search) whyFiltered(n *tree.Node) string {
	f := &s.filter
	switch {
	case s.hides(n):
		return "the corpus was built with keep_leaves false, and a summary stands above it"
	case n.Level < f.MinLevel:
		return fmt.Sprintf("its level %d is below min-level %d", n.Level, f.MinLevel)
	case f.MaxLevel >= 0 && n.Level > f.MaxLevel:
		return fmt.Sprintf("its level %d is above max-level %d", n.Level, f.MaxLevel)
	case len(f.Documents) > 0 && !slices.Contains(f.Documents, n.DocumentID):
		return fmt.Sprintf("it is filed under %s, which isn't asked for", n.DocumentID)
	}
	return "its metadata is not what is asked for"
}
