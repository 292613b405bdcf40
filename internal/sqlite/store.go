package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Store implements [store.Store].
type Store struct {
	db *DB

	mu     sync.Mutex // guards tables
	tables map[int64]*table
}

var _ store.Store = (*Store)(nil)

// Store returns the node store.
func (db *DB) Store() *Store { return db.store }

// collection is a corpus's row.
type collection struct {
	id                     int64
	width                  int
	next, mutations        int64
	segmenter              int
	keywords               string // name of its keyword table
	firstNode, beyondNodes int64  // the range of its rows in nodes, texts and vectors
}

// sequenceBits is how far a corpus's number is shifted in the row number of a node.
const sequenceBits = 40

// collection reads a corpus's row; nil if there is none.
func (s *session) collection(corpus string) (*collection, error) {
	var c collection
	ok, err := s.row("SELECT id, width, next, mutations, segmenter FROM collections WHERE name = ?", []any{corpus},
		&c.id, &c.width, &c.next, &c.mutations, &c.segmenter)
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
	c := collection{width: width, segmenter: segmenterVersion}
	_, err := s.row("INSERT INTO collections (name, width, segmenter) VALUES (?, ?, ?) RETURNING id", []any{corpus, width, segmenterVersion}, &c.id)
	if err != nil {
		return nil, err
	}
	c.derive()
	return &c, s.createKeywords(&c)
}

// createKeywords makes an empty keyword index. The tokenizer only has to split at the spaces that segment puts in. With
// secure-delete, what is deleted leaves the index at once and not when segments happen to be merged.
func (s *session) createKeywords(c *collection) error {
	if err := s.exec(fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5 (words, content='', tokenize='ascii')", c.keywords)); err != nil {
		return err
	}
	return s.exec(fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rank) VALUES ('secure-delete', 1)", c.keywords))
}

// saveCounters stores what a change of nodes has moved.
func (s *session) saveCounters(c *collection) error {
	return s.exec("UPDATE collections SET next = ?, mutations = ? WHERE id = ?", c.next, c.mutations, c.id)
}

// SetLife implements [store.Store].
func (st *Store) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	if born < 0 || died < 0 || died > tree.Alive {
		return fmt.Errorf("sqlite: corpus %s: %w: life from %d to %d is not within 0 to %d", corpus, store.ErrInvalid, born, died, tree.Alive)
	}
	return st.inParts(ctx, corpus, ids, "set the life of", func(s *session, c *collection, ids []tree.ID) (bool, error) {
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
	return st.inParts(ctx, corpus, ids, "delete", func(s *session, c *collection, ids []tree.ID) (bool, error) {
		d := deletion{session: s, collection: c}
		for _, id := range ids {
			if err := d.node(id); err != nil {
				return false, err
			}
		}
		return d.nodes > 0, d.end()
	})
}

// partSize bounds how many ids one transaction changes, so that others get their turn.
const partSize = 2000

// inParts calls fn in transactions of at most partSize ids, and counts a mutation when it reports a change.
func (st *Store) inParts(ctx context.Context, corpus string, ids []tree.ID, doing string, fn func(*session, *collection, []tree.ID) (bool, error)) error {
	for len(ids) > 0 {
		n := min(partSize, len(ids))
		err := st.db.write(ctx, func(s *session) error {
			c, err := s.collection(corpus)
			if err != nil || c == nil {
				return err
			}
			changed, err := fn(s, c, ids[:n])
			if err != nil || !changed {
				return err
			}
			c.mutations++
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
		s.forget() // statements on the table would keep it from being dropped
		return s.exec("DROP TABLE " + c.keywords)
	})
	if err != nil {
		return fmt.Errorf("sqlite: drop corpus %s: %w", corpus, err)
	}
	if dropped != nil {
		st.forget(dropped)
	}
	return nil
}

// deletion takes nodes out of every table.
type deletion struct {
	session    *session
	collection *collection
	nodes      int
	documents  map[int64]bool
	metadata   map[int64]bool
}

// node deletes a node by its id, if there is one.
func (d *deletion) node(id tree.ID) error {
	var node int64
	ok, err := d.session.row("SELECT node FROM nodes WHERE corpus = ? AND id = ?", []any{d.collection.id, id[:]}, &node)
	if err != nil || !ok {
		return err
	}
	return d.row(node)
}

// row deletes a node by its row number.
func (d *deletion) row(node int64) error {
	var text string
	var document int64
	var metadata *int64
	_, err := d.session.row("SELECT t.text, n.document, n.metadata FROM nodes n JOIN texts t ON t.node = n.node WHERE n.node = ?", []any{node},
		&text, &document, &metadata)
	if err != nil {
		return err
	}
	if d.documents == nil {
		d.documents, d.metadata = map[int64]bool{}, map[int64]bool{}
	}
	d.documents[document] = true
	if metadata != nil {
		d.metadata[*metadata] = true
	}
	d.nodes++
	k := d.collection.keywords
	if err := d.session.exec(fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rowid, words) VALUES ('delete', ?, ?)", k), node, segment(text, false)); err != nil {
		return err
	}
	for _, table := range []string{"nodes", "texts", "vectors"} {
		if err := d.session.exec("DELETE FROM "+table+" WHERE node = ?", node); err != nil {
			return err
		}
	}
	return nil
}

// end removes document ids and metadata that no node names any more.
func (d *deletion) end() error {
	levels, err := d.session.levels(d.collection, store.AnyLevel())
	if err != nil {
		return err
	}
	list, err := json.Marshal(append(levels, -1)) // an empty list would be null
	if err != nil {
		return err
	}
	for document := range d.documents {
		err := d.session.exec(`DELETE FROM documents WHERE id = ? AND NOT EXISTS (SELECT 1 FROM json_each(?) l
			JOIN nodes n ON n.corpus = documents.corpus AND n.level = l.value AND n.document = documents.id)`, document, string(list))
		if err != nil {
			return err
		}
	}
	for metadata := range d.metadata {
		err := d.session.exec("DELETE FROM metadata WHERE id = ? AND NOT EXISTS (SELECT 1 FROM nodes WHERE metadata = ?)", metadata, metadata)
		if err != nil {
			return err
		}
	}
	return nil
}
