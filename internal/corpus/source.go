package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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
		r.problem(f.path, 0, errors.New(cause(err)), f.id)
		return nil
	}
	defer src.Close()
	if f.format == jsonLines {
		return r.rows(f, src)
	}
	text, line, err := readText(f.format, src)
	if err != nil {
		r.problem(f.path, line, errors.New(cause(err)), f.id)
		return nil
	}
	doc := Document{Source: f.path, ID: f.id, Text: text}
	if r.raw != nil {
		return r.raw(Piece{Source: f.path, Document: &doc})
	}
	return r.yield(doc)
}

// readText reads a whole document. line is where an error is, 0 if it is no single place.
func readText(f format, src io.Reader) (text string, line int, err error) {
	data, err := io.ReadAll(io.LimitReader(src, largest+1))
	switch {
	case err != nil:
		return "", 0, err
	case len(data) > largest:
		return "", 0, tooLarge(largest)
	}
	if f == hypertext {
		if text, err = readHTML(data); err != nil {
			return "", 0, err
		}
		return text, 0, nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return "", 0, errors.New("it is UTF-16; convert it to UTF-8")
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return "", lineOf(data, at), fmt.Errorf("NUL at byte %d: it is not a text", at)
	}
	if !utf8.Valid(data) {
		at := invalidAt(data)
		return "", lineOf(data, at), fmt.Errorf("invalid UTF-8 at byte %d; convert the text to UTF-8", at)
	}
	return string(data), 0, nil
}

// lineOf returns the number of the line, from 1, that holds the byte at an offset.
func lineOf(data []byte, at int) int { return bytes.Count(data[:at], []byte("\n")) + 1 }

// rows reads JSONL.
func (r *reader) rows(f file, src io.Reader) error {
	lines := lineReader{r: bufio.NewReaderSize(src, 1<<20)}
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

// row takes one line of JSONL; broken says why it can't be used at all.
func (r *reader) row(source string, line int, data []byte, broken error) error {
	if line == 1 {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	if broken == nil && isBlank(data) {
		return nil
	}
	number := r.number
	r.number++
	if broken != nil {
		r.problem(source, line, broken, "")
		return nil
	}
	if len(data) > largestRow {
		r.problem(source, line, tooLarge(largestRow), "")
		return nil
	}
	if r.raw != nil {
		return r.raw(Piece{Source: source, Line: line, Row: data, Number: number})
	}
	apart := r.vector
	r.vector = nil
	doc, failed, err := r.parser.parse(data)
	if err != nil {
		r.problem(source, line, err, failed)
		return nil
	}
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
