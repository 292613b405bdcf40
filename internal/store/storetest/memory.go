package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Memory is a store in memory. Every answer is computed from all nodes, with no index.
type Memory struct {
	mu      sync.RWMutex
	corpora map[string]*memoryCorpus
}

var _ store.Store = (*Memory)(nil)

type memoryCorpus struct {
	width int
	nodes map[tree.ID]tree.Node
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{corpora: map[string]*memoryCorpus{}} }

// Put implements [store.Store].
func (m *Memory) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.corpora[corpus]
	if c == nil {
		c = &memoryCorpus{nodes: map[tree.ID]tree.Node{}}
		m.corpora[corpus] = c
	}
	failed := map[tree.ID]error{}
	for i := range nodes {
		n := &nodes[i]
		if err := store.CheckNode(n, c.width); err != nil {
			failed[n.ID] = err
			continue
		}
		c.width = len(n.Vector)
		c.nodes[n.ID] = clone(n, store.Fields{Text: true, Vector: true, Metadata: true})
	}
	if len(failed) > 0 {
		return &store.PutError{Failed: failed}
	}
	return nil
}

// Get implements [store.Store].
func (m *Memory) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := m.corpora[corpus]
	if c == nil {
		return nil, nil
	}
	var nodes []tree.Node
	for _, id := range ids {
		if n, ok := c.nodes[id]; ok {
			nodes = append(nodes, clone(&n, with))
		}
	}
	return nodes, nil
}

// Each implements [store.Store].
func (m *Memory) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	nodes, err := m.selected(ctx, corpus, filter)
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b tree.Node) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.DocumentID, b.DocumentID),
			cmp.Compare(a.ChunkIndex, b.ChunkIndex), a.ID.Compare(b.ID))
	})
	for i := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := clone(&nodes[i], with)
		if err := fn(&n); err != nil {
			return err
		}
	}
	return nil
}

// Count implements [store.Store].
func (m *Memory) Count(ctx context.Context, corpus string, filter store.Filter) (int, error) {
	nodes, err := m.selected(ctx, corpus, filter)
	return len(nodes), err
}

// Documents implements [store.Store].
func (m *Memory) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	nodes, err := m.selected(ctx, corpus, store.Leaves())
	if err != nil {
		return err
	}
	documents := map[string]*store.Document{}
	for _, n := range nodes {
		if n.Died != tree.Deleted && strings.HasPrefix(n.DocumentID, prefix) {
			if documents[n.DocumentID] == nil {
				documents[n.DocumentID] = &store.Document{}
			}
			documents[n.DocumentID].Add(&n)
		}
	}
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

// DocumentsAfter implements [store.Store].
func (m *Memory) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]store.Document, error) {
	return store.PageOf(ctx, m, corpus, prefix, after, limit)
}

// CountDocuments implements [store.Store].
func (m *Memory) CountDocuments(ctx context.Context, corpus string) (int, error) {
	n := 0
	err := m.Documents(ctx, corpus, "", func(store.Document) error { n++; return nil })
	return n, err
}

// MetadataKeys implements [store.Store].
func (m *Memory) MetadataKeys(ctx context.Context, corpus string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := map[string]bool{}
	if c := m.corpora[corpus]; c != nil {
		for _, n := range c.nodes {
			for key := range n.Metadata {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys)), ctx.Err()
}

// Search implements [store.Store].
func (m *Memory) Search(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if err := m.validate(corpus, &q, true); err != nil {
		return nil, err
	}
	nodes, err := m.selected(ctx, corpus, q.Filter)
	if err != nil {
		return nil, err
	}
	var hits []store.Hit
	for _, n := range nodes {
		if n.Died != tree.Deleted {
			hits = append(hits, store.Hit{Node: n, Score: cosine(n.Vector, q.Vector)})
		}
	}
	return best(hits, &q), nil
}

// Keyword implements [store.Store].
func (m *Memory) Keyword(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	if err := m.validate(corpus, &q, false); err != nil {
		return nil, err
	}
	everything, err := m.selected(ctx, corpus, store.AnyLevel())
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(everything))
	for i := range everything {
		texts[i] = everything[i].Context + "\n" + everything[i].Text
	}
	var hits []store.Hit
	for i, score := range bm25(texts, q.Text) {
		n := everything[i]
		if score > 0 && n.Died != tree.Deleted && q.Filter.Selects(&n) {
			hits = append(hits, store.Hit{Node: n, Score: score})
		}
	}
	return best(hits, &q), nil
}

// SetLife implements [store.Store].
func (m *Memory) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if born < 0 || died < 0 || died > tree.Alive {
		return fmt.Errorf("storetest: %w: life from %d to %d", store.ErrInvalid, born, died)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if c := m.corpora[corpus]; c != nil {
			if n, ok := c.nodes[id]; ok {
				n.Born, n.Died = born, died
				c.nodes[id] = n
			}
		}
	}
	return nil
}

// Delete implements [store.Store].
func (m *Memory) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if c := m.corpora[corpus]; c != nil {
			delete(c.nodes, id)
		}
	}
	return nil
}

// Drop implements [store.Store].
func (m *Memory) Drop(ctx context.Context, corpus string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.corpora, corpus)
	return nil
}

// selected returns the nodes that the filter keeps, in the order of their ids, so that sums over them have one too. They
// share memory with the store.
func (m *Memory) selected(ctx context.Context, corpus string, filter store.Filter) ([]tree.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := filter.Validate(); err != nil {
		return nil, fmt.Errorf("storetest: %w", err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var nodes []tree.Node
	if c := m.corpora[corpus]; c != nil {
		for _, n := range c.nodes {
			if filter.Selects(&n) {
				nodes = append(nodes, n)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b tree.Node) int { return a.ID.Compare(b.ID) })
	return nodes, nil
}

func (m *Memory) validate(corpus string, q *store.Query, vector bool) error {
	err := q.Validate()
	if err == nil && vector {
		m.mu.RLock()
		defer m.mu.RUnlock()
		width := 0
		if c := m.corpora[corpus]; c != nil {
			width = c.width
		}
		err = store.CheckVector(q.Vector, width)
	}
	if err != nil {
		return fmt.Errorf("storetest: corpus %s: %w", corpus, err)
	}
	return nil
}

// best returns the q.Limit best hits, ties by id, with the fields that were asked for.
func best(hits []store.Hit, q *store.Query) []store.Hit {
	slices.SortFunc(hits, func(a, b store.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Node.ID.Compare(b.Node.ID))
	})
	hits = hits[:min(len(hits), q.Limit)]
	for i := range hits {
		hits[i].Node = clone(&hits[i].Node, q.With)
	}
	return hits
}

// clone copies a node, so that no caller shares memory with the store.
func clone(n *tree.Node, with store.Fields) tree.Node {
	c := *n
	c.Children = slices.Clone(n.Children)
	if !with.Text {
		c.Text, c.Context = "", ""
	}
	c.Vector, c.Metadata = nil, nil
	if with.Vector {
		c.Vector = slices.Clone(n.Vector)
	}
	if with.Metadata && len(n.Metadata) > 0 {
		c.Metadata = map[string]any{}
		for key, value := range n.Metadata {
			switch v := value.(type) {
			case []string:
				value = slices.Clone(v)
			case []float64:
				value = slices.Clone(v)
			case []int64:
				value = slices.Clone(v)
			case []bool:
				value = slices.Clone(v)
			}
			c.Metadata[key] = value
		}
	}
	return c
}

// cosine returns a·b / (|a| |b|).
func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}
