package sqlite

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Search implements [store.Store], exactly: every vector that passes the filter is compared.
func (st *Store) Search(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	var hits []store.Hit
	err := st.query(ctx, corpus, &q, func(s *session, c *collection, t *table, keep func(int) bool) error {
		if err := store.CheckVector(q.Vector, c.width); err != nil {
			return err
		}
		found, err := t.nearest(ctx, unit(q.Vector), keep, q.Limit)
		if err != nil {
			return err
		}
		hits, err = s.hits(t, found, q.With)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: search: %w", corpus, err)
	}
	return hits, nil
}

// query calls fn with a corpus's table and the filter, all in one state. An unknown corpus has no hits.
func (st *Store) query(ctx context.Context, corpus string, q *store.Query, fn func(*session, *collection, *table, func(int) bool) error) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return st.db.read(ctx, func(s *session) error {
		t, c, err := st.table(s, corpus)
		if err != nil || c == nil {
			return err
		}
		sel, err := s.selection(corpus, q.Filter)
		if err != nil {
			return err
		}
		err = fn(s, c, t, t.keep(q.Filter, sel))
		runtime.KeepAlive(t) // slices of mapped files don't hold the mapping
		return err
	})
}

// hits reads the nodes that were found.
func (s *session) hits(t *table, found []scored, with store.Fields) ([]store.Hit, error) {
	hits := make([]store.Hit, len(found))
	query := selectNodesOf("json_each(?) j CROSS JOIN nodes n ON n.node = j.value JOIN documents d ON d.id = n.document", "j.key", with)
	for from := 0; from < len(found); from += partSize {
		part := found[from:min(from+partSize, len(found))]
		rows := make([]int64, len(part))
		for i, f := range part {
			rows[i] = t.nodes[f.row]
		}
		read := 0
		err := s.rows(query, []any{list(rows)}, func(scan func(...any) error) error {
			n, key, err := scanNode(scan, with)
			if err != nil {
				return err
			}
			i := from + key
			if n.ID != t.ids[found[i].row] {
				return fmt.Errorf("%w: node %s stands where another was found", store.ErrIndexDamaged, n.ID)
			}
			hits[i] = store.Hit{Node: *n, Score: found[i].score}
			read++
			return nil
		})
		if err != nil {
			return nil, err
		}
		if read < len(part) {
			return nil, fmt.Errorf("%d of %d nodes that were found are gone", len(part)-read, len(part))
		}
	}
	return hits, nil
}

// blockRows is how many rows are scored at a time: their scores stay in the first cache.
const blockRows = 512

// nearest returns the rows with the largest dot product with a vector of unit length, best first, ties by id. The
// rows are cut into as many parts as there are cores; which part a row is in has no influence on its score.
func (t *table) nearest(ctx context.Context, query []float32, keep func(int) bool, limit int) ([]scored, error) {
	n := len(t.nodes)
	parts := max(1, min(runtime.GOMAXPROCS(0), n/1024))
	best := make([]*top, parts)
	var wg sync.WaitGroup
	for p := range parts {
		wg.Go(func() {
			best[p] = newTop(t.ids, limit)
			for lo, hi := p*n/parts, (p+1)*n/parts; lo < hi && ctx.Err() == nil; lo += blockRows {
				t.score(query, lo, min(lo+blockRows, hi), keep, best[p])
			}
		})
	}
	wg.Wait()
	for _, b := range best[1:] {
		for _, s := range b.heap {
			best[0].add(s)
		}
	}
	return best[0].sorted(), ctx.Err()
}

// loops are those of the clustering kernel that this machine runs fastest; all give the same bits.
var loops = kernel.Best()

// score adds the rows lo to hi that are kept to the best, a run of them at a time whose vectors lie one after the other.
func (t *table) score(query []float32, lo, hi int, keep func(int) bool, best *top) {
	var scores [blockRows]float32
	for lo < hi {
		for lo < hi && !keep(lo) {
			lo++
		}
		from := lo
		for lo < hi && keep(lo) {
			lo++
		}
		for from < lo {
			vectors, n := t.run(from, lo)
			if n == 0 { // it is gone
				from++
				continue
			}
			loops.Products(scores[:n], vectors, query)
			for i, s := range scores[:n] {
				// Unit vectors give from -1 to 1; anything else, or no number at all, is a slot that was damaged.
				if score := float64(s); score > -2 && score < 2 && best.admits(score) {
					best.add(scored{from + i, score})
				}
			}
			from += n
		}
	}
}

// unit returns a vector scaled to length 1, so that a dot product is a cosine.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	scale := 1 / math.Sqrt(sum)
	u := make([]float32, len(v))
	for i, x := range v {
		u[i] = float32(float64(x) * scale)
	}
	return u
}

// scored is a row of a table with its score.
type scored struct {
	row   int
	score float64
}

// top keeps the limit best rows under a total order: score descending, then id ascending. heap[0] is the worst.
type top struct {
	ids   []tree.ID
	limit int
	heap  []scored
}

func newTop(ids []tree.ID, limit int) *top { return &top{ids: ids, limit: limit} }

// worse reports whether a comes after b.
func (t *top) worse(a, b scored) bool {
	if a.score != b.score {
		return a.score < b.score
	}
	return t.ids[a.row].Compare(t.ids[b.row]) > 0
}

// admits reports whether a row with a score may be among the best; add has the last word.
func (t *top) admits(score float64) bool {
	return len(t.heap) < t.limit || score >= t.heap[0].score
}

func (t *top) add(s scored) {
	if len(t.heap) < t.limit {
		t.heap = append(t.heap, s)
		for i := len(t.heap) - 1; i > 0; {
			parent := (i - 1) / 2
			if !t.worse(t.heap[i], t.heap[parent]) {
				break
			}
			t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
			i = parent
		}
		return
	}
	if t.worse(t.heap[0], s) {
		t.heap[0] = s
		t.sink(len(t.heap))
	}
}

// sink restores the heap of the first n after its root was replaced.
func (t *top) sink(n int) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && t.worse(t.heap[child+1], t.heap[child]) {
			child++
		}
		if !t.worse(t.heap[child], t.heap[i]) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}

// sorted empties the heap, best first.
func (t *top) sorted() []scored {
	for n := len(t.heap) - 1; n > 0; n-- {
		t.heap[0], t.heap[n] = t.heap[n], t.heap[0]
		t.sink(n)
	}
	return t.heap
}
