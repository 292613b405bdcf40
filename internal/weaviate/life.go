package weaviate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// patchers is how many objects are changed at a time.
const patchers = 8

// SetLife implements [store.Store]. Each node is changed by itself, on the REST side: the gRPC side can only replace whole
// objects, which could bring back one that is being deleted.
func (s *Store) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if born < 0 || died < 0 || died > tree.Alive {
		return fmt.Errorf("weaviate: corpus %s: %w: life from %d to %d is not within 0 to %d", corpus, store.ErrInvalid, born, died, tree.Alive)
	}
	err := s.within(ctx, corpus, func(c *collection) error {
		return s.patch(ctx, c, ids, func(int) map[string]any { return map[string]any{propBorn: born, propDied: died} })
	})
	if err != nil {
		return fmt.Errorf("weaviate: corpus %s: set the life of %d nodes: %w", corpus, len(ids), err)
	}
	return nil
}

// patch sets properties of objects, those of ids[i] to properties(i), and passes over objects that don't exist.
func (s *Store) patch(ctx context.Context, c *collection, ids []tree.ID, properties func(i int) map[string]any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(patchers, len(ids)) {
		wg.Go(func() {
			for i := range work {
				if err := s.patchOne(ctx, c, ids[i], properties(i)); err != nil {
					cancel(fmt.Errorf("node %s: %w", ids[i], err))
				}
			}
		})
	}
feed:
	for i := range ids {
		select {
		case work <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

func (s *Store) patchOne(ctx context.Context, c *collection, id tree.ID, properties map[string]any) error {
	err := s.call(ctx, "change in "+c.name, func(ctx context.Context) error {
		return s.objects.Updater().WithMerge().WithClassName(c.name).WithID(id.String()).WithTenant(s.cfg.Tenant).
			WithConsistencyLevel(s.cfg.Consistency).WithProperties(properties).Do(ctx)
	})
	var answer *statusError
	if errors.As(err, &answer) && answer.code == http.StatusNotFound && !strings.Contains(answer.text, "class") {
		return nil
	}
	return err
}

// deleteAtOnce is how many ids one bulk delete names. The server deletes at most 10,000 objects a call.
const deleteAtOnce = 4000

// Delete implements [store.Store].
func (s *Store) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.within(ctx, corpus, func(c *collection) error {
		for rest := ids; len(rest) > 0; {
			page := rest[:min(len(rest), deleteAtOnce)]
			rest = rest[len(page):]
			if err := s.deleteAll(ctx, c, ofIDs(page)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("weaviate: corpus %s: delete %d nodes: %w", corpus, len(ids), err)
	}
	return nil
}

// triesOfDelete is how often a bulk delete is repeated that deletes nothing although something is left.
const triesOfDelete = 5

// deleteAll deletes what a filter keeps until nothing is left.
func (s *Store) deleteAll(ctx context.Context, c *collection, filter *pb.Filters) error {
	for idle := 0; ; {
		reply, err := s.batchDelete(ctx, c, filter, false)
		if err != nil {
			return err
		}
		if reply.GetMatches() == 0 {
			return nil
		}
		if reply.GetSuccessful() == reply.GetMatches() && reply.GetFailed() == 0 {
			return nil
		}
		if reply.GetSuccessful() > 0 {
			idle = 0
			continue
		}
		if idle++; idle == triesOfDelete {
			return fmt.Errorf("the server deletes none of %d nodes", reply.GetMatches())
		}
	}
}

// batchDelete deletes what a filter keeps, or with dry only counts it.
func (s *Store) batchDelete(ctx context.Context, c *collection, filter *pb.Filters, dry bool) (*pb.BatchDeleteReply, error) {
	r := &pb.BatchDeleteRequest{Collection: c.name, Filters: filter, DryRun: dry, ConsistencyLevel: s.consistency()}
	if s.cfg.Tenant != "" {
		r.Tenant = &s.cfg.Tenant
	}
	var reply *pb.BatchDeleteReply
	err := s.call(ctx, "bulk delete in "+c.name, func(ctx context.Context) (err error) {
		reply, err = s.api.BatchDelete(ctx, r)
		return err
	})
	return reply, err
}

// DocumentsAfter implements [store.Store]. The server keeps no order of documents, so all are read: [store.Listed] spares that.
func (s *Store) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]store.Document, error) {
	return store.PageOf(ctx, s, corpus, prefix, after, limit)
}

// CountDocuments implements [store.Store], by reading all: [store.Listed] spares that.
func (s *Store) CountDocuments(ctx context.Context, corpus string) (int, error) {
	n := 0
	err := s.Documents(ctx, corpus, "", func(store.Document) error { n++; return nil })
	return n, err
}

// Documents implements [store.Store].
func (s *Store) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	documents := map[string]*store.Document{}
	err := s.within(ctx, corpus, func(c *collection) error {
		clear(documents)
		return s.scanDocuments(ctx, c, prefix, func(n *tree.Node) {
			if documents[n.DocumentID] == nil {
				documents[n.DocumentID] = &store.Document{}
			}
			documents[n.DocumentID].Add(n)
		})
	})
	if err != nil {
		return fmt.Errorf("weaviate: corpus %s: documents: %w", corpus, err)
	}
	return eachDocument(ctx, documents, fn)
}
