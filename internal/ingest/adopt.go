package ingest

import (
	"crypto/sha256"
	"fmt"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// textHash stands for a text.
type textHash = [sha256.Size]byte

// adopt makes the same text in the same document the same leaf, wherever it has moved to: a leaf of the buffer that the store
// doesn't hold under its own id takes that of one with its text that no other leaf of the new version has. So a paragraph
// inserted before it doesn't make another leaf of it, which would be embedded again and change the tree. held gets those found.
func (t *router) adopt(held map[tree.ID]*tree.Node) error {
	var homeless []*leaf
	free := map[string]map[textHash][]*tree.Node{}
	filter := store.Leaves()
	was := map[string]string{} // where documents were read before
	for i := range t.buffer {
		l := &t.buffer[i]
		if held[l.node.ID] != nil && l.doc.claim(l.node.ID) {
			continue
		}
		homeless = append(homeless, l)
		if free[l.doc.id] != nil {
			continue
		}
		// Rows of a large document come in many buffers, and it is read once.
		if free[l.doc.id] = t.free[l.doc.id]; free[l.doc.id] == nil {
			free[l.doc.id] = map[textHash][]*tree.Node{}
			filter.Documents = append(filter.Documents, l.doc.id)
		}
	}
	t.free = free
	if len(filter.Documents) > 0 {
		err := t.in.store.Each(t.ctx, t.req.Corpus, filter, store.Fields{Text: true, Metadata: true}, func(n *tree.Node) error {
			if n.Path != "" && n.Died != tree.Deleted {
				was[n.DocumentID] = n.Path
			}
			at := sha256.Sum256([]byte(n.Text))
			n.Text = "" // as of every other in held
			free[n.DocumentID][at] = append(free[n.DocumentID][at], n)
			return nil
		})
		if err != nil {
			return fmt.Errorf("ingest: corpus %s: %w", t.req.Corpus, err)
		}
	}
	t.docs.mu.Lock()
	for _, l := range homeless {
		if path := was[l.doc.id]; path != "" && path != l.doc.path {
			l.doc.was = path
		}
	}
	t.docs.mu.Unlock()
	for _, l := range homeless {
		list, at := free[l.doc.id], sha256.Sum256([]byte(l.node.Text))
		var old *tree.Node
		for old == nil && len(list[at]) > 0 {
			if l.doc.claim(list[at][0].ID) {
				old = list[at][0]
			}
			list[at] = list[at][1:]
		}
		if old != nil {
			l.node.ID, held[old.ID] = old.ID, old
			continue
		}
		// Its own id, unless a leaf that has moved away took it along: then the first of those that no place has.
		for i := -1; !l.doc.claim(l.node.ID); i-- {
			l.node.ID = tree.LeafID(t.req.Corpus, l.doc.id, i, l.node.Text)
		}
	}
	return nil
}

// claim gives a leaf of the document an id, and reports whether no other one has it.
func (d *document) claim(id tree.ID) bool {
	if d.claimed[id] {
		return false
	}
	if d.claimed == nil {
		d.claimed = map[tree.ID]bool{}
	}
	d.claimed[id] = true
	return true
}
