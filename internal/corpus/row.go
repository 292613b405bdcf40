package corpus

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/readers"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The most that a row may bring along.
const (
	mostKeys = 1000
	widest   = 65_535 // numbers of an embedding, as Weaviate has it
)

// rowReader reads rows of JSONL.
type rowReader struct {
	scan jsonScanner
	seen map[string]bool
	doc  Document
	row  Row
	// width is that of the last embedding: what to allocate for the next.
	width int
	// text is the key of the row's text, "" if none was read yet.
	text string
}

// parse reads one line. If that fails, the document's id is returned if it could be read.
func (r *rowReader) parse(data []byte) (doc Document, failed string, err error) {
	if !utf8.Valid(data) {
		return Document{}, "", fmt.Errorf("invalid UTF-8 at byte %d of the line", invalidAt(data)+1)
	}
	r.scan.data, r.scan.pos = data, 0
	r.doc, r.row, r.text = Document{}, Row{Index: -1}, ""
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	clear(r.seen)
	if r.scan.peek() != '{' {
		return Document{}, "", errors.New("not a JSON object")
	}
	// The first fault of a value is kept until the whole row is read, so that the error can name the document.
	var fault error
	err = r.scan.object(func(key string) error {
		if r.seen[key] {
			fault = errors.Join(fault, fmt.Errorf("key %q stands twice", key))
		}
		r.seen[key] = true
		r.scan.space()
		start := r.scan.pos
		err := r.field(key)
		if _, wrong := errors.AsType[*valueError](err); wrong {
			if fault == nil {
				fault = err
			}
			r.scan.pos = start
			err = r.scan.skip(0)
		}
		return err
	})
	if err == nil {
		err = r.scan.end()
	}
	if err != nil {
		return Document{}, "", fmt.Errorf("broken JSON: %w", err)
	}
	if r.doc.ID == "" && !r.seen["document_id"] || r.doc.ID == "" && fault == nil {
		r.doc.ID = r.row.ID // "" if the row has no id either: then the file gives both
	}
	if fault == nil {
		fault = r.check()
	}
	if fault != nil {
		return Document{}, r.doc.ID, fault
	}
	row := r.row
	r.doc.Row = &row
	return r.doc, "", nil
}

// check looks at the row as a whole.
func (r *rowReader) check() error {
	switch {
	case r.text == "":
		return errors.New("the row has no text: one of the keys " + strings.Join(readers.TextKeys, ", ") + " must hold it")
	case r.row.ID == "" && (r.seen["id"] || r.seen["id_"]): // an id that is wrong was told
		return errors.New("the row has no id")
	}
	if r.doc.ID != "" {
		if err := checkID(r.doc.ID); err != nil {
			return err
		}
	}
	switch {
	case r.row.Vector != nil:
		if err := checkVector(r.row.Vector); err != nil {
			return fmt.Errorf("key \"embedding\": %w", err)
		}
	}
	return nil
}

// checkVector reports what Unit would, and changes nothing.
func checkVector(v []float32) error {
	zero := true
	for i, x := range v {
		if x-x != 0 { // NaN or an infinity
			return fmt.Errorf("the vector holds %v at index %d", x, i)
		}
		zero = zero && x == 0
	}
	if zero {
		return Unit(v)
	}
	return nil
}

// valueError is a value of the wrong kind in a row that is JSON all the same.
type valueError struct {
	key    string
	reason string
}

func (e *valueError) Error() string { return fmt.Sprintf("key %q %s", e.key, e.reason) }

// field reads the value of one key.
func (r *rowReader) field(key string) error {
	null := r.scan.peek() == 'n'
	if null && key != "text" && key != "id" {
		return r.scan.skip(0)
	}
	if slices.Contains(readers.TextKeys, key) && (key == "text" || r.text != "text" && r.scan.peek() == '"') {
		return r.textOf(key)
	}
	switch key {
	case "id", "id_": // LlamaIndex writes the latter
		return r.name(key, &r.row.ID)
	case "document_id", "ref_doc_id":
		return r.name(key, &r.doc.ID)
	case "text_resource": // LlamaIndex: {"text": …}
		return r.resource()
	case "metadata", "meta": // of LangChain, LlamaIndex and Haystack: its keys are the row's
		if r.scan.peek() == '{' {
			return r.nested("", 0)
		}
	case "chunk_index":
		return r.index(key)
	case "embedding":
		return r.embedding(key)
	case "tokens":
		return r.scan.skip(0) // they are counted again
	}
	if r.scan.peek() == '{' {
		return r.nested(key+".", 0)
	}
	return r.metadata(key)
}

// metadata reads a value that is kept with the row.
func (r *rowReader) metadata(key string) error {
	v, err := r.value(key)
	if err != nil {
		return err
	}
	if v != nil {
		if len(r.row.Metadata) == mostKeys {
			return &valueError{key, fmt.Sprintf("is one of more than %d", mostKeys)}
		}
		if r.row.Metadata == nil {
			r.row.Metadata = tree.Metadata{}
		}
		r.row.Metadata[key] = v
	}
	return nil
}

// deepestMetadata is how far metadata may nest.
const deepestMetadata = 16

// nested reads an object whose values are kept under their way down: {"a": {"b": 1}} is a.b.
func (r *rowReader) nested(prefix string, depth int) error {
	if depth > deepestMetadata {
		return &valueError{strings.TrimSuffix(prefix, "."), fmt.Sprintf("nests deeper than %d levels", deepestMetadata)}
	}
	return r.scan.object(func(key string) error {
		switch c := r.scan.peek(); {
		case c == '{':
			return r.nested(prefix+key+".", depth+1)
		case c == 'n':
			return r.scan.skip(0)
		case c == '[':
			return r.looseList(prefix + key)
		}
		return r.metadata(prefix + key)
	})
}

// looseList reads a list within metadata that others have written: one of objects or of several kinds says nothing that can be asked for,
// and is passed over.
func (r *rowReader) looseList(key string) error {
	start := r.scan.pos
	err := r.metadata(key)
	if _, wrong := errors.AsType[*valueError](err); wrong {
		r.scan.pos = start
		return r.scan.skip(0)
	}
	return err
}

// textOf reads the text of the row. A key that another program uses gives way to one that comes before it in the list.
func (r *rowReader) textOf(key string) error {
	if r.text != "" && slices.Index(readers.TextKeys, r.text) < slices.Index(readers.TextKeys, key) {
		return r.metadata(key)
	}
	if r.text != "" && r.text != key { // what was taken for the text is a value beside it
		before := r.doc.Text
		if r.row.Metadata == nil {
			r.row.Metadata = map[string]any{}
		}
		r.row.Metadata[r.text] = before
	}
	r.text = key
	return r.string(key, &r.doc.Text)
}

// resource reads LlamaIndex's text_resource.
func (r *rowReader) resource() error {
	if r.scan.peek() != '{' {
		return r.scan.skip(0)
	}
	return r.scan.object(func(key string) error {
		if key == "text" && r.text == "" && r.scan.peek() == '"' {
			return r.textOf(key)
		}
		return r.scan.skip(0)
	})
}

// string reads a string without NUL, which stores can't keep.
func (r *rowReader) string(key string, dst *string) error {
	if r.scan.peek() != '"' {
		return &valueError{key, "is not a string"}
	}
	s, err := r.scan.text()
	if err != nil {
		return err
	}
	if strings.ContainsRune(s, 0) {
		return &valueError{key, "holds a NUL character"}
	}
	*dst = s
	return nil
}

// name reads an id: a string that isn't empty, or a number, kept as it is written.
func (r *rowReader) name(key string, dst *string) error {
	switch c := r.scan.peek(); {
	case c == '"':
		if err := r.string(key, dst); err != nil {
			return err
		}
		if strings.TrimSpace(*dst) == "" {
			*dst = ""
			return &valueError{key, "is empty"}
		}
		return nil
	case c == '-', c >= '0' && c <= '9':
		n, err := r.scan.number()
		*dst = strings.Clone(n)
		return err
	}
	return &valueError{key, "is neither a string nor a number"}
}

func (r *rowReader) index(key string) error {
	if c := r.scan.peek(); c != '-' && (c < '0' || c > '9') {
		return &valueError{key, "is not a number"}
	}
	n, err := r.scan.number()
	if err != nil {
		return err
	}
	i, err := strconv.ParseInt(n, 10, 32)
	if err != nil || i < 0 {
		return &valueError{key, fmt.Sprintf("is %s; it must be a whole number from 0 to 2147483647", strings.Clone(n))}
	}
	r.row.Index = int(i)
	return nil
}

func (r *rowReader) embedding(key string) error {
	if r.scan.peek() != '[' {
		return &valueError{key, errNotNumbers.Error()}
	}
	v, err := r.scan.vector(make([]float32, 0, r.width))
	if errors.Is(err, errNotNumbers) {
		return &valueError{key, errNotNumbers.Error()}
	}
	if err != nil {
		return err
	}
	if len(v) == 0 {
		return &valueError{key, "is an empty array"}
	}
	if len(v) > widest {
		return &valueError{key, fmt.Sprintf("has %d numbers; it may have %d", len(v), widest)}
	}
	r.row.Vector, r.width = v, len(v)
	return nil
}

// value reads the value of a metadata key; nil for null and for an empty list, which has no kind.
func (r *rowReader) value(key string) (any, error) {
	switch c := r.scan.peek(); c {
	case '"':
		var s string
		err := r.string(key, &s)
		return s, err
	case '{':
		return nil, &valueError{key, "holds a nested object; metadata must be flat"}
	case '[':
		return r.list(key)
	case 't', 'f':
		if r.scan.word("true") {
			return true, nil
		}
		if r.scan.word("false") {
			return false, nil
		}
		return nil, r.scan.unexpected()
	}
	return r.number(key)
}

// number reads a number exactly.
func (r *rowReader) number(key string) (any, error) {
	literal, err := r.scan.number()
	if err != nil {
		return nil, err
	}
	v, err := tree.Number(strings.Clone(literal))
	if err != nil {
		return nil, &valueError{key, "holds " + err.Error()}
	}
	return v, nil
}

// list reads a list of strings, numbers or booleans.
func (r *rowReader) list(key string) (any, error) {
	var list []any
	err := r.scan.array(func() error {
		switch r.scan.peek() {
		case '[', '{':
			return &valueError{key, "holds a list of lists or objects; metadata must be flat"}
		case 'n':
			return &valueError{key, "holds a list with null in it"}
		}
		v, err := r.value(key)
		list = append(list, v)
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out, err := tree.List(list)
	if err != nil {
		return nil, &valueError{key, err.Error()}
	}
	return out, nil
}

// invalidAt returns the offset of the first byte that isn't UTF-8.
func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
