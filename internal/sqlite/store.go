package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// Store implements [store.Store].
type Store struct {
	db     *DB
	limits limits
	sheets sync.Pool // of *sheet

	mu     sync.Mutex // guards what follows
	tables map[int64]*table
	moved  map[int64]int64 // how far each corpus's vectors were last moved to its sidecar
}

var _ store.Store = (*Store)(nil)

// Store returns the node store.
func (db *DB) Store() *Store { return db.store }

// collection is a corpus's row.
type collection struct {
	id                     int64
	width                  int
	next, stamp            int64
	segmenter              int
	keywords               string // name of its keyword table
	firstNode, beyondNodes int64  // the range of its rows in nodes, texts and vectors
}

// sequenceBits is how far a corpus's number is shifted in the row number of a node.
const sequenceBits = 40

// collection reads a corpus's row; nil if there is none.
func (s *session) collection(corpus string) (*collection, error) {
	var c collection
	ok, err := s.row("SELECT id, width, next, stamp, segmenter FROM collections WHERE name = ?", []any{corpus},
		&c.id, &c.width, &c.next, &c.stamp, &c.segmenter)
	if err != nil || !ok {
		return nil, err
	}
	c.derive()
	return &c, nil
}

func (c *collection) derive() {
	c.keywords = fmt.Sprintf("words_%d", c.id)
	c.firstNode, c.beyondNodes = c.id<<sequenceBits, (c.id+1)<<sequenceBits
}

// createCollection adds a corpus with its keyword index.
func (s *session) createCollection(corpus string, width int) (*collection, error) {
	c := collection{width: width, stamp: newStamp(), segmenter: word.Version}
	_, err := s.row("INSERT INTO collections (name, width, stamp, segmenter) VALUES (?, ?, ?, ?) RETURNING id", []any{corpus, width, c.stamp, c.segmenter}, &c.id)
	if err != nil {
		return nil, err
	}
	c.derive()
	return &c, s.createKeywords(&c)
}

// newStamp returns a number that no other state of a corpus has. A counter wouldn't do: a database that was put back from
// a copy counts the same numbers again, for other changes.
func newStamp() int64 { return rand.Int64() }

// saveCounters stores what a change of nodes has moved.
func (s *session) saveCounters(c *collection) error {
	return s.exec("UPDATE collections SET next = ?, stamp = ? WHERE id = ?", c.next, c.stamp, c.id)
}

// SetLife implements [store.Store].
func (st *Store) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if born < 0 || died < 0 || died > tree.Alive {
		return fmt.Errorf("sqlite: corpus %s: %w: life from %d to %d is not within 0 to %d", corpus, store.ErrInvalid, born, died, tree.Alive)
	}
	return st.inParts(ctx, corpus, ids, 5000, "set the life of", func(s *session, c *collection, ids []tree.ID) (bool, error) {
		changed := false
		for _, id := range ids {
			n, err := s.change("UPDATE nodes SET born = ?, died = ? WHERE corpus = ? AND id = ? AND (born <> ? OR died <> ?)",
				born, died, c.id, id[:], born, died)
			if err != nil {
				return false, err
			}
			changed = changed || n > 0
		}
		return changed, nil
	})
}

// Delete implements [store.Store].
func (st *Store) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	return st.inParts(ctx, corpus, ids, 20_000, "delete", func(s *session, c *collection, ids []tree.ID) (bool, error) {
		d := deletion{session: s, collection: c}
		for _, id := range ids {
			if err := d.node(id); err != nil {
				return false, err
			}
		}
		return len(d.nodes) > 0, d.end()
	})
}

// inParts calls fn in transactions of at most size ids, so that others get their turn, and gives the corpus a
// new stamp when it reports a change.
func (st *Store) inParts(ctx context.Context, corpus string, ids []tree.ID, size int, doing string, fn func(*session, *collection, []tree.ID) (bool, error)) error {
	for len(ids) > 0 {
		n := min(size, len(ids))
		err := st.db.write(ctx, func(s *session) error {
			c, err := s.collection(corpus)
			if err != nil || c == nil {
				return err
			}
			changed, err := fn(s, c, ids[:n])
			if err != nil || !changed {
				return err
			}
			c.stamp = newStamp()
			return s.saveCounters(c)
		})
		if err != nil {
			return fmt.Errorf("sqlite: corpus %s: %s %d nodes from %s on: %w", corpus, doing, n, ids[0], err)
		}
		ids = ids[n:]
	}
	return nil
}

// Drop implements [store.Store].
func (st *Store) Drop(ctx context.Context, corpus string) error {
	var dropped *collection
	err := st.db.write(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		dropped = c
		for _, table := range []string{"nodes", "texts", "vectors"} {
			if err := s.exec("DELETE FROM "+table+" WHERE node >= ? AND node < ?", c.firstNode, c.beyondNodes); err != nil {
				return err
			}
		}
		for _, query := range []string{
			"DELETE FROM documents WHERE corpus = ?", "DELETE FROM metadata WHERE corpus = ?", "DELETE FROM collections WHERE id = ?",
		} {
			if err := s.exec(query, c.id); err != nil {
				return err
			}
		}
		return s.dropKeywords(c)
	})
	if err != nil {
		return fmt.Errorf("sqlite: drop corpus %s: %w", corpus, err)
	}
	if dropped == nil {
		return nil
	}
	if err := st.forget(dropped); err != nil {
		return fmt.Errorf("sqlite: drop corpus %s: %w", corpus, err)
	}
	return nil
}
