package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/readers"
	"github.com/aerie-rag/aerie/internal/tree"
)

// A stream is JSONL with rows as Read takes them, and lines between them that say more: objects with one key whose value is
// an object, which no row can be.
//
//	{"document":{"id":"a.md","text":"…","format":"text"}}   a whole document; format is text, html or code; metadata may come with it
//	{"source":{"name":"rows.jsonl","line":1}}               the lines that follow stand there
//	{"vectors":{"of":"v.npy","width":1024}}                 vectors of that width come with the rows
//	{"vector":{"values":"…"}}                               the vector of the next row: float32, little endian, base64
//	{"problem":{"source":"b.md","line":0,"error":"…"}}      what could not be read
//	{"skip":{"reason":"blank"}}                             what was left out on purpose
//	{"end":{}}                                              the stream is complete; required if a source was named

// The notes of a stream.
type (
	noteDocument struct {
		ID     string `json:"id"`
		Source string `json:"source,omitempty"`
		Text   string `json:"text"`
		Format string `json:"format,omitempty"`
		// Of and Path are the source that the document belongs to, and where it was read.
		Of   string `json:"of,omitempty"`
		Path string `json:"path,omitempty"`
		File string `json:"file,omitempty"` // id of the file
		// Metadata is flat.
		Metadata tree.Metadata `json:"metadata,omitempty"`
	}
	noteSource struct {
		Name string `json:"name"`
		Line int    `json:"line"`
		File string `json:"file,omitempty"` // id of the file
		Of   string `json:"of,omitempty"`   // the source that its documents belong to
		Path string `json:"path,omitempty"` // where it was read
	}
	noteVectors struct {
		Of    string `json:"of"`
		Width int    `json:"width"`
	}
	noteVector struct {
		Values string `json:"values"`
	}
	noteProblem struct {
		Source   string `json:"source"`
		Line     int    `json:"line"`
		Error    string `json:"error"`
		Document string `json:"document,omitempty"`
	}
	noteSkip struct {
		Source string `json:"source,omitempty"`
		Reason string `json:"reason"`
	}
	note struct {
		Document *noteDocument `json:"document,omitempty"`
		Source   *noteSource   `json:"source,omitempty"`
		Vectors  *noteVectors  `json:"vectors,omitempty"`
		Vector   *noteVector   `json:"vector,omitempty"`
		Problem  *noteProblem  `json:"problem,omitempty"`
		Skip     *noteSkip     `json:"skip,omitempty"`
		End      *struct{}     `json:"end,omitempty"`
	}
)

// noteKeys are those of note.
var noteKeys = []string{"document", "source", "vectors", "vector", "problem", "skip", "end"}

// isNote reports whether a line is a note: it begins with one of the keys and an object.
func isNote(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(`{"`))
	if !ok {
		return false
	}
	for _, key := range noteKeys {
		if value, ok := bytes.CutPrefix(rest, []byte(key+`"`)); ok {
			value, ok = bytes.CutPrefix(bytes.TrimLeft(value, " "), []byte(":"))
			return ok && bytes.HasPrefix(bytes.TrimLeft(value, " "), []byte("{"))
		}
	}
	return false
}

// brought is a vector that comes apart from its row.
type brought struct {
	of     string
	values []float32
}

// ErrBrokenOff: a stream ended before its end.
var ErrBrokenOff = errors.New("the input broke off")

// ReadStream calls yield with every document of a stream, as Read does with those of files. A stream that breaks off is an error
// that is ErrBrokenOff: what came before it was handed on.
func ReadStream(ctx context.Context, src io.Reader, opts Options, yield func(Document) error) error {
	s := &streamReader{
		reader: reader{ctx: ctx, opts: opts, yield: yield, ids: map[string]place{}},
		lines:  lineReader{r: bufio.NewReaderSize(src, 1<<20), most: largestLine}, source: "-",
	}
	for {
		data, err := s.lines.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF && s.named && !s.ended:
			return fmt.Errorf("corpus: %w after line %d, before its last line said that it is complete", ErrBrokenOff, s.lines.line-1)
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, errLarge):
			return fmt.Errorf("corpus: %w after line %d: %w", ErrBrokenOff, s.lines.line-1, err)
		}
		s.at++
		if err == nil && isNote(data) {
			err = s.note(data)
		} else {
			err = s.row(s.source, s.at, data, err)
		}
		if err != nil {
			return err
		}
	}
}

type streamReader struct {
	reader
	lines  lineReader
	source string
	at     int    // line of source
	of     string // file of the vectors
	named  bool
	ended  bool
}

// The ends of a vector as Packer writes it, which is read without the detour of a JSON decoder: most of such a stream is vectors.
var vectorStart, vectorEnd = []byte(`{"vector":{"values":"`), []byte(`"}}`)

// plainVector takes a line that Packer wrote for a vector; false if it is anything else.
func (s *streamReader) plainVector(data []byte) bool {
	values, ok := bytes.CutPrefix(data, vectorStart)
	if !ok {
		return false
	}
	if values, ok = bytes.CutSuffix(values, vectorEnd); !ok {
		return false
	}
	v, err := decodeVector(values)
	if err != nil {
		return false // the long way tells why
	}
	s.passOver()
	s.vector = &brought{of: s.of, values: v}
	return true
}

// note takes a line that isn't a row. One that can't be understood is a problem like a broken row.
func (s *streamReader) note(data []byte) error {
	if s.plainVector(data) {
		return nil
	}
	n, err := parseNote(data)
	if err != nil {
		s.problem(s.source, s.at, fmt.Errorf("broken line: %s", strings.TrimPrefix(err.Error(), "json: ")), "")
		return nil
	}
	switch {
	case n.Document != nil:
		return s.document(n.Document)
	case n.Source != nil:
		s.source, s.at, s.named, s.ended = n.Source.Name, n.Source.Line-1, true, false
		return s.enter(File{Name: n.Source.Name, ID: n.Source.File, Source: n.Source.Of, Path: n.Source.Path})
	case n.Problem != nil:
		s.passOver()
		s.problem(n.Problem.Source, n.Problem.Line, errors.New(n.Problem.Error), n.Problem.Document)
	case n.Skip != nil:
		s.passOver()
		s.opts.skip(n.Skip.Source, n.Skip.Reason)
	case n.Vectors != nil:
		s.passOver()
		s.of = n.Vectors.Of
		if s.opts.Vectors != nil {
			return s.opts.Vectors(n.Vectors.Of, n.Vectors.Width)
		}
	case n.Vector != nil:
		s.passOver()
		values, err := decodeVector([]byte(n.Vector.Values))
		if err != nil {
			s.problem(s.source, s.at, fmt.Errorf("the vector before it: %w", err), "")
			return nil
		}
		s.vector = &brought{of: s.of, values: values}
	case n.End != nil:
		s.ended = true
	}
	return nil
}

// parseNote reads a note strictly: valid UTF-8, one key, none twice, nothing after it.
func parseNote(data []byte) (n note, err error) {
	if !utf8.Valid(data) {
		return n, fmt.Errorf("invalid UTF-8 at byte %d of the line", invalidAt(data)+1)
	}
	scan := jsonScanner{data: data}
	keys := 0
	err = scan.object(func(string) error {
		keys++
		if scan.peek() != '{' {
			return scan.unexpected()
		}
		seen := map[string]bool{}
		return scan.object(func(key string) error {
			if seen[key] {
				return fmt.Errorf("key %q stands twice", key)
			}
			seen[key] = true
			return scan.skip(0)
		})
	})
	if err == nil {
		err = scan.end()
	}
	if err == nil && keys != 1 {
		err = fmt.Errorf("it holds %d keys; a line says one thing", keys)
	}
	if err != nil {
		return n, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return n, d.Decode(&n)
}

// enter is told in which file the rows that follow stand.
func (s *streamReader) enter(f File) error {
	if s.sent == f {
		return nil // as before, and identified
	}
	s.sent, s.within = f, f
	return s.identify(&s.within)
}

// identify lets the caller look at a file of which the stream says where it is.
func (s *streamReader) identify(f *File) error {
	if s.opts.Identify == nil || f.Path == "" || f.ID == "" {
		return nil
	}
	return s.opts.Identify([]*File{f})
}

// passOver leaves a note out of the count of lines, if these are those of a file.
func (s *streamReader) passOver() {
	if s.named {
		s.at--
	}
}

// document takes a whole document.
func (s *streamReader) document(n *noteDocument) error {
	source := n.Source
	if source == "" {
		source = n.ID
	}
	refuse := func(line int, format string, args ...any) error {
		s.problem(source, line, fmt.Errorf(format, args...), n.ID)
		return nil
	}
	reader, _ := readers.Named(cmp.Or(n.Format, "text"))
	if n.Format != "" && n.Format != "text" && n.Format != "html" && n.Format != "code" {
		return refuse(0, "its format is %q; it must be text, html or code", n.Format)
	}
	if strings.TrimSpace(n.ID) == "" {
		return refuse(0, "line %d: the document has no id", s.lines.line)
	}
	if err := checkID(n.ID); err != nil {
		return refuse(0, "%s", err)
	}
	if key := notFlat(n.Metadata); key != "" {
		return refuse(0, "its metadata %q is neither a text without NUL, a number, a truth nor a list of one of these", key)
	}
	out, err := reader.Read(s.ctx, []byte(n.Text), readers.Tools{HTML: readHTML})
	if err != nil {
		line := 0
		if at, ok := errors.AsType[*readers.LineError](err); ok {
			line = at.Line
		}
		return refuse(line, "%s", cause(err))
	}
	f := File{Name: source, ID: cmp.Or(n.File, n.ID), Source: n.Of, Path: n.Path}
	part, _ := strings.CutPrefix(n.ID, f.ID)
	if err := s.identify(&f); err != nil {
		return err
	}
	return s.yield(Document{Source: source, ID: f.ID + part, Of: f.Source, Path: f.Path, File: f.ID, Text: out.Parts[0].Text, Code: reader.Code, Metadata: n.Metadata})
}

// notFlat returns a key whose value no corpus keeps; "" if there is none.
func notFlat(m tree.Metadata) string {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch v := m[key].(type) {
		case bool, float64, int64, []bool, []float64, []int64:
		case string:
			if strings.ContainsRune(v, 0) {
				return key
			}
		case []string:
			if slices.ContainsFunc(v, func(s string) bool { return strings.ContainsRune(s, 0) }) {
				return key
			}
		default:
			return key
		}
	}
	return ""
}

func encodeVector(v []float32) string {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(data)
}

func decodeVector(text []byte) ([]float32, error) {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || len(data)%4 != 0 {
		return nil, fmt.Errorf("%d bytes are no float32 values", len(data))
	}
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v, nil
}
