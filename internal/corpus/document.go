package corpus

import (
	"errors"
	"fmt"
	"math"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Document is a file's text, or one row of JSONL.
type Document struct {
	// Source is the file as it was named or found, "-" for standard input; Line is the row's line from 1, 0 for a file.
	Source string
	Line   int

	// ID is the document's id. Rows that share a document_id are chunks of one document.
	ID string
	// Text is the document's text, or that of the chunk if Row is not nil. It is valid UTF-8 without NUL; it may be only white
	// space.
	Text string

	// Of and Path are the source that the document belongs to, and where it was read; "" if unknown.
	Of, Path string
	// File is the id of the file that it is a part of, or the document's own.
	File string

	// Code says that Text is program code.
	Code bool
	// Metadata is what a file says about itself; of a row, see Row. Nil if nothing.
	Metadata tree.Metadata

	// Row is set for a ready-made chunk, which is never cut again.
	Row *Row
}

// longestID is how many bytes the id of a document may have: no path is longer.
const longestID = 4096

// checkID reports why a text can't be the id of a document.
func checkID(id string) error {
	switch {
	case id == tree.CorpusTree:
		return fmt.Errorf("document id %s is reserved for the summaries of the corpus; give the document another id", tree.CorpusTree)
	case id == "." || id == "..":
		return fmt.Errorf("document id %q is a step in a path, and no id; give the document another id", id)
	case len(id) > longestID:
		return fmt.Errorf("document id %.20q… has %d bytes; it may have %d", id, len(id), longestID)
	}
	return nil
}

// Row is what a row of JSONL says beside its text.
type Row struct {
	// Number counts the rows of the whole input from 0, broken ones included.
	Number int
	// ID is the row's id, as text.
	ID string
	// Index is the chunk's place in its document: chunk_index, or -1 if the row names none.
	Index int
	// Metadata holds the row's other keys. Nil if it has none.
	Metadata tree.Metadata
	// Vector is the row's embedding as it was given, finite and not all zero; nil if it has none.
	Vector []float32
	// VectorOf is the file that Vector is a row of, the one with the row's number; "" if the vector stands in the row itself.
	VectorOf string
}

// Problem is something that was left out and should be looked at: a broken row, an unreadable file.
type Problem struct {
	Source string `json:"source"`
	Line   int    `json:"line"` // from 1; 0 if the problem is the whole source
	Error  string `json:"error"`
	// Document is the id of the document that now lacks something, "" if that isn't known.
	Document string `json:"-"`
}

// The reasons for which something is skipped without being a problem.
const (
	SkipBlank     = "blank"             // a file or row whose text is only white space
	SkipExtension = "unknown extension" // a file found in a folder that no reader is for
	SkipSpecial   = "not a file"        // a device, a pipe, a link to a folder
	SkipLink      = "a link out of the folder"
	SkipRepeated  = "named twice" // a file that was read already
	SkipIgnored   = "ignored"     // an ignore file names it
	SkipExcluded  = "excluded"    // --exclude names it
	SkipPackages  = "a folder of packages"
)

// Unit scales a vector to length 1 in place. A vector that is empty, not finite or all zero is an error.
func Unit(v []float32) error {
	if len(v) == 0 {
		return errors.New("the vector is empty")
	}
	sum := 0.0
	for i, x := range v {
		f := float64(x)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("the vector holds %v at index %d", x, i)
		}
		sum += f * f
	}
	if sum == 0 {
		return errors.New("the vector is all zero")
	}
	if length := math.Sqrt(sum); math.Abs(length-1) > 1e-7 {
		for i, x := range v {
			v[i] = float32(float64(x) / length)
		}
	}
	return nil
}
