package corpus

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
)

// Piece is a row as it stands, or the text of a file.
type Piece struct {
	Source string
	File   File // that a row stands in; without an id if there is none
	Line   int
	// Row is the line of a row, valid until the next piece; Number counts the rows from 0, broken ones included.
	Row    []byte
	Number int
	// Document is the file's; nil for a row.
	Document *Document
}

// Pieces is Read for those who pass on what they read: rows come as they are, broken ones too.
func Pieces(ctx context.Context, paths []string, opts Options, yield func(Piece) error) error {
	files, err := find(ctx, paths, opts)
	if err != nil {
		return err
	}
	if err := opts.identify(files); err != nil {
		return err
	}
	r := reader{ctx: ctx, opts: opts, raw: yield}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return err
		}
	}
	return nil
}

// RowDocument returns the id of the document that a row belongs to, "" if it can't be read.
func RowDocument(piece Piece) string {
	r := reader{within: piece.File}
	doc, failed, err := r.parser.parse(piece.Row)
	if err != nil {
		return failed
	}
	r.identify(&doc)
	return doc.ID
}

// Packer writes a stream for ReadStream. The first error of the writer sticks.
type Packer struct {
	w      *bufio.Writer
	source string
	line   int // of source, that comes next
	err    error
}

// NewPacker returns a packer. The stream is complete after End.
func NewPacker(w io.Writer) *Packer { return &Packer{w: bufio.NewWriterSize(w, 1<<16)} }

// Piece writes a piece. vector, if not nil, is that of the row, and Vectors was called before.
func (p *Packer) Piece(piece Piece, vector []float32) error {
	if piece.Document != nil {
		d := noteDocument{ID: piece.Document.ID, Source: piece.Source, Text: piece.Document.Text, Of: piece.Document.Of, Path: piece.Document.Path, File: piece.Document.File, Metadata: piece.Document.Metadata}
		if piece.Document.Code {
			d.Format = "code"
		}
		p.note(note{Document: &d})
		return p.err
	}
	if piece.Source != p.source || piece.Line != p.line {
		p.note(note{Source: &noteSource{piece.Source, piece.Line, piece.File.ID, piece.File.Source, piece.File.Path}})
		p.source, p.line = piece.Source, piece.Line
	}
	if vector != nil {
		p.note(note{Vector: &noteVector{encodeVector(vector)}})
	}
	if isNote(piece.Row) { // no row can be one, so it is broken, and must arrive as such
		p.write([]byte(" "))
	}
	p.write(piece.Row)
	p.write([]byte("\n"))
	p.line++
	return p.err
}

// Vectors writes that vectors of a width come with the rows.
func (p *Packer) Vectors(of string, width int) { p.note(note{Vectors: &noteVectors{of, width}}) }

// Problem writes what could not be read.
func (p *Packer) Problem(x Problem) {
	p.note(note{Problem: &noteProblem{x.Source, x.Line, x.Error, x.Document}})
}

// Skip writes that something was left out on purpose.
func (p *Packer) Skip(source, reason string) { p.note(note{Skip: &noteSkip{source, reason}}) }

// End completes the stream.
func (p *Packer) End() error {
	p.note(note{End: &struct{}{}})
	if p.err == nil {
		p.err = p.w.Flush()
	}
	return p.err
}

func (p *Packer) note(n note) {
	if p.err != nil {
		return
	}
	e := json.NewEncoder(p.w)
	e.SetEscapeHTML(false)
	p.err = e.Encode(n)
	if n.Document != nil || n.End != nil {
		p.source = "" // a document ends the lines of a source
	}
}

func (p *Packer) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
}
