package levels

import (
	"context"
	"errors"
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Errors of the ports, wrapped with the corpus, build or level.
var (
	// ErrNotFound: there is no such corpus, build or plan.
	ErrNotFound = errors.New("not found")
	// ErrNotOpen: marks for a build, level or plan digest that isn't open. It may be open a moment later, so
	// the mark is retried and the task never acked away.
	ErrNotOpen = errors.New("level is not open")
	// ErrHeld: another process holds the lease.
	ErrHeld = errors.New("lease is held by another process")
	// ErrFenced: the lease's epoch has been passed by another holder's; the caller must stop.
	ErrFenced = errors.New("fenced off by a newer coordinator")
	// ErrUnavailable: the place where states are kept can't be reached.
	ErrUnavailable = errors.New("state unavailable")
)

// Outcome is what became of one task.
type Outcome string

// The outcomes.
const (
	Done Outcome = "done" // the node exists
	Dead Outcome = "dead" // the task is buried
	// Spent: an attempt ended without an outcome, and has cost something.
	Spent Outcome = "spent"
)

// Mark states a fact about the task at one position of a plan.
type Mark struct {
	Position int
	Outcome  Outcome
	Usage    tree.Usage // counted once for each position, with its first Done, and with each Spent
}

// Count is the state of a barrier.
type Count struct {
	Total, Done, Dead int
	Usage             tree.Usage
}

// Complete reports whether every task is done or dead.
func (c Count) Complete() bool { return c.Done+c.Dead >= c.Total }

// Barrier keeps, for each level of a build, which tasks are done or dead: a bitmap for each of the two, from which
// the counts are derived, never a counter. Done wins over Dead. Its methods may be called from many goroutines and
// processes, and repeated.
type Barrier interface {
	// Open starts a level's barrier with no bit set. One that is open with the same digest and total stays as
	// it is; one with another digest or total is replaced.
	Open(ctx context.Context, level tree.Level, digest string, total int) error
	// Mark sets bits and returns the counts after that. Done clears Dead; Dead on a done bit changes nothing; Spent sets none.
	// ErrNotOpen if the level isn't open with this digest. Without marks it only reads. A position outside the
	// plan, or an outcome of another name, is an error, and then nothing is marked.
	Mark(ctx context.Context, level tree.Level, digest string, marks ...Mark) (Count, error)
	// Count reads the counts; ErrNotOpen if the level isn't open.
	Count(ctx context.Context, level tree.Level) (Count, error)
	// Positions returns the positions that are done, or dead, ascending; ErrNotOpen if the level isn't open.
	Positions(ctx context.Context, level tree.Level, outcome Outcome) ([]int, error)
	// Clear takes back Dead marks, so that the tasks can run again; ErrNotOpen if the level isn't open. Other
	// positions are passed over.
	Clear(ctx context.Context, level tree.Level, positions []int) error
	// Drop removes the barriers of a build.
	Drop(ctx context.Context, corpus, build string) error
}

// Right is a part of a corpus that one writer at a time may change.
type Right string

// The rights.
const (
	// RightBuild is that to the newest build, its plans and tasks, the lives of summaries and the generation: of whoever builds,
	// publishes, cancels and collects.
	RightBuild Right = "build"
	// RightDocuments is that to the leaves: of whoever ingests and deletes.
	RightDocuments Right = "documents"
)

// Lease is a right to one corpus for a while. Epoch grows with each acquisition of that right.
type Lease struct {
	Corpus string
	Right  Right
	Holder string
	Epoch  int64
	Until  time.Time
}

// Leases gives out rights. Those of one corpus are apart.
type Leases interface {
	// Acquire takes the lease, also from a holder whose time has run out; ErrHeld otherwise. A holder that
	// acquires again keeps the lease under a new epoch. The epoch is greater than any that was given out for the
	// right and than floor.
	Acquire(ctx context.Context, corpus string, right Right, holder string, ttl time.Duration, floor int64) (Lease, error)
	// Renew extends a lease; ErrFenced if it has been passed on.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error)
	// Check returns ErrFenced if a lease has been passed on or given up, or if its time has run out: then it may be passed on
	// at any moment.
	Check(ctx context.Context, lease Lease) error
	// Release gives the lease up; one that has been passed on is left alone.
	Release(ctx context.Context, lease Lease) error
	// Holder names who holds the lease now; "" if nobody does, or its time has run out.
	Holder(ctx context.Context, corpus string, right Right) (string, error)
}

// Builds keeps the state of the newest build of each corpus, and who may change what of it.
type Builds interface {
	Leases
	// Save stores the state, and in the same step its [State.Past] in the corpus's history, in place of what was there of the same
	// build; ErrFenced if the lease is not the newest. It is one of RightBuild.
	Save(ctx context.Context, lease Lease, state *State) error
	// Load returns the state of the newest build; ErrNotFound if there was none.
	Load(ctx context.Context, corpus string) (*State, error)
	// History returns what is kept of each build of a corpus, in the order in which they began; none is no error.
	History(ctx context.Context, corpus string) ([]*State, error)
	// Report stores what one process wants people to see of a build; it has no part in any decision.
	Report(ctx context.Context, corpus string, p Progress) error
	// Progress returns what all processes have reported lately, merged as [Reports] says; ErrNotFound if none has.
	Progress(ctx context.Context, corpus string) (Progress, error)
	// RequestStop asks the coordinator of a running build to bring it to rest, as Paused, Cancelled or Failed; the zero Stop takes
	// the wish back.
	RequestStop(ctx context.Context, corpus, build string, wish Stop) error
	// StopRequested returns the wish for a build, or the zero Stop.
	StopRequested(ctx context.Context, corpus, build string) (Stop, error)
}

// Baseline is what the growth rule compares a corpus with: its state when the plan of the published build was
// made.
type Baseline struct {
	Leaves  int   `json:"leaves"`
	Changes int64 `json:"changes"`
	// Deletions are those of the corpus.
	Deletions int64 `json:"deletions,omitempty"`
	// At is when that was, in seconds since 1970; 0 in the record of an older aerie.
	At int64 `json:"at,omitempty"`
}

// Settings are those that a published tree was built with, kept with it.
type Settings struct {
	Scope      tree.Scope `json:"scope"`
	KeepLeaves bool       `json:"keep_leaves"`
	Recipe     string     `json:"recipe"`
	// Mode is how levels were clustered; "" in the record of an older aerie, whose All has it.
	Mode string `json:"mode,omitempty"`
	// All holds every effective setting by key, secrets left out.
	All map[string]string `json:"all"`
}

// FullBuild is what a tree that grows is compared with.
type FullBuild struct {
	Baseline
	Generation int     `json:"generation"`
	Coherence  float64 `json:"coherence,omitempty"` // 0 if it is unknown
}

// Given is the embedder name under which a corpus of ready-made vectors is pinned when the configured embedder is a
// built-in one, since nobody knows which model they came from. Any embedder of the same width may embed queries and
// summaries of such a corpus; leaves without a vector are refused there while the embedder is a built-in one. With any other
// embedder configured, ready-made vectors are taken to be that model's.
const Given = "given"

// Cut says how documents become leaves.
type Cut struct {
	// Tokens is the budget of a leaf; 0 before the first document that was cut.
	Tokens int `json:"tokens,omitempty"`
	// Context: leaves have the headings and table heads around them.
	Context bool `json:"context"`
}

// Corpus is the record of one corpus.
type Corpus struct {
	Name string `json:"name"`

	// Embedder and Width are pinned by the first vector; "" and 0 before.
	Embedder string `json:"embedder"`
	Width    int    `json:"width"`

	// Cut is what documents were cut with last; nil in the record of an older aerie that has ingested nothing since.
	Cut *Cut `json:"cut,omitempty"`

	// Changes counts leaves that were added, removed or replaced since the corpus began. It only grows.
	Changes int64 `json:"changes"`

	// Deletions counts documents that were deleted since the corpus began, and Deleted is the time of the last one.
	Deletions int64     `json:"deletions,omitempty"`
	Deleted   time.Time `json:"deleted,omitzero"`

	// Generation is what readers see; 0 before the first build.
	Generation int `json:"generation"`
	// Baseline is nil when no build was published, and also when it is unknown: Generation tells which.
	Baseline *Baseline `json:"baseline"`
	// Settings are those of the published tree, nil before the first.
	Settings *Settings `json:"settings"`
	// StoppedBecause says why the published tree has no further level.
	StoppedBecause string `json:"stopped_because"`
	// Unseen is the share of leaf tokens that the summaries of a level haven't seen, of the level that has seen least.
	Unseen float64 `json:"unseen,omitempty"`
	// Coherence is the mean cosine of the published tree's leaves with the centers of their clusters; 0 if it is unknown.
	Coherence float64 `json:"coherence,omitempty"`
	// Full is the newest build in full, from which the published tree has grown; nil before the first, and when unknown.
	Full *FullBuild `json:"full,omitempty"`
	// Summaries is how many the published tree has; 0 if that is unknown.
	Summaries int `json:"summaries,omitempty"`
	// Newest is the greatest generation that was ever published. It is above Generation after a rollback, and 0 in a record of an
	// older aerie.
	Newest int `json:"newest,omitempty"`
	// Before is the tree before the published one, and Undone the one that a rollback took out of sight. There is one of the two at
	// most, and its summaries are kept.
	Before *Published `json:"before,omitempty"`
	Undone *Published `json:"undone,omitempty"`
	// Epoch is the newest lease epoch that changed the record; a floor for the next.
	Epoch int64 `json:"epoch"`
	// Version counts the changes of a record that has copies: a copy is replaced by newer ones only.
	Version int64 `json:"version,omitempty"`
	// Scheduled is the last time of a schedule that was attended to; zero if none was.
	Scheduled time.Time `json:"scheduled,omitzero"`
}

// Corpora keeps the records of corpora.
type Corpora interface {
	// Load returns a record; ErrNotFound if there is none.
	Load(ctx context.Context, name string) (*Corpus, error)
	// Update changes a record in one step, and creates it if needed: change gets the record (with Name set) and
	// alters it, and may be called again when another writer came between. An error of change leaves the
	// record as it was and is returned.
	Update(ctx context.Context, name string, change func(*Corpus) error) error
	// List returns the names, ascending.
	List(ctx context.Context) ([]string, error)
	// Drop removes a record with the corpus's builds and barriers. One that doesn't exist is no error. The epochs that
	// were given out are remembered.
	Drop(ctx context.Context, name string) error
}

// Plans keeps frozen plans, and beside them a copy of each corpus's record and of the state of its newest build, from which
// lost ones are restored.
type Plans interface {
	// PutPlan keeps a plan durably. A plan for the same level is replaced.
	PutPlan(ctx context.Context, p *Plan) error
	// Plan returns a plan; ErrNotFound if there is none, and an error if its digest doesn't agree with it.
	Plan(ctx context.Context, level tree.Level) (*Plan, error)
	// DropPlans removes the plans of a build.
	DropPlans(ctx context.Context, corpus, build string) error
	// PutTree keeps a copy of a corpus's record, unless the copy that is there has a greater Version: writers are not always as
	// quick as those that come after them.
	PutTree(ctx context.Context, c *Corpus) error
	// Tree returns the copy; ErrNotFound if there is none.
	Tree(ctx context.Context, corpus string) (*Corpus, error)
	// Trees returns the names of the corpora that have a copy, ascending.
	Trees(ctx context.Context) ([]string, error)
	// PutState keeps a copy of a build's state, in the place of that of the corpus's build before, unless the copy that is there is
	// newer ([State.Newer]).
	PutState(ctx context.Context, s *State) error
	// State returns the copy of the state of the corpus's newest build; ErrNotFound if there is none.
	State(ctx context.Context, corpus string) (*State, error)
	// DropTree removes the copies of a corpus's record and state; that there are none is no error.
	DropTree(ctx context.Context, corpus string) error
}
