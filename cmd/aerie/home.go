package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/service"
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

	*service.Service
	ingested func(ingest.Progress)
}

func (c *cli) homeExists() bool {
	_, err := os.Stat(filepath.Join(c.home, sqlite.FileName))
	return !errors.Is(err, fs.ErrNotExist)
}

// open opens the home under the configuration that was loaded.
func (c *cli) open() (*home, error) { return c.openAt(baseFolder(c.home)) }

// openAt is open with the folder that ids of files are relative to.
func (c *cli) openAt(base string) (*home, error) {
	for _, key := range []struct{ name, url string }{
		{"queue.url", c.cfg.Queue.URL}, {"state.url", c.cfg.State.URL}, {"store.url", c.cfg.Store.URL},
	} {
		if key.url != "" {
			return nil, usagef("", "%s is set (%s), and this version works on one machine only; leave it empty", key.name, c.origins.Of(key.name))
		}
	}
	db, err := sqlite.Open(c.home, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	h := &home{
		c: c, dir: c.home, cfg: c.cfg, db: db, counter: corpus.NewCounter(), base: base, ingested: func(ingest.Progress) {},
	}
	if h.Service, err = h.newService(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *home) close() {
	if h.Service != nil {
		h.Service.Close()
	}
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

// rule is the growth rule as it is configured.
func (h *home) rule() levels.Rule {
	return levels.Rule{
		Threshold: h.cfg.Build.GrowthThreshold, Scope: tree.Scope(h.cfg.Build.Scope), KeepLeaves: h.cfg.Build.KeepLeaves,
	}
}

func (h *home) where() string { return h.dir }

// queryVectors returns the embedder of questions.
func (h *home) queryVectors() (queryVectors, error) {
	embedder, err := h.embedder()
	return embedder, err
}

// newService returns what works on the home.
func (h *home) newService() (*service.Service, error) {
	embedder, err := h.embedder()
	if err != nil {
		return nil, err
	}
	chat := summariesConfig(h.cfg)
	cfg := service.Config{
		Place: h.dir, Rule: h.rule(), Exclusive: true, LexicalEmbedder: h.cfg.Embeddings.Provider == llm.ProviderLexical,
		Ingest: ingest.Config{
			ChunkTokens: h.cfg.Chunking.Tokens, Base: h.base, EmbedItems: h.cfg.Embeddings.BatchItems, Progress: func(p ingest.Progress) { h.ingested(p) },
		},
		Answer: answer.Config{ContextTokens: chat.ContextTokens, MaxOutputTokens: chat.MaxOutputTokens},
		Price: func(model string) (coordinator.Price, bool) {
			p, ok := h.cfg.Build.Prices[model]
			return coordinator.Price{Input: p.Input, Output: p.Output, Currency: p.Currency}, ok
		},
	}
	deps := service.Deps{
		Store: h.store(), Corpora: h.db.Corpora(), Builds: h.db.Builds(), Barrier: h.db.Barrier(), Embedder: embedder, Counter: h.counter,
		Builder: builder{h}, Log: h.c.log,
	}
	if chat.Provider == llm.ProviderOpenAI { // the built-in one doesn't chat: then the hits are quoted
		cfg.Answer.Name = chat.Model
		if deps.Model, err = llm.NewStreamer(chat, h.modelDeps()); err != nil {
			return nil, asUsage(err)
		}
	}
	return service.New(cfg, deps), nil
}

// Ingest implements documents.
func (h *home) Ingest(ctx context.Context, req ingest.Request) (ingest.Report, error) {
	ticker := newTicker(h.c, "ingesting")
	defer ticker.stop()
	h.ingested = func(p ingest.Progress) {
		ticker.set("%s, %s", plural(p.Documents, "document", "documents"), plural(p.Leaves, "leaf", "leaves"))
	}
	return h.Service.Ingest(ctx, req)
}

// lockedHint says what to do about a queue that another process has.
func lockedHint(err error) error {
	if errors.Is(err, natsqueue.ErrLocked) {
		return failf(exitFailed, "wait until it ends, or stop it with Ctrl-C there", "%w", err)
	}
	return err
}

// broughtAlong reports whether the corpus has vectors of a model that isn't configured.
func (h *home) broughtAlong(record *levels.Corpus) bool {
	return record.Embedder == ingest.Given && h.cfg.Embeddings.Provider == llm.ProviderLexical
}
