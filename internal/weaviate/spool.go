package weaviate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/tree"
)

// spool holds nodes until their order is known: packed in memory, and above a size in a file that goes with the process.
// What stays in memory of a node is its place in the order, about 50 bytes.
type spool struct {
	dir   string
	most  int // bytes in memory
	buf   []byte
	file  *os.File
	wrote int64 // bytes in the file
	index []spooled

	documents map[string]int32
	names     []string // the keys of documents
}

// spooled is one node's place in the order and in the spool.
type spooled struct {
	id       tree.ID
	at       int64
	size     int32
	level    int32
	document int32
	chunk    int64
}

func newSpool(dir string, most int) *spool {
	return &spool{dir: dir, most: most, documents: map[string]int32{}}
}

// reset empties the spool.
func (p *spool) reset() error {
	p.buf, p.index, p.wrote = p.buf[:0], p.index[:0], 0
	if p.file == nil {
		return nil
	}
	return p.file.Truncate(0)
}

func (p *spool) close() {
	if p.file != nil {
		_ = p.file.Close() // the file has no name any more
	}
}

// add puts a node in.
func (p *spool) add(n *tree.Node) error {
	document, ok := p.documents[n.DocumentID]
	if !ok {
		document = int32(len(p.names))
		p.names = append(p.names, strings.Clone(n.DocumentID))
		p.documents[p.names[document]] = document
	}
	start := len(p.buf)
	p.buf = packNode(p.buf, n)
	p.index = append(p.index, spooled{
		id: n.ID, at: p.wrote + int64(start), size: int32(len(p.buf) - start), level: int32(n.Level), document: document, chunk: int64(n.ChunkIndex),
	})
	if len(p.buf) > p.most {
		return p.flush()
	}
	return nil
}

// flush moves what is in memory to the file.
func (p *spool) flush() error {
	if p.file == nil {
		file, err := os.CreateTemp(p.dir, "aerie-read-")
		if err != nil {
			return fmt.Errorf("copy of the nodes: %w", err)
		}
		p.file = file
		if err := os.Remove(file.Name()); err != nil { // it lives until it is closed, whatever ends the process
			return fmt.Errorf("copy of the nodes: %w", err)
		}
	}
	if _, err := p.file.WriteAt(p.buf, p.wrote); err != nil {
		return fmt.Errorf("copy of the nodes, %d bytes so far: %w", p.wrote, err)
	}
	p.wrote += int64(len(p.buf))
	p.buf = p.buf[:0]
	return nil
}

// each calls fn for each node in the order of the contract.
func (p *spool) each(ctx context.Context, fn func(*tree.Node) error) error {
	slices.SortFunc(p.index, func(a, b spooled) int {
		order := cmp.Compare(a.level, b.level)
		if order == 0 && a.document != b.document {
			order = strings.Compare(p.names[a.document], p.names[b.document])
		}
		return cmp.Or(order, cmp.Compare(a.chunk, b.chunk), a.id.Compare(b.id))
	})
	var scratch []byte
	for i, e := range p.index {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		packed, err := p.read(e, &scratch)
		if err != nil {
			return err
		}
		n, err := unpackNode(packed)
		if err != nil {
			return fmt.Errorf("weaviate: copy of node %s: %w", e.id, err)
		}
		n.ID, n.DocumentID = e.id, p.names[e.document]
		if err := fn(&n); err != nil {
			return err
		}
	}
	return nil
}

func (p *spool) read(e spooled, scratch *[]byte) ([]byte, error) {
	if e.at >= p.wrote {
		from := e.at - p.wrote
		return p.buf[from : from+int64(e.size)], nil
	}
	*scratch = slices.Grow((*scratch)[:0], int(e.size))[:e.size]
	if _, err := p.file.ReadAt(*scratch, e.at); err != nil {
		return nil, fmt.Errorf("weaviate: copy of node %s: %w", e.id, err)
	}
	return *scratch, nil
}
