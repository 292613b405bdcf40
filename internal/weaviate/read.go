package weaviate

import (
	"context"
	"errors"
	"fmt"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// maxResults is how many objects the server returns to one search (its QUERY_MAXIMUM_RESULTS).
const maxResults = 10_000

// within calls fn with a corpus's collection, unless there is none. If the collection has changed since it was read, fn is
// called again, and must begin anew.
func (s *Store) within(ctx context.Context, corpus string, fn func(*collection) error) error {
	c, err := s.lookup(ctx, corpus)
	if err != nil || c == nil {
		return err
	}
	err = fn(c)
	if !isMissing(err) && !errors.Is(err, store.ErrWidth) {
		return err
	}
	if c, err = s.refresh(ctx, corpus); err != nil || c == nil {
		return err
	}
	if err = fn(c); isMissing(err) && !c.tenant {
		return nil
	}
	return err
}

// search sends a search request.
func (s *Store) search(ctx context.Context, r *pb.SearchRequest) ([]*pb.SearchResult, error) {
	var results []*pb.SearchResult
	err := s.call(ctx, "search in "+r.Collection, func(ctx context.Context) error {
		reply, err := s.api.Search(ctx, r)
		results = reply.GetResults()
		return err
	})
	return results, err
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var nodes []tree.Node
	err := s.within(ctx, corpus, func(c *collection) (err error) {
		nodes, err = s.get(ctx, c, ids, with)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: get %d nodes: %w", corpus, len(ids), err)
	}
	return nodes, nil
}

// get reads nodes in the order of ids, without those that don't exist.
func (s *Store) get(ctx context.Context, c *collection, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	nodes := make([]tree.Node, 0, len(ids))
	for len(ids) > 0 {
		page := ids[:min(len(ids), s.pageLimit(c, with))]
		ids = ids[len(page):]
		found, err := s.fetch(ctx, c, page, with)
		if err != nil {
			return nil, err
		}
		for _, id := range page {
			if r := found[id]; r != nil {
				n, err := c.decode(r, with)
				if err != nil {
					return nil, err
				}
				nodes = append(nodes, n)
			}
		}
	}
	return nodes, nil
}

// fetch reads one page of nodes by id. A page that is too large for one message is halved.
func (s *Store) fetch(ctx context.Context, c *collection, ids []tree.ID, with store.Fields) (map[tree.ID]*pb.SearchResult, error) {
	r := s.request(c, with)
	r.Filters, r.Limit = ofIDs(ids), uint32(len(ids))
	results, err := s.search(ctx, r)
	found := make(map[tree.ID]*pb.SearchResult, len(results))
	if isTooLarge(err) && len(ids) > 1 {
		for _, half := range [][]tree.ID{ids[:len(ids)/2], ids[len(ids)/2:]} {
			part, err := s.fetch(ctx, c, half, with)
			if err != nil {
				return nil, err
			}
			for id, result := range part {
				found[id] = result
			}
		}
		return found, nil
	}
	for _, result := range results {
		found[resultID(result)] = result
	}
	return found, err
}

// pageLimit returns how many nodes make a page of about BatchBytes.
func (s *Store) pageLimit(c *collection, with store.Fields) int {
	size := 500
	if with.Vector {
		size += 4 * c.width
	}
	if with.Text || with.Metadata {
		size += 1500
	}
	return min(max(s.cfg.BatchBytes/size, 16), 2000)
}

// Count implements [store.Store].
func (s *Store) Count(ctx context.Context, corpus string, filter store.Filter) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := filter.Validate(); err != nil {
		return 0, fmt.Errorf("weaviate: corpus %s: %w", corpus, err)
	}
	count := 0
	err := s.filtered(ctx, corpus, &filter, func(c *collection) (err error) {
		where := c.compile(&filter, false)
		if count = 0; where.none {
			return nil
		}
		if !where.loose {
			count, err = s.matches(ctx, c, where.filter)
			return err
		}
		return s.scan(ctx, c, &filter, store.Fields{}, func(*tree.Node) error { count++; return nil })
	})
	if err != nil {
		return 0, fmt.Errorf("weaviate: corpus %s: count: %w", corpus, err)
	}
	return count, nil
}

// filtered is within for calls with a filter: if the collection lacks a metadata key, it is read anew first, since another
// process may have just added it.
func (s *Store) filtered(ctx context.Context, corpus string, filter *store.Filter, fn func(*collection) error) error {
	return s.within(ctx, corpus, func(c *collection) error {
		if c.knows(filter) {
			return fn(c)
		}
		newer, err := s.refresh(ctx, corpus)
		if err != nil || newer == nil {
			return err
		}
		return fn(newer)
	})
}

// matches returns how many nodes a filter keeps. The stubs have no call to count: it is a bulk delete that only tells
// what it would delete.
func (s *Store) matches(ctx context.Context, c *collection, filter *pb.Filters) (int, error) {
	if filter == nil {
		filter = everything()
	}
	reply, err := s.batchDelete(ctx, c, filter, true)
	return int(reply.GetMatches()), err
}
