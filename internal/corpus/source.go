package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"

	"github.com/aerie-rag/aerie/internal/readers"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The most bytes, unpacked, of what is read as a whole.
const (
	// largest is for a document, or a line of files.
	largest = 256 << 20
	// largestLine is for a line of a stream, which comes from somebody else, and whose lines are read side by side with those of others.
	largestLine = 32 << 20
	// largestRow is for a ready-made chunk with all that it brings along.
	largestRow = 4 << 20
)

// errLarge: a document or line over it.
var errLarge = errors.New("it is larger than may be read at once")

// tooLarge is errLarge with the bound.
func tooLarge(bound int) error {
	return fmt.Errorf("%w, which is %d MiB; split it", errLarge, bound>>20)
}

// place is where an id stands.
type place struct {
	source string
	line   int
}

// reader reads files one after the other.
type reader struct {
	ctx    context.Context // of the one call of Read that the reader lives for
	opts   Options
	yield  func(Document) error
	ids    map[string]place // of rows
	number int              // of the next row
	parser rowReader
	vector *brought          // of the next row, if it comes apart from it
	raw    func(Piece) error // if not nil, takes rows and files as they are
	within File              // whose rows are read; without an id if there is none
	sent   File              // the same, as the stream has it that the rows come in; else without an id
}

func (r *reader) problem(source string, line int, err error, document string) {
	r.opts.Problem(Problem{Source: source, Line: line, Error: err.Error(), Document: document})
}

// file reads one file. Only errors of yield and of the context are returned.
func (r *reader) file(f file) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if f.path == "-" {
		if r.opts.Stdin == nil {
			return errors.New("corpus: there is no standard input to read")
		}
		return r.rows(f, r.opts.Stdin)
	}
	src, err := f.open()
	if err != nil {
		r.problem(f.path, 0, errors.New(cause(err)), f.ID)
		return nil
	}
	defer src.Close()
	if f.lines {
		return r.rows(f, src)
	}
	return r.whole(f, src)
}

// whole reads a file that is no JSONL.
func (r *reader) whole(f file, src io.Reader) error {
	data, err := readAll(src)
	var out readers.Result
	if err == nil {
		out, err = f.reader.Read(r.ctx, data, r.tools())
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if err != nil {
		line := 0
		if at, ok := errors.AsType[*readers.LineError](err); ok {
			line = at.Line
		}
		r.problem(f.path, line, errors.New(cause(err)), f.ID)
		return nil
	}
	for _, note := range out.Notes {
		r.problem(f.path, 0, errors.New(note), "")
	}
	for _, part := range out.Parts {
		id := f.ID
		if part.Name != "" {
			id += "#" + part.Name
		}
		if err := r.document(Document{Source: f.path, ID: id, Of: f.Source, Path: f.Path, File: f.ID, Text: part.Text, Code: f.reader.Code, Metadata: metadataOf(part.Metadata)}); err != nil {
			return err
		}
	}
	for i, text := range out.Rows {
		row, err := json.Marshal(madeRow{ID: fmt.Sprintf("%s#%d", f.ID, i+1), Document: f.ID, Index: i, Text: strings.ReplaceAll(text, "\x00", "")})
		if err != nil {
			return fmt.Errorf("corpus: %w", err)
		}
		if err := r.made(f, i+1, row); err != nil {
			return err
		}
	}
	for i, line := range out.Lines {
		if err := r.made(f, i+1, line); err != nil {
			return err
		}
	}
	return nil
}

// metadataOf are the values that a file says about itself in the form that they have in a corpus; nil for none.
func metadataOf(said map[string]any) tree.Metadata {
	if len(said) == 0 {
		return nil
	}
	m := tree.Metadata{}
	for key, value := range said {
		m[key] = tree.Canonical(value)
	}
	return m
}

// madeRow is a row that a reader made of what a file holds.
type madeRow struct {
	ID       string `json:"id"`
	Document string `json:"document_id"`
	Index    int    `json:"chunk_index"`
	Text     string `json:"text"`
}

// made takes a row that stands in a file which isn't JSONL: vectors that are brought along don't count it.
func (r *reader) made(f file, line int, data []byte) error {
	number := r.number
	r.number, r.within = -1, f.File
	err := r.row(f.path, line, data, nil)
	r.number = number
	return err
}

func (r *reader) document(doc Document) error {
	if r.raw != nil {
		return r.raw(Piece{Source: doc.Source, Document: &doc})
	}
	return r.yield(doc)
}

func (r *reader) tools() readers.Tools {
	return readers.Tools{HTML: readHTML, Cache: r.opts.Cache, Encoding: r.opts.Encoding}
}

// readAll reads a whole document.
func readAll(src io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(src, largest+1))
	if err == nil && len(data) > largest {
		return nil, tooLarge(largest)
	}
	return data, err
}

// rows reads JSONL.
func (r *reader) rows(f file, src io.Reader) error {
	r.within = f.File
	in, err := r.decoded(src)
	if err != nil {
		r.problem(f.path, 0, err, f.ID)
		return nil
	}
	lines := lineReader{r: in}
	for {
		data, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if r.ctx.Err() != nil && (err != nil || lines.line%256 == 1) {
			return r.ctx.Err()
		}
		if err != nil && !errors.Is(err, errLarge) {
			r.problem(f.path, lines.line, fmt.Errorf("the rest can't be read: %s", cause(err)), "")
			return nil
		}
		if err := r.row(f.path, lines.line, data, err); err != nil {
			return err
		}
	}
}

// decoded is src as UTF-8: what its first bytes say it is, or what it was said to be.
func (r *reader) decoded(src io.Reader) (*bufio.Reader, error) {
	const size = 1 << 20
	in := bufio.NewReaderSize(src, size)
	head, _ := in.Peek(2) // what can't be read shows with the first line
	switch {
	case bytes.Equal(head, []byte("\xff\xfe")), bytes.Equal(head, []byte("\xfe\xff")):
		decoder := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder()
		return bufio.NewReaderSize(decoder.Reader(in), size), nil
	case r.opts.Encoding != "":
		e, err := readers.Encoding(r.opts.Encoding)
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(e.NewDecoder().Reader(in), size), nil
	}
	return in, nil
}

// row takes one line of JSONL; broken says why it can't be used at all.
func (r *reader) row(source string, line int, data []byte, broken error) error {
	if line == 1 {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	if broken == nil && isBlank(data) {
		return nil
	}
	number := r.number
	if number >= 0 { // a row that counts for vectors
		r.number++
	}
	if broken != nil {
		r.problem(source, line, broken, "")
		return nil
	}
	if len(data) > largestRow {
		r.problem(source, line, tooLarge(largestRow), "")
		return nil
	}
	if r.raw != nil {
		return r.raw(Piece{Source: source, File: r.within, Line: line, Row: data, Number: number})
	}
	apart := r.vector
	r.vector = nil
	doc, failed, err := r.parser.parse(data)
	if err != nil {
		if failed != "" {
			failed = underSource(r.within.Source, failed, r.within.ID)
		}
		r.problem(source, line, err, failed)
		return nil
	}
	r.identify(&doc)
	if at, twice := r.ids[doc.Row.ID]; twice {
		r.problem(source, line, fmt.Errorf("id %q stands already in %s line %d", doc.Row.ID, at.source, at.line), "")
		return nil
	}
	r.ids[doc.Row.ID] = place{source, line}
	doc.Source, doc.Line, doc.Row.Number = source, line, number
	if apart != nil {
		doc.Row.Vector, doc.Row.VectorOf = apart.values, apart.of
	}
	return r.yield(doc)
}

// identify gives the document of a row its id, and says where it stands.
func (r *reader) identify(doc *Document) {
	if doc.Row.ID == "" {
		r.name(doc)
	}
	if r.sent.ID != r.within.ID && r.sent.ID != "" { // the rows say what the file was called where they were read
		doc.ID = renamed(doc.ID, r.sent.ID, r.within.ID)
		doc.Row.ID = renamed(doc.Row.ID, r.sent.ID, r.within.ID)
	}
	doc.ID = underSource(r.within.Source, doc.ID, r.within.ID)
	doc.Of, doc.Path = r.within.Source, r.within.Path
}

// name gives a row that names itself nothing an id: that of what it says, so that it stays the same when others come or go. Rows of a
// file that name no document either are one document, the file's.
func (r *reader) name(doc *Document) {
	sum := sha256.Sum256([]byte(doc.Text))
	id := hex.EncodeToString(sum[:8])
	if r.within.ID != "" {
		id = r.within.ID + "#" + id
	}
	doc.Row.ID = id
	for n := 2; ; n++ {
		if _, twice := r.ids[doc.Row.ID]; !twice {
			break
		}
		doc.Row.ID = fmt.Sprintf("%s-%d", id, n)
	}
	if doc.ID == "" {
		doc.ID = cmp.Or(r.within.ID, doc.Row.ID)
	}
}

func isBlank(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }

// lineReader reads lines of any length up to largest.
type lineReader struct {
	r    *bufio.Reader
	line int // of the last line returned, from 1
	most int // bytes of a line; 0 is largest
	buf  []byte
}

// next returns a line without its end, valid until the next call. A line that is too long is passed over with errLarge. At the
// end it is io.EOF.
func (l *lineReader) next() ([]byte, error) {
	l.line++
	most := cmp.Or(l.most, largest)
	if cap(l.buf) > 4*largestRow {
		l.buf = nil // one long line isn't kept in memory for those after it
	}
	part, err := l.r.ReadSlice('\n')
	if err == nil {
		return part[:len(part)-1], nil
	}
	l.buf = append(l.buf[:0], part...)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.r.ReadSlice('\n')
		if len(l.buf) <= most {
			l.buf = append(l.buf, part...)
		}
	}
	switch {
	case err == io.EOF && len(l.buf) == 0:
		return nil, io.EOF
	case err != nil && err != io.EOF:
		return nil, err
	case len(l.buf) > most:
		return nil, tooLarge(most)
	}
	return bytes.TrimSuffix(l.buf, []byte("\n")), nil
}

// open opens a file and unpacks it.
func (x file) open() (io.ReadCloser, error) {
	f, err := x.openPacked()
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(x.path)) {
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("it is not gzip: %w", err)
		}
		return unpacked{z, func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	case ".zst":
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largest))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("it is not zstd: %w", err)
		}
		return unpacked{z, func() error { z.Close(); return f.Close() }}, nil
	}
	return f, nil
}

func (x file) openPacked() (*os.File, error) {
	if x.within == "" {
		return os.Open(x.path)
	}
	return os.OpenInRoot(x.within, x.rel)
}

// unpacked reads what a decompressor makes of a file, and closes both.
type unpacked struct {
	io.Reader
	close func() error
}

func (u unpacked) Close() error { return u.close() }
