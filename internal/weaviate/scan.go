package weaviate

import (
	"context"
	"fmt"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// scan calls visit for each node that a filter selects, in no order. The node is visit's.
func (s *Store) scan(ctx context.Context, c *collection, filter *store.Filter, with store.Fields, visit func(*tree.Node) error) error {
	where := c.compile(filter, false)
	if where.none {
		return nil
	}
	needs := with
	if len(filter.Metadata) > 0 {
		needs.Metadata = true
	}
	selected := func(results []*pb.SearchResult) error {
		for _, r := range results {
			n, err := c.decode(r, needs)
			if err != nil {
				return err
			}
			if !filter.Selects(&n) {
				continue
			}
			if !with.Metadata {
				n.Metadata = nil
			}
			if !with.Text {
				n.Text = ""
			}
			if err := visit(&n); err != nil {
				return err
			}
		}
		return nil
	}
	if where.filter != nil {
		n, err := s.matches(ctx, c, where.filter)
		if err != nil || n == 0 {
			return err
		}
		if n <= maxResults/2 { // more may come before they are read
			return s.scanFew(ctx, c, where.filter, needs, selected)
		}
	}
	return s.scanAll(ctx, c, needs, selected)
}

// scanFew reads the nodes that a filter keeps: their ids at once, then the nodes in pages.
func (s *Store) scanFew(ctx context.Context, c *collection, where *pb.Filters, with store.Fields, visit func([]*pb.SearchResult) error) error {
	r := s.request(c, store.Fields{})
	r.Properties.NonRefProperties = nil
	r.Filters, r.Limit = where, maxResults
	listed, err := s.search(ctx, r)
	if err != nil {
		return err
	}
	if len(listed) == maxResults {
		return s.scanAll(ctx, c, with, visit)
	}
	ids := make([]tree.ID, len(listed))
	for i, r := range listed {
		ids[i] = resultID(r)
	}
	for len(ids) > 0 {
		page := ids[:min(len(ids), s.pageLimit(c, with))]
		ids = ids[len(page):]
		found, err := s.fetch(ctx, c, page, with)
		if err != nil {
			return err
		}
		results := make([]*pb.SearchResult, 0, len(found))
		for _, id := range page {
			if r := found[id]; r != nil {
				results = append(results, r)
			}
		}
		if err := visit(results); err != nil {
			return err
		}
	}
	return nil
}

// firstCursor comes before every id.
const firstCursor = "00000000-0000-0000-0000-000000000000"

type scanPage struct {
	results []*pb.SearchResult
	limit   int
	err     error
}

// scanAll reads all nodes by the cursor, in the order of their ids; the server takes no filter beside it. The next page is
// read while one is visited.
func (s *Store) scanAll(ctx context.Context, c *collection, with store.Fields, visit func([]*pb.SearchResult) error) error {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan scanPage, 1)
	limit := s.pageLimit(c, with)
	read := func(after string, limit int) {
		results, err := s.cursor(ctx, c, with, after, &limit)
		pages <- scanPage{results, limit, err}
	}
	go read(firstCursor, limit)
	for {
		page := <-pages
		if page.err != nil {
			cancel()
			return page.err
		}
		more := len(page.results) == page.limit
		if more {
			go read(resultID(page.results[len(page.results)-1]).String(), page.limit)
		}
		if err := visit(page.results); err != nil || !more {
			cancel()
			if more {
				<-pages
			}
			return err
		}
	}
}

// cursor reads the page after an id. If it is too large for a message, limit is halved.
func (s *Store) cursor(ctx context.Context, c *collection, with store.Fields, after string, limit *int) ([]*pb.SearchResult, error) {
	for {
		r := s.request(c, with)
		r.After, r.Limit = after, uint32(*limit)
		results, err := s.search(ctx, r)
		if !isTooLarge(err) || *limit == 1 {
			return results, err
		}
		*limit /= 2
	}
}

// Each implements [store.Store]. It copies what is selected before it calls fn.
func (s *Store) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := filter.Validate(); err != nil {
		return fmt.Errorf("weaviate: corpus %s: %w", corpus, err)
	}
	spool := newSpool(s.cfg.SpoolDir, s.cfg.SpoolBytes)
	defer spool.close()
	err := s.filtered(ctx, corpus, &filter, func(c *collection) error {
		if err := spool.reset(); err != nil {
			return err
		}
		return s.scan(ctx, c, &filter, with, spool.add)
	})
	if err != nil {
		return fmt.Errorf("weaviate: corpus %s: read: %w", corpus, err)
	}
	return spool.each(ctx, fn)
}
