package api

import "context"

// Change is something that was done, or tried, to documents, builds or a corpus.
type Change struct {
	// Action is the operation, as the OpenAPI description names it.
	Action string
	Corpus string
	// Objects are the documents or the build; empty if it is the whole corpus.
	Objects []string
	// Counts says how much was changed, such as leaves_added.
	Counts map[string]int
	// Err is why it failed; nil if it was done.
	Err error
}

// Auditor takes note of changes.
type Auditor interface {
	// Changed is told of each change once it has ended. Its context says who asked ([CallerOf]).
	Changed(ctx context.Context, c Change)
}
