// Package coordinator runs builds: it is the only loop that calls [levels.State.Step], and does what Step says.
//
// It never trusts a message that something is finished. It reads the barrier and steps (level-triggered); a worker's
// hint only makes it read sooner. Everything it does may be repeated, so that a start, a restart after kill -9 and a
// repair after lost state are the same routine: load the state, reconcile its level with the facts (plan, queue,
// store, dead), go on.
//
// One coordinator at a time works on a corpus: it holds a lease whose epoch fences every save.
package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/fence"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Config says what a coordinator builds and how.
type Config struct {
	// Corpus is the corpus's name; required.
	Corpus string
	// Rule decides when a build is due, and holds the scope of the tree.
	Rule levels.Rule
	// MinChunks is the number of nodes below which no level is built above them; at least 2.
	MinChunks int
	// MaxDepth bounds the number of levels; 0 means no bound.
	MaxDepth int
	// Incremental builds grow the published tree where they can, and otherwise cluster anew; without it every build is in full.
	Incremental bool
	// Stale is the share of the leaf tokens under it that a summary of a growing tree may not have seen, 0 to below 1; 0: every
	// summary that is touched is made again.
	Stale float64
	// Clustering says how levels are clustered. Its Progress is the coordinator's own.
	Clustering clustering.Config
	// Alternatives are other ways to cluster that Plan prices.
	Alternatives []Alternative
	// Recipe names how summaries are made; see tree.Recipe. Workers with another recipe don't take the tasks.
	Recipe string
	// Settings are kept with the tree, by config key, secrets left out.
	Settings map[string]string
	// Holder names this process in the lease; required, and different for each process.
	Holder string
	// LeaseTTL is how long a lease lasts unless it is renewed, which happens every third of it. 0 means 15 s.
	LeaseTTL time.Duration
	// Poll is how often the barrier is read when no hint comes. 0 means 500 ms.
	Poll time.Duration
	// Still is how long a level may stand without any task being settled before it is compared with the facts again; each time that
	// nothing was missing, and nothing moves, twice as long as before, up to 5 minutes. 0 means 20 s.
	Still time.Duration
	// Buried is the share of a level's tasks that may be buried and the level sealed all the same, 0 to 1.
	Buried float64
	// Keep is how many trees before the published one are kept for a rollback: 0 or 1.
	Keep int
	// Price is what the summaries' model costs; nil when that is not known.
	Price *Price
	// TempDir takes the mapped vectors of large levels; "" means the system's.
	TempDir string
}

// Validate reports the first setting that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Corpus == "" || c.Holder == "" || c.Recipe == "":
		return errors.New("coordinator: corpus, holder and recipe are required")
	case c.Rule.Threshold <= 0:
		return fmt.Errorf("coordinator: build.growth_threshold is %v, but must be above 0", c.Rule.Threshold)
	case c.Rule.Scope != tree.ScopeCorpus && c.Rule.Scope != tree.ScopeDocument:
		return fmt.Errorf("coordinator: build.scope is %q, but must be %q or %q", c.Rule.Scope, tree.ScopeCorpus, tree.ScopeDocument)
	case c.MinChunks < 2:
		return fmt.Errorf("coordinator: build.min_chunks is %d, but must be at least 2", c.MinChunks)
	case c.MaxDepth < 0:
		return fmt.Errorf("coordinator: build.max_depth is %d, but must be 0 (no limit) or more", c.MaxDepth)
	case !(c.Stale >= 0 && c.Stale < 1):
		return fmt.Errorf("coordinator: build.stale is %v, but must be at least 0 and below 1", c.Stale)
	case c.Keep < 0 || c.Keep > 1:
		return fmt.Errorf("coordinator: build.keep is %d, but must be 0 or 1", c.Keep)
	case c.Buried < 0 || c.Buried > 1:
		return fmt.Errorf("coordinator: the share of buried tasks is %v, but must be 0 to 1", c.Buried)
	}
	return nil
}

// Deps are what a coordinator works with. Events, Journal, Dry and Observer may be nil.
type Deps struct {
	Store   store.Store
	Corpora levels.Corpora
	Builds  levels.Builds
	Barrier levels.Barrier
	Plans   levels.Plans
	Queue   queue.Queue
	Journal journal.Journal // forgets attempts when buried tasks run again
	Cluster clustering.Func
	Grow    clustering.GrowFunc
	Dry     Dry // foresees the calls of a cluster, for Plan
	// Books is told the budget of a build, as its state has it, and what it has spent, whenever one starts or goes on; nil where
	// nobody keeps a budget.
	Books func(ctx context.Context, build *levels.State, spent tree.Usage) error
	// Full is raised by workers of this process that can't write; nil where there are none.
	Full *space.Alarm
	// Events is told in one sentence of each step of a build, as it happens.
	Events   func(string)
	Observer Observer
	Log      *slog.Logger
}

// Coordinator builds the tree of one corpus.
type Coordinator struct {
	cfg   Config
	deps  Deps
	hints chan struct{}

	mu    sync.Mutex
	doing string // for people; guarded by mu
}

// New returns a coordinator that is ready to build.
func New(cfg Config, deps Deps) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = fence.DefaultTTL
	}
	if cfg.Still == 0 {
		cfg.Still = 20 * time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = 500 * time.Millisecond
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Events == nil {
		deps.Events = func(string) {}
	}
	if deps.Observer == nil {
		deps.Observer = unobserved{}
	}
	if deps.Cluster == nil {
		deps.Cluster = clustering.Cluster
	}
	if deps.Grow == nil {
		deps.Grow = clustering.Grow
	}
	return &Coordinator{cfg: cfg, deps: deps, hints: make(chan struct{}, 1)}, nil
}

// Hint says that the barrier may have moved. It never blocks.
func (c *Coordinator) Hint() {
	select {
	case c.hints <- struct{}{}:
	default:
	}
}

// Doing says for people what the coordinator itself is busy with, such as clustering; "" when it waits.
func (c *Coordinator) Doing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doing
}

func (c *Coordinator) setDoing(what string) {
	c.mu.Lock()
	c.doing = what
	c.mu.Unlock()
}

// Decide applies the growth rule to the corpus as it is now.
func (c *Coordinator) Decide(ctx context.Context) (levels.Decision, error) {
	corpus, leaves, err := c.corpus(ctx)
	if err != nil {
		return levels.Decision{}, err
	}
	return c.cfg.Rule.Decide(corpus, leaves), nil
}

// corpus reads the corpus's record and counts its leaves. A record that is lost is restored from the copy beside
// the plans.
func (c *Coordinator) corpus(ctx context.Context) (*levels.Corpus, int, error) {
	record, err := c.deps.Corpora.Load(ctx, c.cfg.Corpus)
	if errors.Is(err, levels.ErrNotFound) {
		record, err = c.restoreCorpus(ctx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	leaves, err := c.deps.Store.Count(ctx, c.cfg.Corpus, store.Leaves().VisibleAt(record.Generation))
	if err != nil {
		return nil, 0, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	return record, leaves, nil
}

func (c *Coordinator) restoreCorpus(ctx context.Context) (*levels.Corpus, error) {
	if c.deps.Plans == nil {
		return &levels.Corpus{Name: c.cfg.Corpus}, nil
	}
	saved, err := c.deps.Plans.Tree(ctx, c.cfg.Corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return &levels.Corpus{Name: c.cfg.Corpus}, nil
	}
	if err != nil {
		return nil, err
	}
	err = c.deps.Corpora.Update(ctx, c.cfg.Corpus, func(r *levels.Corpus) error {
		if r.Generation == 0 {
			*r = *saved
		}
		return nil
	})
	return saved, err
}

// newBuildID returns a name for a build that sorts by time.
func newBuildID(now time.Time) string {
	var b [3]byte
	rand.Read(b[:]) // never fails, by its contract
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// workers is how many independent clusterings run side by side.
func workers() int { return runtime.GOMAXPROCS(0) }
