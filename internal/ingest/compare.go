package ingest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// leavesAtOnce is the number of leaves that are looked up in the store together.
const leavesAtOnce = 512

// event is what the writer is told: leaves to write, leaves that are lost, or that a document has no more of them.
type event struct {
	leaves []leaf
	lost   []leaf
	cause  error // why they are lost
	end    *document
}

// router sends the leaves that must be written to the embedder or to the writer.
type router struct {
	*run
	ctx    context.Context // of the one call of compare that it lives for
	embed  chan<- []leaf
	write  chan<- event
	buffer []leaf // to be looked up
	texts  []leaf // to be embedded
	// free are the leaves, by text, of the documents that were looked for one in last.
	free map[string]map[textHash][]*tree.Node
}

// compare looks every leaf up in the store and passes on those that are missing there or differ.
func (r *run) compare(ctx context.Context, in <-chan *flow, embed chan<- []leaf, write chan<- event) error {
	to := &router{run: r, ctx: ctx, embed: embed, write: write}
	var ends []*document // whose leaves are in the buffer
	flush := func() error {
		if err := to.lookUp(); err != nil {
			return err
		}
		for _, doc := range ends {
			if err := to.send(event{end: doc}); err != nil {
				return err
			}
		}
		ends = ends[:0]
		return nil
	}
	for f := range in {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		to.buffer = append(to.buffer, f.leaves...)
		if f.end != nil {
			ends = append(ends, f.end)
		}
		if len(to.buffer) >= leavesAtOnce || len(ends) >= leavesAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
		if f.done != nil {
			f.done()
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return to.sendTexts()
}

// lookUp compares the leaves of the buffer with the store.
func (t *router) lookUp() error {
	held, err := t.held()
	if err != nil {
		return err
	}
	var ready []leaf // to be written as they are
	var revived []tree.ID
	for i := range t.buffer {
		l := &t.buffer[i]
		old, ok := held[l.node.ID]
		ok = ok && !old.Superseded() // its text must be written anew
		if ok && old.Died == tree.Deleted {
			revived = append(revived, l.node.ID)
		}
		keep := t.settleLeaf(l, old, ok)
		switch {
		case !keep:
		case l.node.Vector == nil:
			if err := t.text(*l); err != nil {
				return err
			}
		default:
			ready = append(ready, *l)
		}
	}
	t.buffer = t.buffer[:0]
	if err := t.revive(revived); err != nil {
		return err
	}
	if len(ready) == 0 {
		return nil
	}
	return t.send(event{leaves: ready})
}

// held returns what the store has of the buffer's leaves.
func (t *router) held() (map[tree.ID]*tree.Node, error) {
	if t.fresh || len(t.buffer) == 0 {
		return nil, nil
	}
	ids := make([]tree.ID, len(t.buffer))
	given := false
	for i := range t.buffer {
		ids[i] = t.buffer[i].node.ID
		given = given || t.buffer[i].given
	}
	nodes, err := t.in.store.Get(t.ctx, t.req.Corpus, ids, store.Fields{Metadata: true, Vector: given, Text: t.contexts()})
	if err != nil {
		return nil, fmt.Errorf("ingest: corpus %s: %w", t.req.Corpus, err)
	}
	held := make(map[tree.ID]*tree.Node, len(nodes))
	var changed []tree.ID
	for i := range nodes {
		held[nodes[i].ID] = &nodes[i]
	}
	if err := t.adopt(held); err != nil {
		return nil, err
	}
	for i := range t.buffer {
		l := &t.buffer[i]
		if old, ok := held[l.node.ID]; ok && !l.given && old.Vector == nil && (!sameLeaf(old, &l.node) || l.node.Path != old.Path || l.node.Source != old.Source) {
			changed = append(changed, l.node.ID)
		}
	}
	if len(changed) == 0 {
		return held, nil
	}
	// Metadata that changed is written with the vector that the leaf has.
	if nodes, err = t.in.store.Get(t.ctx, t.req.Corpus, changed, store.Fields{Vector: true}); err != nil {
		return nil, fmt.Errorf("ingest: corpus %s: %w", t.req.Corpus, err)
	}
	for i := range nodes {
		held[nodes[i].ID].Vector = nodes[i].Vector
	}
	return held, nil
}

// settleLeaf counts a leaf and reports whether it must be written; old is what the store has of it.
func (t *router) settleLeaf(l *leaf, old *tree.Node, held bool) bool {
	var refused error
	write := !held
	if held {
		l.again = !sameLeaf(old, &l.node) || l.given && !sameVector(old.Vector, l.node.Vector)
		if l.node.Path == "" && l.node.Source == "" { // it doesn't say where it comes from
			l.node.Source, l.node.Path = old.Source, old.Path
		}
		l.quiet = !l.again && (old.Source != l.node.Source || old.Path != l.node.Path)
		if l.quiet {
			l.again, l.node.Updated = true, old.Updated
		}
		l.anew = old.Context != l.node.Context
		if l.again && !l.given && !l.anew { // a context is a part of what is embedded
			l.node.Vector = old.Vector
		}
		write = l.again
	}
	if !held || l.again && l.given && !l.quiet {
		var given []float32
		if l.given {
			given = l.node.Vector
		}
		if refused = t.pin.admit(given); refused != nil {
			t.report.problem(corpus.Problem{Source: l.source, Line: l.line, Error: refused.Error()})
		}
	}
	t.docs.mu.Lock()
	defer t.docs.mu.Unlock()
	doc := l.doc
	doc.ids = append(doc.ids, l.node.ID)
	if held && old.Path != "" && old.Path != l.node.Path {
		doc.was = old.Path
	}
	switch {
	case held && old.Died == tree.Deleted:
		doc.added++
	case held:
		doc.old++
	}
	if refused != nil {
		doc.failed = true
		return false
	}
	if write {
		doc.waiting++
	}
	return write
}

// revive brings leaves back that were deleted while a build was open.
func (t *router) revive(ids []tree.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := t.pin.record(t.ctx, t.in.corpora, len(ids)); err != nil {
		return err
	}
	if err := t.in.store.SetLife(t.ctx, t.req.Corpus, ids, 0, tree.Alive); err != nil {
		return fmt.Errorf("ingest: corpus %s: %w", t.req.Corpus, err)
	}
	t.report.Lock()
	t.report.Leaves.Added += len(ids)
	t.report.Unlock()
	return nil
}

// text adds a leaf to the next call of the embedder.
func (t *router) text(l leaf) error {
	t.texts = append(t.texts, l)
	if len(t.texts) < t.in.cfg.EmbedItems {
		return nil
	}
	return t.sendTexts()
}

func (t *router) sendTexts() error {
	if len(t.texts) == 0 {
		return nil
	}
	texts := t.texts
	t.texts = nil
	select {
	case t.embed <- texts:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

func (t *router) send(e event) error {
	select {
	case t.write <- e:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// contexts reports whether leaves have a context, or had one before.
func (r *run) contexts() bool {
	return r.pin.cut.Context || r.pin.before != nil && r.pin.before.Context
}

// sameLeaf reports whether a leaf that is held stands where it should, with the metadata that it should have.
func sameLeaf(held, now *tree.Node) bool {
	return held.ChunkIndex == now.ChunkIndex && held.Context == now.Context && sameMetadata(held.Metadata, now.Metadata)
}

func sameMetadata(a, b map[string]any) bool {
	return len(a) == len(b) && maps.EqualFunc(a, b, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}

// sameVector reports whether two vectors are equal up to what a store may round.
func sameVector(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-3 {
			return false
		}
	}
	return true
}
