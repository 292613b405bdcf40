package corpus

// Document is a file's text, or one row of JSONL.
type Document struct {
	// Source is the file as it was named or found, "-" for standard input; Line is the row's line from 1, 0 for a file.
	Source string
	Line   int

	// ID is the document's id. Rows that share a document_id are chunks of one document.
	ID string
	// Text is the document's text, or that of the chunk if Row is not nil.
	Text string

	// Row is set for a ready-made chunk, which is never cut again.
	Row *Row
}

// Row is what a row of JSONL says beside its text.
type Row struct {
	// ID is the row's id, as text.
	ID string
	// Index is the chunk's place in its document: chunk_index, or -1 if the row names none.
	Index int
	// Metadata holds the row's other keys: string, float64, bool, or a slice of one of these. Nil if it has none.
	Metadata map[string]any
	// Vector is the row's embedding as it was given, finite and not all zero; nil if it has none.
	Vector []float32
}

// Problem is something that was left out and should be looked at: a broken row, an unreadable file.
type Problem struct {
	Source string `json:"source"`
	Line   int    `json:"line"` // from 1; 0 if the problem is the whole source
	Error  string `json:"error"`
}
