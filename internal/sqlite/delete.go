package sqlite

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// deletion takes nodes out of every table, in one transaction. What the nodes shared, and the keyword index, are seen
// to at its end.
type deletion struct {
	session    *session
	collection *collection
	nodes      []deleted
	documents  map[int64]bool
	metadata   map[int64]bool
}

// deleted is a node whose words are still in the keyword index.
type deleted struct {
	node  int64
	words string
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

// row deletes a node by its row number, so that its id is free.
func (d *deletion) row(node int64) error {
	var text, around string
	var document int64
	var metadata *int64
	_, err := d.session.row("SELECT t.text, t.context, n.document, n.metadata FROM nodes n JOIN texts t ON t.node = n.node WHERE n.node = ?", []any{node},
		&text, &around, &document, &metadata)
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
	d.nodes = append(d.nodes, deleted{node, word.Indexed(around, text)})
	// Blank first: a text of the same length is written in place. Deleting makes pages merge, which leaves copies of
	// rows in the gaps of pages, where secure_delete doesn't look.
	if err := d.session.exec("UPDATE texts SET text = CAST(zeroblob(length(CAST(text AS BLOB))) AS TEXT), context = CAST(zeroblob(length(CAST(context AS BLOB))) AS TEXT) WHERE node = ?", node); err != nil {
		return err
	}
	return d.session.exec("DELETE FROM nodes WHERE node = ?", node)
}

// rows deletes what else there is of the nodes.
func (d *deletion) rows() error {
	for _, table := range []string{"texts", "vectors"} {
		for _, n := range d.nodes {
			if err := d.session.exec("DELETE FROM "+table+" WHERE node = ?", n.node); err != nil {
				return err
			}
		}
	}
	return nil
}

// end takes the words out of the keyword index, and removes document ids and metadata that no node names any more.
func (d *deletion) end() error {
	if len(d.nodes) == 0 {
		return nil
	}
	if err := d.rows(); err != nil {
		return err
	}
	if err := d.keywords(); err != nil {
		return err
	}
	levels, err := d.session.levels(d.collection, store.AnyLevel())
	if err != nil {
		return err
	}
	for document := range d.documents {
		err := d.session.exec(`DELETE FROM documents WHERE id = ? AND NOT EXISTS (SELECT 1 FROM json_each(?) l
			JOIN nodes n ON n.corpus = documents.corpus AND n.level = l.value AND n.document = documents.id)`, document, list(levels))
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

// rebuildFactor is how many times dearer it is to take a node's words out of the keyword index than to put them in:
// every word is looked up in every segment and its page written anew (see createKeywords). Measured: 30 to 60.
const rebuildFactor = 40

// keywords takes the words of the deleted nodes out of the keyword index, one by one or by building the index anew,
// whichever is less work.
func (d *deletion) keywords() error {
	left := 0
	enough := rebuildFactor * len(d.nodes)
	_, err := d.session.row("SELECT count(*) FROM (SELECT 1 FROM texts WHERE node >= ? AND node < ? LIMIT ?)",
		[]any{d.collection.firstNode, d.collection.beyondNodes, enough}, &left)
	if err != nil {
		return err
	}
	if left < enough {
		return d.session.rebuildKeywords(d.collection)
	}
	query := fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rowid, words) VALUES ('delete', ?, ?)", d.collection.keywords)
	for _, n := range d.nodes {
		if err := d.session.exec(query, n.node, n.words); err != nil {
			return err
		}
	}
	return nil
}
