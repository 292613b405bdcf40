package weaviate

import (
	"context"
	"fmt"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Keyword implements [store.Store].
func (s *Store) Keyword(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := validate(&q); err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: keyword search: %w", corpus, err)
	}
	words := queryWords(strings.ToValidUTF8(q.Text, " "))
	if len(words) == 0 {
		return nil, nil
	}
	var hits []store.Hit
	err := s.filtered(ctx, corpus, &q.Filter, func(c *collection) (err error) {
		if c, err = s.currentWords(ctx, corpus, c); err != nil || c == nil {
			return err
		}
		k := keywords{s: s, c: c, q: &q}
		if c.blockMax && len(words) > 1 {
			hits, err = k.careful(ctx, words)
			return err
		}
		hits, err = k.ranking(words, q.Limit).run(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: keyword search: %w", corpus, err)
	}
	return hits, nil
}

// keywords is a keyword search under way.
type keywords struct {
	s *Store
	c *collection
	q *store.Query
}

// ranking returns the search for some words.
func (k *keywords) ranking(words []string, limit int) *ranking {
	q := *k.q
	q.Limit = limit
	r := &ranking{s: k.s, c: k.c, q: &q, needs: q.With}
	search := &pb.BM25{Query: strings.Join(words, " "), Properties: []string{propText}}
	if k.c.has(propWords) {
		search.Properties = append(search.Properties, propWords)
	}
	r.ask = func(request *pb.SearchRequest) {
		request.Bm25Search = search
		request.Metadata.Score = true
	}
	r.score = func(m *pb.MetadataResult) float64 { return float64(m.GetScore()) }
	if torn(words) {
		r.needs.Text = true
		r.keep = func(n *tree.Node) bool { return holdsAny(n, words) }
	}
	return r
}

// maxCareful is how many words of a query are asked for by themselves.
const maxCareful = 16

// careful searches on a server that may lose a rare word beside a common one (weaviate/weaviate#11780): it asks for the
// whole query, and for each word alone, which such a server answers rightly. What only a rare word has found gets
// the scores of the other words too, since BM25 is a sum over words.
func (k *keywords) careful(ctx context.Context, words []string) ([]store.Hit, error) {
	limit := min(2*k.q.Limit+16, maxResults)
	where := k.c.compile(&k.q.Filter, true)
	if where.none {
		return nil, nil
	}
	whole, err := k.ranking(words, limit).run(ctx)
	if err != nil {
		return nil, err
	}
	hits := map[tree.ID]store.Hit{}
	for _, h := range whole {
		hits[h.Node.ID] = h
	}
	asked := words[:min(len(words), maxCareful)]
	alone := make([]map[tree.ID]float64, len(asked)) // scores by word; nil if more nodes have it than were asked for
	missed := map[tree.ID]store.Hit{}
	for i, word := range asked {
		r := k.ranking([]string{word}, limit)
		found, err := r.page(ctx, where.filter, limit, r.needs)
		if err != nil {
			return nil, err
		}
		if found.more {
			continue // not a rare one
		}
		alone[i] = make(map[tree.ID]float64, len(found.kept))
		for _, h := range found.kept {
			alone[i][h.Node.ID] = h.Score
			if _, ok := hits[h.Node.ID]; !ok {
				missed[h.Node.ID] = h
			}
		}
	}
	if err := k.addScores(ctx, asked, alone, missed); err != nil {
		return nil, err
	}
	for id, h := range missed {
		hits[id] = h
	}
	out := make([]store.Hit, 0, len(hits))
	for _, h := range hits {
		out = append(out, h)
	}
	sortHits(out)
	return strip(out[:min(len(out), k.q.Limit)], k.q.With), nil
}

// addScores gives each hit the sum of its scores for the words. alone holds the scores of the rare words.
func (k *keywords) addScores(ctx context.Context, words []string, alone []map[tree.ID]float64, hits map[tree.ID]store.Hit) error {
	if len(hits) == 0 {
		return nil
	}
	ids := make([]tree.ID, 0, len(hits))
	for id := range hits {
		ids = append(ids, id)
	}
	for id, h := range hits {
		h.Score = 0
		hits[id] = h
	}
	for i, word := range words {
		scores := alone[i]
		if scores == nil {
			scores = map[tree.ID]float64{}
			r := k.ranking([]string{word}, len(ids))
			page, err := r.page(ctx, ofIDs(ids), min(len(ids), maxResults), r.needs)
			if err != nil {
				return err
			}
			for _, h := range page.kept {
				scores[h.Node.ID] = h.Score
			}
		}
		for id, h := range hits {
			h.Score += scores[id]
			hits[id] = h
		}
	}
	return nil
}
