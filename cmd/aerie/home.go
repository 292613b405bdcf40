package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// home is the embedded mode: one folder with a SQLite file for nodes and state and, for what builds, the files of a queue
// in this process. Nothing but the commands' wiring stands here.
type home struct {
	c       *cli
	dir     string
	cfg     *config.Config
	db      *sqlite.DB
	conn    *natsqueue.Conn // nil until openQueue
	counter *corpus.Counter
	base    string // what ids of files are relative to
}

// openHome loads the configuration and opens the home, which is made if need be.
func (c *cli) openHome() (*home, error) {
	if err := c.load(); err != nil {
		return nil, err
	}
	return c.open()
}

// openExisting is openHome for commands that have nothing to do where nothing is.
func (c *cli) openExisting() (*home, error) {
	if err := c.load(); err != nil {
		return nil, err
	}
	if !c.homeExists() {
		return nil, failf(exitFailed, "aerie ingest PATH brings text in; --home names another folder", "there is no corpus in %s yet", c.home)
	}
	return c.open()
}

func (c *cli) homeExists() bool {
	_, err := os.Stat(filepath.Join(c.home, sqlite.FileName))
	return !errors.Is(err, fs.ErrNotExist)
}

// open opens the home under the configuration that was loaded.
func (c *cli) open() (*home, error) {
	for _, key := range []struct{ name, url string }{
		{"queue.url", c.cfg.Queue.URL}, {"state.url", c.cfg.State.URL}, {"store.url", c.cfg.Store.URL}, {"server.url", c.cfg.Server.URL},
	} {
		if key.url != "" {
			return nil, usagef("", "%s is set (%s), and this version works on one machine only; leave it empty", key.name, c.origins.Of(key.name))
		}
	}
	db, err := sqlite.Open(c.home, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	return &home{c: c, dir: c.home, cfg: c.cfg, db: db, counter: corpus.NewCounter(), base: baseFolder(c.home)}, nil
}

func (h *home) close() {
	var errs []error
	if h.conn != nil {
		errs = append(errs, h.conn.Close())
	}
	if err := errors.Join(append(errs, h.db.Close())...); err != nil {
		h.c.log.Warn("the home was not closed cleanly, which loses nothing", "error", err)
	}
}

func (h *home) store() store.Store { return h.db.Store() }

func (h *home) queueDir() string { return filepath.Join(h.dir, "queue") }

// openQueue starts the queue in this process. The error is natsqueue.ErrLocked if another process has it.
func (h *home) openQueue() error {
	if h.conn != nil {
		return nil
	}
	conn, err := natsqueue.Embedded(h.queueDir(), natsqueue.Config{
		MaxAckPending: max(1024, 2*h.cfg.Build.Slots), Logger: h.c.log,
	})
	if err != nil {
		return err
	}
	h.conn = conn
	return nil
}

// record returns the record of the corpus.
func (h *home) record(ctx context.Context) (*levels.Corpus, error) {
	record, err := h.db.Corpora().Load(ctx, h.cfg.Corpus)
	if !errors.Is(err, levels.ErrNotFound) {
		return record, err
	}
	names, err := h.db.Corpora().List(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, failf(exitFailed, "aerie ingest PATH brings text in", "there is no corpus %q in %s yet", h.cfg.Corpus, h.dir)
	}
	return nil, failf(exitFailed, "aerie status lists them", "there is no corpus %q in %s; did you mean %q?", h.cfg.Corpus, h.dir,
		config.Nearest(h.cfg.Corpus, names))
}

// rule is the growth rule as it is configured.
func (h *home) rule() levels.Rule {
	return levels.Rule{
		Threshold: h.cfg.Build.GrowthThreshold, Scope: tree.Scope(h.cfg.Build.Scope), KeepLeaves: h.cfg.Build.KeepLeaves,
	}
}

func (h *home) ingester(ctx context.Context, progress func(ingest.Progress)) (*ingest.Ingester, error) {
	embedder, err := h.embedder()
	if err != nil {
		return nil, err
	}
	return ingest.New(ingest.Config{
		ChunkTokens: h.cfg.Chunking.Tokens, Base: h.base, EmbedItems: h.cfg.Embeddings.BatchItems,
		BuildOpen: h.buildOpen, Progress: progress,
	}, h.store(), h.db.Corpora(), embedder)
}

// buildOpen reports whether a build has begun that still reads the leaves it was planned with.
func (h *home) buildOpen(ctx context.Context, corpus string) (bool, error) {
	state, err := h.db.Builds().Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return state.Resumable(), nil
}

func (h *home) ingest(ctx context.Context, req ingest.Request) (ingest.Report, error) {
	ticker := newTicker(h.c, "ingesting")
	defer ticker.stop()
	in, err := h.ingester(ctx, func(p ingest.Progress) {
		ticker.set("%s, %s", plural(p.Documents, "document", "documents"), plural(p.Leaves, "leaf", "leaves"))
	})
	if err != nil {
		return ingest.Report{}, err
	}
	report, err := in.Ingest(ctx, req)
	return report, explainPinned(err)
}

// explainPinned makes a mix of embedders what it is: a wrong setting. The sentence says what can be done.
func explainPinned(err error) error {
	if errors.Is(err, ingest.ErrPinned) {
		return usagef("", "%w", err)
	}
	return err
}

func (h *home) delete(ctx context.Context, documents []string) (ingest.Report, error) {
	if _, err := h.record(ctx); err != nil {
		return ingest.Report{}, err
	}
	in, err := h.ingester(ctx, nil)
	if err != nil {
		return ingest.Report{}, err
	}
	return in.Delete(ctx, h.cfg.Corpus, documents)
}

// deleteAll removes the corpus: first the work of its newest build, so that nothing is left that would write into it.
func (h *home) deleteAll(ctx context.Context) (ingest.Report, error) {
	in, err := h.ingester(ctx, nil)
	if err != nil {
		return ingest.Report{}, err
	}
	state, err := h.db.Builds().Load(ctx, h.cfg.Corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return ingest.Report{}, err
	default:
		if err := h.openQueue(); err != nil {
			return ingest.Report{}, lockedHint(err)
		}
		err := errors.Join(h.conn.Queue().Purge(ctx, h.cfg.Corpus, state.Build), h.conn.Plans().DropPlans(ctx, h.cfg.Corpus, state.Build))
		if err != nil {
			return ingest.Report{}, err
		}
	}
	return in.DeleteAll(ctx, h.cfg.Corpus)
}

// lockedHint says what to do about a queue that another process has.
func lockedHint(err error) error {
	if errors.Is(err, natsqueue.ErrLocked) {
		return failf(exitFailed, "wait until it ends, or stop it with Ctrl-C there", "%w", err)
	}
	return err
}

// retriever returns one that embeds queries as the corpus was embedded. Nobody knows by name which model made vectors that
// were brought along, so there the width must do. The built-in embedder surely isn't that model: byWords then says that
// words should be compared and not vectors.
func (h *home) retriever(ctx context.Context) (r *retrieve.Retriever, byWords bool, err error) {
	record, err := h.record(ctx)
	if err != nil {
		return nil, false, err
	}
	embedder, err := h.embedder()
	if err != nil {
		return nil, false, err
	}
	byWords = h.broughtAlong(record)
	switch {
	case byWords:
		embedder = givenEmbedder{llm.Lexical{Width: record.Width}}
	case record.Embedder == ingest.Given:
		embedder = givenEmbedder{embedder}
	}
	return retrieve.New(retrieve.Config{}, h.store(), h.db.Corpora(), embedder), byWords, nil
}

// broughtAlong reports whether the corpus has vectors of a model that isn't configured.
func (h *home) broughtAlong(record *levels.Corpus) bool {
	return record.Embedder == ingest.Given && h.cfg.Embeddings.Provider == llm.ProviderLexical
}

// givenEmbedder passes for the one that made the vectors which were brought along.
type givenEmbedder struct{ llm.Embedder }

func (givenEmbedder) Name() string { return ingest.Given }

// corpora lists the corpora that a status is asked for.
func (h *home) corpora(ctx context.Context) ([]string, error) {
	if h.c.origins.Of("corpus").Source != config.FromDefault {
		record, err := h.record(ctx)
		if err != nil {
			return nil, err
		}
		return []string{record.Name}, nil
	}
	names, err := h.db.Corpora().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the corpora: %w", err)
	}
	slices.Sort(names)
	return names, nil
}
