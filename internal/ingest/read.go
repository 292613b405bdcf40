package ingest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/tree"
)

// rowsAtOnce is the number of rows that go through the first stages together.
const rowsAtOnce = 256

// flow is what comes out of reading: rows of any documents, or the whole of one file, which is being cut until ready is
// closed.
type flow struct {
	leaves []leaf
	end    *document // the file's
	ready  chan struct{}
}

// read reads the input in order. Files are cut side by side, each waiting for its turn after that.
func (r *run) read(ctx context.Context, out chan<- *flow) error {
	var cutting sync.WaitGroup
	defer cutting.Wait()
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	send := func(f *flow) error {
		select {
		case out <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ready := make(chan struct{})
	close(ready)
	var rows []leaf
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		f := &flow{leaves: rows, ready: ready}
		rows = nil
		return send(f)
	}
	err := corpus.Read(ctx, r.req.Paths, r.readOptions(), func(d corpus.Document) error {
		if d.Row != nil {
			if l, ok := r.row(d); ok {
				rows = append(rows, l)
			}
			if len(rows) < rowsAtOnce {
				return nil
			}
			return flush()
		}
		if err := flush(); err != nil {
			return err
		}
		doc, err := r.docs.begin(d)
		if err != nil {
			r.report.problem(corpus.Problem{Source: d.Source, Error: err.Error()})
			return nil
		}
		if isBlank(d.Text) {
			r.report.skip(corpus.SkipBlank)
		}
		f := &flow{end: doc, ready: make(chan struct{})}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		cutting.Go(func() {
			defer func() { <-slots }()
			defer close(f.ready)
			f.leaves = r.cut(doc, d.Text)
		})
		return send(f)
	})
	if err != nil {
		return err
	}
	return flush()
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// cut makes the leaves of a text.
func (r *run) cut(doc *document, text string) []leaf {
	chunks := corpus.Split(text, r.in.cfg.ChunkTokens, r.in.counter)
	leaves := make([]leaf, len(chunks))
	for i, c := range chunks {
		// A leaf must not keep the text of its whole document in memory.
		leaves[i] = leaf{doc: doc, source: doc.source, node: r.node(doc.id, i, strings.Clone(c.Text), c.Tokens)}
	}
	return leaves
}

func (r *run) node(document string, index int, text string, tokens int) tree.Node {
	return tree.Node{
		ID: tree.LeafID(r.req.Corpus, document, index, text), DocumentID: document, ChunkIndex: index,
		Text: text, Tokens: tokens, NLeaves: 1, Died: tree.Alive,
	}
}

// row makes the leaf of a ready-made chunk.
func (r *run) row(d corpus.Document) (leaf, bool) {
	if isBlank(d.Text) {
		r.report.skip(corpus.SkipBlank)
		r.docs.touch(d)
		return leaf{}, false
	}
	vector, err := r.vector(d)
	if err != nil {
		r.refuse(corpus.Problem{Source: d.Source, Line: d.Line, Error: err.Error(), Document: d.ID})
		return leaf{}, false
	}
	doc, at, err := r.docs.row(d)
	if err != nil {
		r.refuse(corpus.Problem{Source: d.Source, Line: d.Line, Error: err.Error()})
		return leaf{}, false
	}
	n := r.node(d.ID, at, d.Text, r.in.counter.Count(d.Text))
	n.Metadata, n.Vector = d.Row.Metadata, vector
	return leaf{doc: doc, source: d.Source, line: d.Line, node: n, given: vector != nil}, true
}

// vector returns the ready-made vector of a row at unit length, nil if there is none.
func (r *run) vector(d corpus.Document) ([]float32, error) {
	v := d.Row.Vector
	if r.vectors != nil {
		if d.Row.Number >= r.vectors.Len() {
			return nil, fmt.Errorf("the input has grown while it was read: %s holds only %d vectors", r.req.Vectors, r.vectors.Len())
		}
		v = r.vectors.Row(nil, d.Row.Number)
	}
	if v == nil {
		return nil, nil
	}
	if err := corpus.Unit(v); err != nil {
		if r.vectors != nil {
			return nil, fmt.Errorf("%s row %d: %w", r.req.Vectors, d.Row.Number, err)
		}
		return nil, err
	}
	return v, nil
}
