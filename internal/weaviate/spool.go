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

// spool holds nodes until their order is known: in memory, and above a size packed in a file that goes with the process.
// What stays in memory of a node in the file is its place in the order, about 50 bytes.
type spool struct {
	dir   string
	most  int // bytes in memory
	index []spooled

	nodes []tree.Node // while there is no file
	held  int         // about their bytes

	file  *os.File
	buf   []byte // that follows in the file
	wrote int64  // bytes in the file

	documents map[string]int32
	names     []string // the keys of documents
}

// spooled is one node's place in the order and in the spool: in the file, or among the nodes.
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
func (p *spool) reset() {
	p.close()
	*p = *newSpool(p.dir, p.most)
}

func (p *spool) close() {
	if p.file != nil {
		_ = p.file.Close() // the file has no name any more
	}
}

// add puts a node in, and keeps it.
func (p *spool) add(n *tree.Node) error {
	document, ok := p.documents[n.DocumentID]
	if !ok {
		document = int32(len(p.names))
		p.names = append(p.names, n.DocumentID)
		p.documents[n.DocumentID] = document
	}
	p.index = append(p.index, spooled{
		id: n.ID, at: int64(len(p.nodes)), level: int32(n.Level), document: document, chunk: int64(n.ChunkIndex),
	})
	if p.file != nil {
		return p.pack(&p.index[len(p.index)-1], n)
	}
	p.nodes = append(p.nodes, *n)
	p.held += 250 + len(n.Text) + 4*len(n.Vector) + 16*len(n.Children) + 100*len(n.Metadata)
	if p.held > p.most {
		return p.spill()
	}
	return nil
}

// spill moves the nodes from memory to a file.
func (p *spool) spill() error {
	file, err := os.CreateTemp(p.dir, "aerie-read-")
	if err != nil {
		return fmt.Errorf("copy of the nodes: %w", err)
	}
	p.file = file
	if err := os.Remove(file.Name()); err != nil { // it lives until it is closed, whatever ends the process
		return fmt.Errorf("copy of the nodes: %w", err)
	}
	for i := range p.index {
		if err := p.pack(&p.index[i], &p.nodes[p.index[i].at]); err != nil {
			return err
		}
	}
	p.nodes = nil
	return nil
}

// pack writes a node to the file, and its place there to e.
func (p *spool) pack(e *spooled, n *tree.Node) error {
	const enough = 1 << 20
	start := len(p.buf)
	p.buf = packNode(p.buf, n)
	e.at, e.size = p.wrote+int64(start), int32(len(p.buf)-start)
	if len(p.buf) < enough {
		return nil
	}
	return p.flush()
}

// flush writes what follows in the file.
func (p *spool) flush() error {
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
	if p.file != nil {
		if err := p.flush(); err != nil {
			return fmt.Errorf("weaviate: %w", err)
		}
	}
	for i, e := range p.index {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := p.node(e)
		if err != nil {
			return fmt.Errorf("weaviate: copy of node %s: %w", e.id, err)
		}
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// node returns a node that was put in.
func (p *spool) node(e spooled) (*tree.Node, error) {
	if p.file == nil {
		return &p.nodes[e.at], nil
	}
	p.buf = slices.Grow(p.buf[:0], int(e.size))[:e.size]
	if _, err := p.file.ReadAt(p.buf, e.at); err != nil {
		return nil, err
	}
	n, err := unpackNode(p.buf)
	n.ID, n.DocumentID = e.id, p.names[e.document]
	return &n, err
}
