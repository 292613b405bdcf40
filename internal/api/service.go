package api

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The ports, by noun. Errors that are more than a failure are *Error, or what Judge makes one of. All may be called from many
// goroutines.

// Documents brings documents in and takes them out.
type Documents interface {
	// Ingest brings the corpus in line with the documents of a stream. With an error the report says what was done before it.
	Ingest(ctx context.Context, req IngestRequest) (IngestReport, error)
	// Delete removes documents. Unknown ones are named by an error that is ErrUnknown; the others are removed all the same.
	Delete(ctx context.Context, corpus string, ids []string) (IngestReport, error)
	// Forget removes documents and takes what is left of them, and of all that were deleted before, out of summaries, journal, dead
	// stream, copies and free pages. Documents that aren't there are named in the answer.
	Forget(ctx context.Context, corpus string, ids []string) (Forgotten, error)
	// DeleteCorpus removes the corpus with all it holds.
	DeleteCorpus(ctx context.Context, corpus string) (IngestReport, error)
	// Documents lists documents by id.
	Documents(ctx context.Context, req DocumentsRequest) (DocumentPage, error)
}

// DocumentsRequest asks for documents by id.
type DocumentsRequest struct {
	Corpus string
	// Prefix is what the ids start with.
	Prefix string
	// Source, if not empty, is what the documents belong to.
	Source string
	// Cursor is NextCursor of the page before; "": from the beginning. Limit bounds the number; 0: none.
	Cursor string
	Limit  int
}

// Document is one document of a corpus.
type Document struct {
	ID      string    `json:"id"`
	Source  string    `json:"source" doc:"what it belongs to: a name, or the folder or file that was ingested; empty if unknown"`
	Path    string    `json:"path" doc:"where it was read; empty if unknown"`
	Leaves  int       `json:"leaves"`
	Tokens  int       `json:"tokens"`
	State   string    `json:"state" enum:"built,new" doc:"built: the tree that readers see was built when it was there as it is; new: it has come or changed since, or no tree was built"`
	Updated time.Time `json:"updated,omitzero" doc:"when it came or last changed"`
}

// The states of a document.
const (
	DocumentBuilt = "built"
	DocumentNew   = "new"
)

// Forgotten is the JSON of aerie forget.
type Forgotten struct {
	Corpus    string   `json:"corpus"`
	Documents int      `json:"documents" doc:"that were deleted"`
	Leaves    int      `json:"leaves" doc:"that were deleted"`
	Summaries int      `json:"summaries" doc:"whose texts were taken out, of any generation; the next build makes those again that its tree needs"`
	Answers   int      `json:"answers" doc:"of the journal, whose texts were taken out: all of the corpus"`
	Cancelled string   `json:"cancelled,omitempty" doc:"the unfinished build that had read the documents"`
	Unknown   []string `json:"unknown" doc:"documents that were not there; what was left of them, if they were deleted before, is gone too"`
}

// DocumentPage is a page of documents.
type DocumentPage struct {
	Corpus     string     `json:"corpus"`
	Documents  []Document `json:"documents"`
	NextCursor string     `json:"next_cursor" doc:"where to go on; empty at the end"`
}

// Builds plans, starts and stops builds.
type Builds interface {
	// Plan says what a build would do and cost, or with full one in full, and makes no call.
	Plan(ctx context.Context, corpus string, full bool) (Estimate, error)
	// Start starts a build or goes on with one, and returns once it is under way, or at rest. Where one runs already it is that.
	Start(ctx context.Context, corpus string, s Start) (Build, error)
	// Build returns a build as it is now. Only the newest of a corpus is known.
	Build(ctx context.Context, corpus, build string) (Build, error)
	// History returns what is kept of all builds of a corpus.
	History(ctx context.Context, corpus string) (PastBuilds, error)
	// Stop asks a build to pause, or with cancel to end for good, and doesn't wait for it. One that rests stays as it is, unless it
	// is to be cancelled and could have gone on.
	Stop(ctx context.Context, corpus, build string, cancel bool) (Build, error)
	// Rollback lets readers see the tree before the one that they see or, with forward, takes that back; without a call.
	Rollback(ctx context.Context, corpus string, forward bool) (Rolled, error)
	// Collect deletes what no reader can see any more and no build needs.
	Collect(ctx context.Context, corpus string) (Collected, error)
}

// Trees reads trees.
type Trees interface {
	// Nodes calls head once and then emit with each node, by (level, id). An error of either ends it and is returned. Emit
	// doesn't keep the node.
	Nodes(ctx context.Context, req TreeRequest, head func(TreeHead) error, emit func(*Node) error) error
	// Show returns one node of the current generation by id, the beginning of one, or cluster id.
	Show(ctx context.Context, corpus, node string) (Shown, error)
	// NodePage returns the next nodes, at most limit of them and at least 1, all pages those of one generation: when a newer one is
	// published meanwhile, the cursor is gone. cursor is NextCursor of the page before; "": from the beginning.
	NodePage(ctx context.Context, req TreeRequest, cursor string, limit int) (NodePage, error)
	// TreeHash is that of evaluate.TreeHash for the current generation.
	TreeHash(ctx context.Context, corpus string) (TreeHash, error)
	// Texts returns the texts of nodes by id; nodes that aren't there are left out.
	Texts(ctx context.Context, corpus string, ids []tree.ID) (map[tree.ID]string, error)
}

// Queries answers questions.
type Queries interface {
	Query(ctx context.Context, corpus string, q Query) (retrieve.Result, error)
	// Ask answers from what the query finds. With on, each sentence is handed on once it is complete.
	Ask(ctx context.Context, corpus string, q Ask, on func(answer.Sentence)) (Answer, error)
}

// Statuses tells how things are.
type Statuses interface {
	// Status is that of one corpus, or with "" of all.
	Status(ctx context.Context, corpus string) (Status, error)
	// Workers tells who works now.
	Workers(ctx context.Context) (Workers, error)
	// Dead tells which tasks of the newest build of a corpus are buried.
	Dead(ctx context.Context, corpus string) (Dead, error)
}

// Service is all of it.
type Service interface {
	Documents
	Builds
	Trees
	Queries
	Statuses
}
