package api

import (
	"errors"
	"io"
)

// Errors of ingests and deletions, wrapped with the corpus.
var (
	// ErrPinned: the corpus holds vectors of another model or width.
	ErrPinned = errors.New("another embedder")
	// ErrUnknown: no such document or corpus.
	ErrUnknown = errors.New("unknown")
)

// IngestRequest brings documents and ready-made chunks into a corpus.
type IngestRequest struct {
	Corpus string
	// Stream is JSON lines, read as they come: what ingest.Pack writes, or anything else for corpus.ReadStream.
	Stream io.Reader
	// ChunkTokens is the size that leaves are filled up to, 8 to 8192; 0: as the corpus has it, or the service is configured.
	ChunkTokens int
	// Context says whether leaves have their headings and table heads as context; nil: as the corpus has it.
	Context *bool
}

// IngestReport says what an ingest or a deletion did. It is the JSON of aerie ingest.
type IngestReport struct {
	Corpus    string         `json:"corpus"`
	Documents DocumentCounts `json:"documents"`
	Leaves    LeafCounts     `json:"leaves"`
	Skipped   map[string]int `json:"skipped"` // by reason
	// SkippedFiles are the first that were left out on purpose, at most 1,000; Skipped counts all.
	SkippedFiles []SkippedFile `json:"skipped_files,omitempty"`
	// Errors are the first problems in the order of the input, at most 1,000; ErrorCount counts all.
	Errors     []InputError `json:"errors"`
	ErrorCount int          `json:"error_count"`
	// Warnings are the first of what was done and may not be meant, such as a document that takes the place of one read elsewhere.
	Warnings []InputError `json:"warnings,omitempty"`
}

// DocumentCounts counts documents by what became of them. One is failed if any of it was left out: a broken row, a chunk that
// could not be embedded.
type DocumentCounts struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Removed   int `json:"removed"`
	Failed    int `json:"failed"`
}

// LeafCounts counts leaves. Total is that of the corpus afterwards.
type LeafCounts struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Total   int `json:"total"`
}

// SkippedFile is a file or row that was left out on purpose.
type SkippedFile struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// InputError is something that was left out and should be looked at: a broken row, an unreadable file.
type InputError struct {
	Source string `json:"source"`
	Line   int    `json:"line"` // from 1; 0 if the problem is the whole source
	Error  string `json:"error"`
}

// LeftOut reports whether something of the input isn't in the corpus that should be: the exit code is 3 then.
func (r *IngestReport) LeftOut() bool { return r.ErrorCount > 0 || r.Documents.Failed > 0 }
