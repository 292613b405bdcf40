package retrieve

import (
	"cmp"
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// candidate is a node that may become a hit.
type candidate struct {
	node  tree.Node
	score float64
}

// sortCandidates orders by score, best first, ties by id: the order of every pool and of the hits.
func sortCandidates(cs []candidate) {
	slices.SortFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), a.node.ID.Compare(b.node.ID))
	})
}

// collapsed returns the nodes of all levels that are nearest to the query. It fetches Pool of them, and twice as
// many as long as all of what fits leaves room for a node of their mean size.
func (r *Retriever) collapsed(ctx context.Context, req Request, vector []float32, record *levels.Corpus) ([]candidate, error) {
	q := store.Query{Filter: r.filter(record), Vector: vector, Limit: max(r.cfg.Pool, req.TopK)}
	for {
		hits, err := r.nodes.Search(ctx, req.Corpus, q)
		if err != nil {
			return nil, err
		}
		pool := make([]candidate, len(hits))
		for i, h := range hits {
			pool[i] = candidate{node: h.Node, score: h.Score}
		}
		sortCandidates(pool)
		if len(hits) < q.Limit || !wantsMore(pool, req) {
			return pool, nil
		}
		q.Limit *= 2
	}
}

// wantsMore reports whether a larger pool would fill the budget better.
func wantsMore(pool []candidate, req Request) bool {
	chosen := packSimilarity(pool, req.Budget, req.TopK)
	if req.TopK > 0 && len(chosen) >= req.TopK {
		return false
	}
	if req.Budget == 0 {
		return true
	}
	return req.Budget-tokens(chosen) >= tokens(pool)/len(pool)
}

// tokens returns the sum over candidates.
func tokens(cs []candidate) int {
	sum := 0
	for _, c := range cs {
		sum += c.node.Tokens
	}
	return sum
}
