// Package journal is the contract of the place where every paid answer is kept, and where the attempts at tasks are counted. The queue's
// server implements it: internal/queue/natsqueue.
package journal

import (
	"context"
	"errors"
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// ErrNotFound: the journal has no such entry.
var ErrNotFound = errors.New("journal: no such entry")

// Entry is one paid answer.
type Entry struct {
	Text         string    `json:"text"` // as checked and cleaned
	InputTokens  int       `json:"input_tokens"`
	OutputTokens int       `json:"output_tokens"`
	Calls        int       `json:"calls,omitempty"`  // that the answer took, with those whose answers were refused; 0 is 1
	Build        string    `json:"build"`            // which build paid
	Corpus       string    `json:"corpus,omitempty"` // of the build; "" in an entry of an older aerie
	At           time.Time `json:"at"`
}

// Attempts counts what has become of a task's deliveries. Started - Failed - Returned is the number of
// attempts that ended with their process, the running one included.
type Attempts struct {
	Started  int `json:"started"`
	Failed   int `json:"failed"`   // ended with an error that counts
	Returned int `json:"returned"` // given back: shut-down, throttled, dependency away
}

// Journal keeps every answer that was paid for, and counts attempts. It outlives builds, processes and
// configurations.
type Journal interface {
	// Lookup returns the answer to a call, or ErrNotFound. key is 64 hexadecimal digits.
	Lookup(ctx context.Context, key string) (Entry, error)
	// Record keeps an answer durably. The first one wins: a second for the same key changes nothing.
	Record(ctx context.Context, key string, e Entry) error
	// Erase takes the texts out of the answers of a corpus, and out of those of which nobody knows the corpus, and returns of how
	// many. What they cost stays on the books. An answer without a text is as good as none: Lookup returns ErrNotFound, and Record
	// takes its place.
	Erase(ctx context.Context, corpus string) (int, error)
	// Begin counts the start of an attempt at a task of a build and returns the counts, this start included.
	Begin(ctx context.Context, build string, task tree.ID) (Attempts, error)
	// End counts how an attempt ended that did not succeed, and returns the counts after that.
	End(ctx context.Context, build string, task tree.ID, failed bool) (Attempts, error)
	// Forget sets a task's counts to zero.
	Forget(ctx context.Context, build string, task tree.ID) error
}
