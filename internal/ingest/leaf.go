package ingest

import (
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/tree"
)

// document is one document of this ingest.
type document struct {
	id     string
	source string
	line   int    // of its first row
	of     string // the source that it belongs to, and path where it was read; "" if unknown
	path   string
	file   bool // cut from a text, as a whole; else its rows may be anywhere in the input

	// claimed are the ids that leaves of it have; the router alone knows them.
	claimed map[tree.ID]bool

	// What follows is guarded by run.mu.
	ids     []tree.ID // of its leaves
	next    int       // index of the next row that names none
	waiting int       // leaves that are neither written nor given up
	ended   bool      // no leaf comes any more
	old     int       // leaves of it that the store held before and that stay
	added   int       // leaves written or revived
	touched int       // leaves whose metadata or vector was written anew
	was     string    // where a leaf of it was read before, if that was somewhere else
	lost    int       // leaves that could not be embedded or written
	cause   error     // of the first one lost
	failed  bool      // something of it was left out
}

// leaf is one chunk on its way into the store.
type leaf struct {
	doc    *document
	source string
	line   int
	node   tree.Node // Vector is set when it is given or embedded
	given  bool      // the vector is ready-made
	again  bool      // the store holds it, with other metadata or another vector
	anew   bool      // again, with another context, so that it is embedded anew
	quiet  bool      // again, and nothing of it differs but where it was read
}

// index keeps the documents of an ingest by id.
type index struct {
	mu     sync.Mutex
	docs   map[string]*document
	chunks map[chunkKey]int // line of each row's chunk, to find two at one place
}

type chunkKey struct {
	doc   *document
	index int
}

// begin adds a document of a file. It is an error if rows have claimed the id.
func (x *index) begin(d corpus.Document) (*document, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if other, ok := x.docs[d.ID]; ok {
		return nil, fmt.Errorf("document id %q is that of %s already", d.ID, other.place())
	}
	doc := &document{id: d.ID, source: d.Source, of: d.Of, path: d.Path, file: true}
	x.docs[d.ID] = doc
	return doc, nil
}

// row returns the document that a row belongs to, and the place of its chunk there.
func (x *index) row(d corpus.Document) (*document, int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	doc, ok := x.docs[d.ID]
	if !ok {
		doc = &document{id: d.ID, source: d.Source, line: d.Line, of: d.Of, path: d.Path}
		x.docs[d.ID] = doc
	}
	if doc.file {
		return nil, 0, fmt.Errorf("document id %q is that of the file %s already", d.ID, doc.source)
	}
	at := d.Row.Index
	if at < 0 {
		at = doc.next
	}
	key := chunkKey{doc, at}
	if line, twice := x.chunks[key]; twice {
		doc.failed = true
		return nil, 0, fmt.Errorf("document %q has chunk_index %d already, in line %d", d.ID, at, line)
	}
	x.chunks[key] = d.Line
	doc.next = max(doc.next, at+1)
	return doc, at, nil
}

// touch adds the document of a row whose chunk is left out on purpose, so that what it held before goes.
func (x *index) touch(d corpus.Document) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.docs[d.ID]; !ok {
		x.docs[d.ID] = &document{id: d.ID, source: d.Source, line: d.Line, of: d.Of, path: d.Path}
	}
}

// fail notes that something of a document was left out before it came here.
func (x *index) fail(p corpus.Problem) {
	if p.Document == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	doc, ok := x.docs[p.Document]
	if !ok {
		doc = &document{id: p.Document, source: p.Source, line: p.Line}
		x.docs[p.Document] = doc
	}
	doc.failed = true
}

// place says where a document came from.
func (d *document) place() string {
	if d.line > 0 {
		return fmt.Sprintf("%s line %d", d.source, d.line)
	}
	return d.source
}
