package weaviate

import (
	"context"
	"maps"
	"slices"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// scanDocuments visits the leaves that are not deleted of the documents whose ids begin with prefix.
func (s *Store) scanDocuments(ctx context.Context, c *collection, prefix string, visit func(*tree.Node)) error {
	selected := func(results []*pb.SearchResult) error {
		for _, r := range results {
			n, err := c.decode(r, store.Fields{})
			if err != nil {
				return err
			}
			if n.IsLeaf() && n.Died != tree.Deleted && strings.HasPrefix(n.DocumentID, prefix) {
				visit(&n)
			}
		}
		return nil
	}
	if where := prefixFilter(prefix); where != nil {
		n, err := s.matches(ctx, c, where)
		if err != nil || n == 0 {
			return err
		}
		if n <= maxResults/2 {
			return s.scanFew(ctx, c, where, store.Fields{}, selected)
		}
	}
	return s.scanAll(ctx, c, store.Fields{}, selected)
}

// prefixFilter keeps the leaves of the documents whose ids begin with prefix, or more; nil if the server can't tell.
func prefixFilter(prefix string) *pb.Filters {
	// The index of keys leaves out white space at the ends, and in a pattern "*" and "?" can't be escaped: as "?", each
	// stands for itself too.
	pattern := strings.ReplaceAll(strings.TrimSpace(prefix), "*", "?")
	if pattern == "" || strings.TrimSpace(prefix) != prefix {
		return nil
	}
	return and([]*pb.Filters{
		compare(propLevel, pb.Filters_OPERATOR_EQUAL, 0),
		{Operator: pb.Filters_OPERATOR_LIKE, Target: target(propDocument), TestValue: &pb.Filters_ValueText{ValueText: pattern + "*"}},
	})
}

// eachDocument calls fn for each document, by id.
func eachDocument(ctx context.Context, documents map[string]*store.Document, fn func(store.Document) error) error {
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(*documents[id]); err != nil {
			return err
		}
	}
	return nil
}
