package ingest

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/aerie-rag/aerie/internal/corpus"
)

// Packed is what Pack read.
type Packed struct {
	Documents int // files
	Rows      int
	files     *inventory
}

// Pack reads what a request names, and writes it as a stream for an ingest elsewhere (Request.Stream), which then reports what an
// ingest here would. base is that of [Config]. progress, if not nil, is told now and then how far it is; it must be fast.
func Pack(ctx context.Context, req Request, base string, w io.Writer, progress func(*Packed)) (*Packed, error) {
	out := &Packed{files: newInventory(hostName())}
	r := &run{in: &Ingester{cfg: Config{Base: base}}, req: req, report: newTally(req.Corpus)}
	if req.Stdin != nil {
		r.stdin = &interruptible{ctx: ctx, src: req.Stdin}
	}
	if err := r.openVectors(ctx); err != nil {
		return out, err
	}
	defer r.close()
	p := corpus.NewPacker(w)
	if r.vectors != nil {
		p.Vectors(req.Vectors, r.vectors.Width())
	}
	opts := corpus.Options{Base: base, Host: out.files.host, Stdin: r.stdin, Skip: p.Skip, Reading: req.Reading}
	opts.Problem = func(x corpus.Problem) {
		out.files.broken[x.Source] = true
		p.Problem(x)
	}
	opts.Identify = func(files []*corpus.File) error {
		for _, f := range files {
			out.files.add(f)
		}
		return nil
	}
	err := corpus.Pieces(ctx, req.Paths, opts, func(piece corpus.Piece) error {
		if progress != nil {
			progress(out)
		}
		return r.pack(p, piece, out)
	})
	if err != nil {
		return out, err
	}
	return out, p.End()
}

// pack writes one piece with the vector that belongs to it.
func (r *run) pack(p *corpus.Packer, piece corpus.Piece, out *Packed) error {
	if piece.Document != nil {
		out.Documents++
		out.files.saw(piece.Document.ID, piece.Document.Path)
		return p.Piece(piece, nil)
	}
	out.Rows++
	if r.req.Prune {
		out.files.saw(corpus.RowDocument(piece), piece.File.Path)
	}
	if r.vectors == nil || piece.Number < 0 {
		return p.Piece(piece, nil)
	}
	if piece.Number >= r.vectors.Len() {
		return fmt.Errorf("ingest: the input has grown while it was read: %s holds only %d vectors", r.req.Vectors, r.vectors.Len())
	}
	return p.Piece(piece, r.vectors.Row(nil, piece.Number))
}

// hostName is the name of this machine, which tells its files from those of others elsewhere.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}
