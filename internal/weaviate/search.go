package weaviate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Search implements [store.Store].
func (s *Store) Search(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := validate(&q); err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: search: %w", corpus, err)
	}
	var hits []store.Hit
	unchecked := true
	err := s.filtered(ctx, corpus, &q.Filter, func(c *collection) (err error) {
		unchecked = false
		if err := store.CheckVector(q.Vector, c.width); err != nil {
			return err
		}
		vector := &pb.NearVector{VectorBytes: vectorBytes(q.Vector)}
		r := ranking{s: s, c: c, q: &q, needs: q.With}
		r.ask = func(request *pb.SearchRequest) {
			request.NearVector = vector
			request.Metadata.Distance = true
		}
		r.score = func(m *pb.MetadataResult) float64 { return 1 - float64(m.GetDistance()) }
		// Nearly all nodes are visible. It is quicker to search among all and to look at the hits than to have the server
		// gather the visible first; if too few hits are left, it has to.
		r.optimistic = q.Filter.MinLevel == 0 && (q.Filter.MaxLevel < 0 || q.Filter.At != nil) && len(q.Filter.Documents)+len(q.Filter.Paths) == 0 && !q.Filter.OnMetadata()
		hits, err = r.run(ctx)
		return err
	})
	if err == nil && unchecked { // a corpus without a node has no width
		err = store.CheckVector(q.Vector, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: search: %w", corpus, err)
	}
	return hits, nil
}

func validate(q *store.Query) error {
	if err := q.Validate(); err != nil {
		return err
	}
	if q.Limit > maxResults {
		return fmt.Errorf("%w query: the limit %d is above %d, the most that Weaviate answers", store.ErrInvalid, q.Limit, maxResults)
	}
	return nil
}

// ranking is a search under way: it asks for more until the best hits are sure.
type ranking struct {
	s     *Store
	c     *collection
	q     *store.Query
	ask   func(*pb.SearchRequest)          // adds the kind of search to a request
	score func(*pb.MetadataResult) float64 // of a result; larger is better
	needs store.Fields                     // to read, for keep and for the hits
	keep  func(*tree.Node) bool            // if not nil, a hit must have it hold
	// optimistic: try without the server's filter first.
	optimistic bool
}

// run returns the hits, best first, ties by id.
func (r *ranking) run(ctx context.Context) ([]store.Hit, error) {
	where := r.c.compile(&r.q.Filter, true)
	if where.none {
		return nil, nil
	}
	// A few more than asked for show whether the last hits tie with the next.
	limit := min(r.q.Limit+max(1, r.q.Limit/8), maxResults)
	if r.optimistic {
		page, err := r.page(ctx, nil, limit, r.needs)
		if err != nil || page.settled(r.q.Limit) {
			return page.hits(r), err
		}
	}
	page, err := r.page(ctx, where.filter, limit, r.needs)
	if err != nil {
		return nil, err
	}
	// Further pages tell ids and scores alone, if that suffices to know the hits; these are then read by id.
	bare := !where.loose && r.keep == nil
	grown := false
	for !page.settled(r.q.Limit) && page.more && limit < maxResults {
		limit, grown = min(8*limit, maxResults), true
		if bare {
			page, err = r.barePage(ctx, where.filter, limit)
		} else {
			page, err = r.page(ctx, where.filter, limit, r.needs)
		}
		if err != nil {
			return nil, err
		}
	}
	hits := page.hits(r)
	if grown && bare {
		return r.read(ctx, hits)
	}
	return hits, nil
}

// ranked is what one request has returned.
type ranked struct {
	kept  []store.Hit // best first, ties by id
	worst float64     // the score of the last result, kept or not
	more  bool        // there may be further results
}

// settled reports whether the best n are known: no further result can be better than the last of them, or tie with it.
func (p *ranked) settled(n int) bool {
	return !p.more && len(p.kept) >= n || len(p.kept) >= n && p.kept[n-1].Score > p.worst
}

// hits returns the hits that were asked for, with the fields that were asked for.
func (p *ranked) hits(r *ranking) []store.Hit {
	if p == nil {
		return nil
	}
	return strip(p.kept[:min(len(p.kept), r.q.Limit)], r.q.With)
}

// strip takes away what was only read to look at.
func strip(hits []store.Hit, with store.Fields) []store.Hit {
	for i := range hits {
		n := &hits[i].Node
		if !with.Text {
			n.Text, n.Context = "", ""
		}
		if !with.Metadata {
			n.Metadata = nil
		}
	}
	return hits
}

// page asks for the best of what a filter keeps.
func (r *ranking) page(ctx context.Context, where *pb.Filters, limit int, with store.Fields) (*ranked, error) {
	if r.q.Filter.OnMetadata() {
		with.Metadata = true
	}
	request := r.s.request(r.c, with)
	r.ask(request)
	request.Filters, request.Limit = where, uint32(limit)
	results, err := r.s.search(ctx, request)
	if err != nil {
		return nil, err
	}
	page := &ranked{more: len(results) >= limit, worst: math.Inf(1)}
	for _, result := range results {
		n, err := r.c.decode(result, with)
		if err != nil {
			return nil, err
		}
		score := r.score(result.GetMetadata())
		page.worst = min(page.worst, score)
		if n.Died == tree.Deleted || !r.q.Filter.Selects(&n) || r.keep != nil && !r.keep(&n) {
			continue
		}
		page.kept = append(page.kept, store.Hit{Node: n, Score: score})
	}
	sortHits(page.kept)
	return page, nil
}

// barePage is page for a filter that the server applies exactly, and tells ids and scores alone.
func (r *ranking) barePage(ctx context.Context, where *pb.Filters, limit int) (*ranked, error) {
	request := r.s.request(r.c, store.Fields{})
	request.Properties.NonRefProperties = nil
	r.ask(request)
	request.Filters, request.Limit = where, uint32(limit)
	results, err := r.s.search(ctx, request)
	if err != nil {
		return nil, err
	}
	page := &ranked{more: len(results) >= limit, worst: math.Inf(1)}
	for _, result := range results {
		score := r.score(result.GetMetadata())
		page.worst = min(page.worst, score)
		page.kept = append(page.kept, store.Hit{Node: tree.Node{ID: resultID(result)}, Score: score})
	}
	sortHits(page.kept)
	return page, nil
}

// read replaces the hits' nodes by complete ones. A hit that was deleted in the meantime is left out.
func (r *ranking) read(ctx context.Context, hits []store.Hit) ([]store.Hit, error) {
	ids := make([]tree.ID, len(hits))
	scores := make(map[tree.ID]float64, len(hits))
	for i, h := range hits {
		ids[i], scores[h.Node.ID] = h.Node.ID, h.Score
	}
	nodes, err := r.s.get(ctx, r.c, ids, r.q.With)
	if err != nil {
		return nil, err
	}
	hits = hits[:0]
	for _, n := range nodes {
		hits = append(hits, store.Hit{Node: n, Score: scores[n.ID]})
	}
	return hits, nil
}

func sortHits(hits []store.Hit) {
	slices.SortFunc(hits, func(a, b store.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Node.ID.Compare(b.Node.ID))
	})
}
