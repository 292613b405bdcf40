package retrieve

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// fetch returns the best candidates of all levels that the filter lets through, about limit of them: those
// nearest to the query by vector, by keywords, or by both, fused. all
// of them or not, as the pool says.
func (s *search) fetch(ctx context.Context, limit int) (pool, error) {
	q := store.Query{Filter: s.filter, Vector: s.vector, Text: s.req.Query, Limit: limit}
	if *s.req.Pack == Coverage {
		q.With = store.Fields{Text: true, Metadata: true} // nearly all are looked at
	}
	var near, worded []store.Hit
	both, within := errgroup.WithContext(ctx)
	if *s.req.Alpha > 0 {
		both.Go(func() (err error) {
			near, err = s.find(within, s.nodes.Search, q)
			return err
		})
	}
	if *s.req.Alpha < 1 {
		both.Go(func() (err error) {
			worded, err = s.find(within, s.nodes.Keyword, q)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return pool{}, err
	}
	width := 0
	if *s.req.Pack == Coverage && s.leavesFirst() {
		width = *s.req.Pool
	}
	candidates := fuse(near, worded, *s.req.Alpha, *s.req.Fusion, spanOf(near, worded, width))
	candidates = candidates[:min(limit, len(candidates))]
	number(candidates)
	for _, c := range candidates {
		c.loaded = q.With.Text
	}
	return s.hop(ctx, pool{candidates: candidates, all: len(near) < limit && len(worded) < limit})
}

// reciprocalOffset is k of reciprocal rank fusion (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion
// outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009), which found 60 to do well.
const reciprocalOffset = 60

// fuse makes one sorted list of the nearest nodes and the best by keywords. A score is alpha times that of the
// vector plus 1-alpha times that of the keywords. With Relative the former runs from 0 at the farthest node of the span
// to 1 at the nearest, the latter from 0, that of a node with no word of the query, to 1 at the best. With Reciprocal
// each is (k+1)/(k+rank), so that 1 is the best here too. A node that one list lacks gets 0 for it. With alpha 0 or 1
// scores stay what the store says.
func fuse(near, worded []store.Hit, alpha float64, fusion Fusion, over span) []*candidate {
	var pool []*candidate
	known := make(map[tree.ID]*candidate, len(near))
	of := func(n tree.Node) *candidate {
		c := known[n.ID]
		if c == nil {
			c = &candidate{node: n}
			known[n.ID] = c
			pool = append(pool, c)
		}
		return c
	}
	for i, h := range near {
		c := of(h.Node)
		c.parts.Similarity = &near[i].Score
		switch {
		case alpha == 1:
			c.score = h.Score
		case fusion == Reciprocal:
			c.score += alpha * reciprocal(i)
		default:
			c.score += alpha * scale(h.Score, over.far, over.near)
		}
	}
	for i, h := range worded {
		c := of(h.Node)
		c.parts.Keyword = &worded[i].Score
		switch {
		case alpha == 0:
			c.score = h.Score
		case fusion == Reciprocal:
			c.score += (1 - alpha) * reciprocal(i)
		default:
			c.score += (1 - alpha) * scale(h.Score, 0, over.words)
		}
	}
	sortCandidates(pool)
	return pool
}

// span holds the scores that Relative measures by: the similarities of the farthest and the nearest node, and
// the best score by keywords.
type span struct{ far, near, words float64 }

// spanOf returns the span of two lists: of all their nodes, or with width above 0 that of their leaves, of which the
// width-th is the farthest. Then leaves score as they would without any summary. A list without leaves counts as it is.
func spanOf(near, worded []store.Hit, width int) span {
	var over span
	bounds := func(hits []store.Hit) (best, last float64) {
		leaves := 0
		for _, h := range hits {
			if width == 0 || h.Node.IsLeaf() && leaves < width {
				if leaves++; leaves == 1 {
					best = h.Score
				}
				last = h.Score
			}
		}
		if leaves == 0 && len(hits) > 0 {
			return hits[0].Score, hits[len(hits)-1].Score
		}
		return best, last
	}
	over.near, over.far = bounds(near)
	over.words, _ = bounds(worded)
	return over
}

func reciprocal(rank int) float64 { return (reciprocalOffset + 1) / float64(reciprocalOffset+1+rank) }

// scale maps low…high to 0…1; what is lower stays at 0.
func scale(x, low, high float64) float64 {
	if high <= low {
		return 1
	}
	return max(0, (x-low)/(high-low))
}
