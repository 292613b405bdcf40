package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// Put implements [store.Store]. All nodes that can be written are written in one transaction.
func (st *Store) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	rows := make([]row, 0, len(nodes))
	failed := map[tree.ID]error{}
	for i := range nodes {
		r, err := newRow(&nodes[i])
		if err != nil {
			failed[nodes[i].ID] = err
			continue
		}
		rows = append(rows, r)
	}
	if len(rows) > 0 {
		var refused map[tree.ID]error
		var grown *collection
		err := st.db.write(ctx, func(s *session) (err error) {
			refused, grown, err = s.putRows(corpus, rows)
			return err
		})
		if err != nil {
			return fmt.Errorf("sqlite: corpus %s: put %d nodes from %s on: %w", corpus, len(rows), rows[0].node.ID, err)
		}
		for id, err := range refused {
			failed[id] = err
		}
		if grown != nil {
			// The nodes are written, whatever becomes of the cache: a search makes up for what it lacks.
			_ = st.grown(context.WithoutCancel(ctx), grown)
		}
	}
	if len(failed) > 0 {
		return &store.PutError{Failed: failed}
	}
	return ctx.Err()
}

// row is a node as it is stored. All that takes time is computed before the write lock is taken.
type row struct {
	node     *tree.Node
	words    string
	children []byte
	author   []byte // nil for none
	metadata string // "" for none
	vector   []byte
}

func newRow(n *tree.Node) (row, error) {
	if err := store.CheckNode(n, 0); err != nil {
		return row{}, err
	}
	r := row{node: n, words: word.Indexed(n.Context, n.Text), vector: encodeVector(n.Vector)}
	for _, child := range n.Children {
		r.children = append(r.children, child[:]...)
	}
	if n.Carried() {
		r.author = n.Author[:]
	}
	if len(n.Metadata) > 0 {
		b, err := json.Marshal(n.Metadata)
		if err != nil {
			return row{}, fmt.Errorf("%w: metadata: %w", store.ErrInvalid, err)
		}
		r.metadata = string(b)
	}
	return r, nil
}

// putRows writes rows. It returns the nodes that it refused and, if vectors were added, the corpus's row.
func (s *session) putRows(corpus string, rows []row) (refused map[tree.ID]error, grown *collection, err error) {
	c, err := s.collection(corpus)
	if err != nil {
		return nil, nil, err
	}
	if c == nil {
		if c, err = s.createCollection(corpus, len(rows[0].node.Vector)); err != nil {
			return nil, nil, err
		}
	}
	refused = map[tree.ID]error{}
	p := put{session: s, collection: c, documents: map[string]int64{}, metadata: map[string]int64{}}
	before := *c
	for i := range rows {
		r := &rows[i]
		if len(r.node.Vector) != c.width {
			refused[r.node.ID] = store.CheckVector(r.node.Vector, c.width)
			continue
		}
		if err := p.row(r); err != nil {
			return nil, nil, fmt.Errorf("node %s: %w", r.node.ID, err)
		}
	}
	if err := p.replaced.end(); err != nil {
		return nil, nil, err
	}
	if before != *c {
		if err := s.saveCounters(c); err != nil {
			return nil, nil, err
		}
	}
	if before.next != c.next {
		grown = c
	}
	return refused, grown, nil
}

// put is one transaction of Put.
type put struct {
	session    *session
	collection *collection
	documents  map[string]int64 // rows known so far
	metadata   map[string]int64
	replaced   deletion
}

// row writes a node. One that is there already is left alone as far as it is the same.
func (p *put) row(r *row) error {
	document, err := p.intern("documents", "name", p.documents, r.node.DocumentID)
	if err != nil {
		return err
	}
	if n := r.node; n.IsLeaf() {
		err := p.session.exec("UPDATE documents SET source = ?2, path = ?3 WHERE id = ?1 AND (source, path) <> (?2, ?3)", document, n.Source, n.Path)
		if err != nil {
			return err
		}
	}
	var metadata *int64
	if r.metadata != "" {
		id, err := p.intern("metadata", "value", p.metadata, r.metadata)
		if err != nil {
			return err
		}
		metadata = &id
	}
	added, err := p.insert(r, document, metadata)
	if err != nil || added {
		return err
	}
	return p.replace(r, document, metadata)
}

// insert adds a node unless its id is taken.
func (p *put) insert(r *row, document int64, metadata *int64) (added bool, err error) {
	s, n := p.session, r.node
	node := p.collection.firstNode + p.collection.next
	changed, err := s.change(`INSERT INTO nodes (node, corpus, id, level, document, chunk_index, scope, children, tokens, words, n_leaves, recipe, born, died, metadata, author, unseen, formed, updated)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (corpus, id) DO NOTHING`,
		node, p.collection.id, n.ID[:], n.Level, document, n.ChunkIndex, string(n.Scope), r.children, n.Tokens, word.Count(r.words), n.NLeaves, n.Recipe, n.Born, n.Died, metadata, r.author, n.Unseen, n.Formed, n.Updated)
	if err != nil || changed == 0 {
		return false, err
	}
	p.collection.next++
	if err := s.exec("INSERT INTO texts (node, text, context) VALUES (?, ?, ?)", node, n.Text, n.Context); err != nil {
		return false, err
	}
	if err := s.exec("INSERT INTO vectors (node, vector) VALUES (?, ?)", node, r.vector); err != nil {
		return false, err
	}
	return true, s.exec("INSERT INTO "+p.collection.keywords+" (rowid, words) VALUES (?, ?)", node, r.words)
}

// replace writes over a node. With another text or vector it becomes a new row, since the keyword index and the
// sidecar never change what stands under a row number.
func (p *put) replace(r *row, document int64, metadata *int64) error {
	s, n := p.session, r.node
	var node int64
	var text, around string
	var vector []byte
	_, err := s.row(`SELECT n.node, t.text, t.context, v.vector FROM nodes n JOIN texts t ON t.node = n.node JOIN vectors v ON v.node = n.node
		WHERE n.corpus = ? AND n.id = ?`, []any{p.collection.id, n.ID[:]}, &node, &text, &around, &vector)
	if err != nil {
		return err
	}
	if text != n.Text || around != n.Context || !bytes.Equal(vector, r.vector) {
		p.replaced.session, p.replaced.collection = s, p.collection
		if err := p.replaced.row(node); err != nil {
			return err
		}
		p.collection.stamp = newStamp()
		_, err := p.insert(r, document, metadata)
		return err
	}
	changed, err := s.change(`UPDATE nodes SET level = ?2, document = ?3, chunk_index = ?4, scope = ?5, children = ?6, tokens = ?7, n_leaves = ?8,
			recipe = ?9, born = ?10, died = ?11, metadata = ?12, author = ?13, unseen = ?14, formed = ?15, updated = ?16
		WHERE node = ?1 AND (level, document, chunk_index, scope, tokens, n_leaves, recipe, born, died, unseen, formed, updated)
				<> (?2, ?3, ?4, ?5, ?7, ?8, ?9, ?10, ?11, ?14, ?15, ?16)
			OR node = ?1 AND (children IS NOT ?6 OR metadata IS NOT ?12 OR author IS NOT ?13)`,
		node, n.Level, document, n.ChunkIndex, string(n.Scope), r.children, n.Tokens, n.NLeaves, n.Recipe, n.Born, n.Died, metadata, r.author, n.Unseen, n.Formed, n.Updated)
	if changed > 0 {
		p.collection.stamp = newStamp()
	}
	return err
}

// intern returns the row of a value in a table of distinct values, and adds it if needed.
func (p *put) intern(table, column string, known map[string]int64, value string) (int64, error) {
	if id, ok := known[value]; ok {
		return id, nil
	}
	var id int64
	ok, err := p.session.row("SELECT id FROM "+table+" WHERE corpus = ? AND "+column+" = ?", []any{p.collection.id, value}, &id)
	if err != nil {
		return 0, err
	}
	if !ok {
		_, err := p.session.row("INSERT INTO "+table+" (corpus, "+column+") VALUES (?, ?) RETURNING id", []any{p.collection.id, value}, &id)
		if err != nil {
			return 0, err
		}
	}
	known[value] = id
	return id, nil
}

// encodeVector returns a vector's values as they are stored: float32, little-endian.
func encodeVector(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// decodeVector is the inverse of encodeVector.
func decodeVector(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// decodeMetadata reads metadata as it is stored.
func decodeMetadata(value string) (tree.Metadata, error) {
	var m tree.Metadata
	if err := json.Unmarshal([]byte(value), &m); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return m, nil
}
