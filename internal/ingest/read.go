package ingest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Rows go through the first stages together: so many, or fewer if they are large.
const (
	rowsAtOnce     = 256
	rowBytesAtOnce = 8 << 20
)

// flow is what comes out of reading: rows of any documents, or the whole of one file, which is being cut until ready is
// closed.
type flow struct {
	leaves []leaf
	end    *document // the file's
	ready  chan struct{}
	done   func() // the leaves are in other hands
}

// inHand bounds the bytes of texts that are being cut or wait to be compared, over all ingests of the process: there is one memory.
var inHand = semaphore.NewWeighted(textsAtOnce)

// textsAtOnce is that bound. A text that is larger by itself comes alone.
const textsAtOnce = 64 << 20

// hold takes the room of a text, and returns what gives it back; the end of the ingest does so too.
func (s *source) hold(text string) (done func(), err error) {
	n := min(int64(len(text)), textsAtOnce)
	if err := inHand.Acquire(s.ctx, n); err != nil {
		return nil, err
	}
	var once sync.Once
	done = func() { once.Do(func() { inHand.Release(n) }) }
	context.AfterFunc(s.ctx, done) // the context of an ingest ends with it
	return done, nil
}

// source is the first stage at work.
type source struct {
	*run
	ctx     context.Context // of the one call of read that it lives for
	out     chan<- *flow
	ready   chan struct{} // closed
	rows    []leaf        // not sent yet
	bytes   int           // of them
	cutting sync.WaitGroup
	slots   chan struct{} // one for each file that is being cut
}

// read reads the input in order. Files are cut side by side, each waiting for its turn after that.
func (r *run) read(ctx context.Context, out chan<- *flow) error {
	s := &source{run: r, ctx: ctx, out: out, ready: make(chan struct{}), slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	close(s.ready)
	defer s.cutting.Wait()
	take := func(d corpus.Document) error {
		if d.Row == nil {
			return s.file(d)
		}
		if l, ok := r.row(d); ok {
			s.rows = append(s.rows, l)
			s.bytes += len(l.node.Text) + 4*len(l.node.Vector) + 64*len(l.node.Metadata)
		}
		if len(s.rows) < rowsAtOnce && s.bytes < rowBytesAtOnce {
			return nil
		}
		return s.flush()
	}
	var err error
	if r.req.Stream != nil {
		err = corpus.ReadStream(ctx, r.req.Stream, r.readOptions(), take)
	} else {
		err = corpus.Read(ctx, r.req.Paths, r.readOptions(), take)
	}
	if err != nil {
		return err
	}
	return s.flush()
}

// file starts to cut a file.
func (s *source) file(d corpus.Document) error {
	if err := s.flush(); err != nil {
		return err
	}
	doc, err := s.docs.begin(d)
	if err != nil {
		s.report.problem(corpus.Problem{Source: d.Source, Error: err.Error()})
		return nil
	}
	if isBlank(d.Text) {
		s.report.skip(d.Source, corpus.SkipBlank)
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	done, err := s.hold(d.Text)
	if err != nil {
		<-s.slots
		return err
	}
	f := &flow{end: doc, ready: make(chan struct{}), done: done}
	s.cutting.Go(func() {
		defer func() { <-s.slots }()
		defer close(f.ready)
		f.leaves = s.cut(doc, d)
	})
	return s.send(f)
}

// flush sends the rows at hand.
func (s *source) flush() error {
	if len(s.rows) == 0 {
		return nil
	}
	f := &flow{leaves: s.rows, ready: s.ready}
	s.rows, s.bytes = nil, 0
	return s.send(f)
}

func (s *source) send(f *flow) error {
	select {
	case s.out <- f:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// cut makes the leaves of a text.
func (r *run) cut(doc *document, d corpus.Document) []leaf {
	split := corpus.Split
	if d.Code {
		split = corpus.SplitCode
	}
	r.cuts()
	chunks := split(d.Text, r.tokens, r.in.counter)
	leaves := make([]leaf, len(chunks))
	for i, c := range chunks {
		// A leaf must not keep the text of its whole document in memory.
		leaves[i] = leaf{doc: doc, source: doc.source, node: r.node(doc, i, strings.Clone(c.Text), c.Tokens)}
		leaves[i].node.Metadata = d.Metadata
		if r.pin.cut.Context {
			leaves[i].node.Context = strings.Clone(c.Context)
		}
	}
	return leaves
}

func (r *run) node(doc *document, index int, text string, tokens int) tree.Node {
	return tree.Node{
		ID: tree.LeafID(r.req.Corpus, doc.id, index, text), DocumentID: doc.id, ChunkIndex: index,
		Text: text, Tokens: tokens, NLeaves: 1, Died: tree.Alive, Source: doc.of, Path: doc.path,
	}
}

// row makes the leaf of a ready-made chunk.
func (r *run) row(d corpus.Document) (leaf, bool) {
	if isBlank(d.Text) {
		r.report.skip(d.Source, corpus.SkipBlank)
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
	n := r.node(doc, at, d.Text, r.in.counter.Count(d.Text))
	n.Metadata, n.Vector = d.Row.Metadata, vector
	return leaf{doc: doc, source: d.Source, line: d.Line, node: n, given: vector != nil}, true
}

// vector returns the ready-made vector of a row at unit length, nil if there is none.
func (r *run) vector(d corpus.Document) ([]float32, error) {
	v := d.Row.Vector
	if r.vectors != nil && d.Row.Number >= 0 {
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
		if d.Row.VectorOf != "" {
			return nil, fmt.Errorf("%s row %d: %w", d.Row.VectorOf, d.Row.Number, err)
		}
		return nil, err
	}
	return v, nil
}
