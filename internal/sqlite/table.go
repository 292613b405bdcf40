package sqlite

import (
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// table holds of each node of one corpus what filters and ties need, in the order of row numbers. A table never
// changes; the next state of the corpus gets another one, which may share memory with it.
type table struct {
	next, mutations int64 // of the collection when it was read

	nodes     []int64 // row numbers, ascending
	ids       []tree.ID
	levels    []int32
	documents []int32
	metadata  []int32 // 0 for none
	born      []int32
	died      []int32
	vectors   []float32
	width     int
}

// table returns a corpus's table as of the session's transaction, which must not have read anything yet: since
// the lock is held when its state is fixed, a table that is kept is never newer than the transaction. It is nil
// if the corpus doesn't exist.
func (st *Store) table(s *session, corpus string) (*table, *collection, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	c, err := s.collection(corpus)
	if err != nil || c == nil {
		return nil, nil, err
	}
	t := st.tables[c.id]
	if t != nil && t.next == c.next && t.mutations == c.mutations {
		return t, c, nil
	}
	if t == nil || t.mutations != c.mutations {
		t = &table{width: c.width}
	}
	if t, err = t.extended(s, c); err != nil {
		return nil, nil, err
	}
	st.tables[c.id] = t
	return t, c, nil
}

// extended returns the table with the nodes that were added since it was read.
func (t *table) extended(s *session, c *collection) (*table, error) {
	u := *t
	from := c.firstNode + t.next
	u.next, u.mutations = c.next, c.mutations
	err := s.rows("SELECT node, id, level, document, metadata, born, died FROM nodes WHERE node >= ? AND node < ? ORDER BY node",
		[]any{from, c.beyondNodes}, func(scan func(...any) error) error {
			var node int64
			var id []byte
			var level, document, born, died int32
			var metadata *int32
			if err := scan(&node, &id, &level, &document, &metadata, &born, &died); err != nil {
				return err
			}
			if metadata == nil {
				metadata = new(int32)
			}
			u.nodes = append(u.nodes, node)
			u.ids = append(u.ids, tree.ID(id))
			u.levels = append(u.levels, level)
			u.documents = append(u.documents, document)
			u.metadata = append(u.metadata, *metadata)
			u.born = append(u.born, born)
			u.died = append(u.died, died)
			return nil
		})
	if err != nil {
		return nil, err
	}
	err = s.rows("SELECT vector FROM vectors WHERE node >= ? AND node < ? ORDER BY node", []any{from, c.beyondNodes}, func(scan func(...any) error) error {
		var vector []byte
		if err := scan(&vector); err != nil {
			return err
		}
		u.vectors = append(u.vectors, unit(decodeVector(vector))...)
		return nil
	})
	return &u, err
}

// forget drops what is kept of a corpus.
func (st *Store) forget(c *collection) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.tables, c.id)
}

// grown is told that a corpus has new vectors.
func (st *Store) grown(*collection) {}

func (st *Store) close() error { return nil }

// keep returns a function that reports whether row i passes the filter and may be found at all.
func (t *table) keep(filter store.Filter, sel *selection) func(i int) bool {
	minLevel, maxLevel := int32(filter.MinLevel), int32(filter.MaxLevel)
	return func(i int) bool {
		if t.died[i] == tree.Deleted || t.levels[i] < minLevel || maxLevel >= 0 && t.levels[i] > maxLevel {
			return false
		}
		if filter.At != nil && (int(t.born[i]) > *filter.At || int(t.died[i]) <= *filter.At) {
			return false
		}
		if sel.documents != nil && !sel.documents[int64(t.documents[i])] {
			return false
		}
		return sel.metadata == nil || t.levels[i] == 0 && sel.metadata[int64(t.metadata[i])]
	}
}

// index returns the place of a row number at or after from, or -1.
func (t *table) index(node int64, from int) int {
	i, ok := slices.BinarySearch(t.nodes[from:], node)
	if !ok {
		return -1
	}
	return from + i
}
