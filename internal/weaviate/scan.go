package weaviate

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// scan calls visit for each node that a filter selects, in no order. The node is visit's.
func (s *Store) scan(ctx context.Context, c *collection, filter *store.Filter, with store.Fields, visit func(*tree.Node) error) error {
	// Lives are looked at here and not by the server: while a node's life changes, the server's index has the node under
	// neither value for a moment, and a reader of the generation before would miss it. The object itself is always whole.
	open := *filter
	open.At = nil
	where := c.compile(&open, false)
	if where.none {
		return nil
	}
	needs := with
	if filter.OnMetadata() {
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
				n.Text, n.Context = "", ""
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

// scanAll reads all nodes by the cursor; the server takes no filter beside it. The ids are cut into ranges of about equal
// numbers of nodes, which are read at the same time, since the server reads for one cursor with one core. A node is in one
// range, so it is visited once whatever is written meanwhile. visit is called by one goroutine at a time.
func (s *Store) scanAll(ctx context.Context, c *collection, with store.Fields, visit func([]*pb.SearchResult) error) error {
	limit := max(s.pageLimit(c, with)/4, 16) // small pages keep both sides busy
	sample := min(limit, 256)
	first, err := s.cursor(ctx, c, with, firstCursor, &sample)
	if err != nil {
		return err
	}
	if len(first) < sample {
		return visit(first)
	}
	reached := resultID(first[len(first)-1])
	scan := rangeScan{s: s, c: c, with: with, limit: limit, density: float64(len(first)) / position(reached), pages: make(chan scanPage)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, r := range scan.ranges(reached) {
		wg.Go(func() { scan.read(ctx, r) })
	}
	go func() {
		wg.Wait()
		close(scan.pages)
	}()
	err = visit(first)
	for page := range scan.pages { // to its end, so that no reader is left behind
		if err == nil {
			err = page.err
		}
		if err == nil {
			err = visit(page.results)
		}
		if err != nil {
			cancel()
		}
	}
	cancel()
	return err
}

// rangeScan reads ranges of ids.
type rangeScan struct {
	s     *Store
	c     *collection
	with  store.Fields
	limit int
	// density is about how many nodes there are, as far as the first page tells: ids are hashes, so they lie evenly.
	density float64
	pages   chan scanPage
}

type scanPage struct {
	results []*pb.SearchResult
	err     error
}

// idRange holds the ids above one and up to another.
type idRange struct{ after, last tree.ID }

// ranges cuts the ids above one into as many ranges as are worth it.
func (r *rangeScan) ranges(after tree.ID) []idRange {
	start := position(after)
	n := min(r.s.cfg.Readers, 1+int(r.density*(1-start)/float64(r.limit)))
	out := make([]idRange, n)
	for i := range out {
		out[i] = idRange{after, idAt(start + (1-start)*float64(i+1)/float64(n))}
		after = out[i].last
	}
	for i := range out[n-1].last { // the position 1 is none of an id's
		out[n-1].last[i] = 0xff
	}
	return out
}

// read sends the pages of a range.
func (r *rangeScan) read(ctx context.Context, ids idRange) {
	limit := r.limit
	for {
		// The last page need not reach far into the next range.
		left := int(1.05*r.density*(position(ids.last)-position(ids.after))) + 64
		ask := min(limit, max(left, 16))
		results, err := r.s.cursor(ctx, r.c, r.with, ids.after.String(), &ask)
		limit = min(limit, max(ask, 16))
		more := err == nil && len(results) == ask
		if n := len(results); n > 0 {
			ids.after = resultID(results[n-1])
		}
		for len(results) > 0 && resultID(results[len(results)-1]).Compare(ids.last) > 0 {
			results, more = results[:len(results)-1], false
		}
		select {
		case r.pages <- scanPage{results, err}:
		case <-ctx.Done():
			return
		}
		if !more {
			return
		}
	}
}

// position returns where an id lies among all, from 0 to 1.
func position(id tree.ID) float64 { return float64(binary.BigEndian.Uint64(id[:8])) / (1 << 64) }

// idAt returns an id near a position.
func idAt(position float64) tree.ID {
	var id tree.ID
	binary.BigEndian.PutUint64(id[:8], uint64(position*(1<<64)))
	return id
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
		spool.reset()
		return s.scan(ctx, c, &filter, with, spool.add)
	})
	if err != nil {
		return fmt.Errorf("weaviate: corpus %s: read: %w", corpus, err)
	}
	return spool.each(ctx, fn)
}
