package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/audit"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// home is where this process does the work itself: on the embedded places of a folder or, if the configuration names them, on
// those of a fleet. Nothing but the commands' wiring stands here.
type home struct {
	c       *cli
	dir     string // of the embedded places, and of what doesn't fit into memory
	cfg     *config.Config
	places  *wire.Places
	counter *corpus.Counter

	*service.Service
	audit    *audit.Log           // nil if nothing names one
	traces   *telemetry.Telemetry // nil if nothing asks for any
	ingested func(ingest.Progress)
}

// homeExists reports whether there is anything to look at. A fleet's places always are.
func (c *cli) homeExists() bool { return c.fleet() || wire.EmbeddedExists(c.home) }

// fleet reports whether the configuration names the places of a fleet.
func (c *cli) fleet() bool {
	return c.cfg.Queue.URL != "" || c.cfg.State.URL != "" || c.cfg.Store.URL != ""
}

// open opens the home under the configuration that was loaded.
func (c *cli) open() (*home, error) { return c.openAt(baseFolder(c.home)) }

// openAt is open with the folder that ids of files are relative to.
func (c *cli) openAt(base string) (*home, error) { return c.openWith(base, wire.Open, true) }

// openWith is openAt with what opens the places, and whether they are to be written to.
func (c *cli) openWith(base string, open func(context.Context, *config.Config, string, *slog.Logger) (*wire.Places, error), writes bool) (*home, error) {
	places, err := open(context.Background(), c.cfg, c.home, c.log) // it waits a few seconds at most
	if err != nil {
		return nil, err
	}
	if places.Fleet && writes { // a coordinator makes them too, and need not have run yet
		if err := places.Migrate(context.Background()); err != nil {
			_ = places.Close()
			return nil, err
		}
	}
	h := &home{c: c, dir: c.home, cfg: c.cfg, places: places, counter: corpus.NewCounter(), ingested: func(ingest.Progress) {}}
	if places.Fleet {
		h.dir = "" // the system's temporary folder
	}
	if writes {
		if err := h.trace(); err != nil {
			h.close()
			return nil, err
		}
	}
	cfg, deps, err := places.ServiceConfig(h.counter, builder{h})
	if err != nil {
		h.close()
		return nil, err
	}
	cfg.Place, cfg.Exclusive, cfg.Ingest.Base = h.where(), !places.Fleet, base
	if places.Fleet {
		cfg.Holder = h.holder() + "/documents"
	} else {
		cfg.Holder, cfg.Lock, cfg.Turn = embedded, places.LockDocuments, localTurnWait
	}
	cfg.Ingest.Progress = func(p ingest.Progress) { h.ingested(p) }
	if path := c.cfg.Server.AuditLog; path != "" {
		if h.audit, err = audit.Open(path, c.log); err != nil {
			h.close()
			return nil, usagef("", "server.audit_log: %w", err)
		}
		deps.Audit = h.audit
	}
	deps.Ready = func(ctx context.Context) error {
		if !places.HasQueue() { // no build has ever been
			return nil
		}
		err := h.openQueue(ctx)
		if errors.Is(err, natsqueue.ErrLocked) {
			return fmt.Errorf("%w: %w", levels.ErrHeld, c.lockedHint(err))
		}
		return err
	}
	h.Service = service.New(cfg, deps)
	return h, nil
}

// localTurnWait is how long a command waits for another one that changes the same corpus: somebody sits before it, and may end it.
const localTurnWait = 10 * time.Minute

func (h *home) close() {
	if h.Service != nil {
		h.Service.Close()
	}
	h.endTraces()
	if h.audit != nil {
		if err := h.audit.Close(); err != nil {
			h.c.log.Warn("the audit log was not closed cleanly", "error", err)
		}
	}
	if err := h.places.Close(); err != nil {
		h.c.log.Warn("the home was not closed cleanly, which loses nothing", "error", err)
	}
}

func (h *home) where() string {
	if h.places.Fleet {
		return h.cfg.Store.URL
	}
	return h.c.home
}

// queryVectors returns the embedder of questions.
func (h *home) queryVectors() (queryVectors, error) { return h.places.Embedder(h.counter) }

// IngestFiles implements documents.
func (h *home) IngestFiles(ctx context.Context, req ingest.Request) (api.IngestReport, error) {
	if h.c.origins.Of("chunking.tokens").Source != config.FromDefault { // else the corpus keeps what it has
		req.ChunkTokens = h.cfg.Chunking.Tokens
	}
	ticker := newTicker(h.c, "ingesting")
	defer ticker.stop()
	h.ingested = func(p ingest.Progress) {
		ticker.set("%s, %s", plural(p.Documents, "document", "documents"), plural(p.Leaves, "leaf", "leaves"))
	}
	return h.Service.IngestFiles(ctx, req)
}

// lockedHint says what to do about a queue that another process has.
func (c *cli) lockedHint(err error) error {
	var locked *natsqueue.LockedError
	if !errors.As(err, &locked) {
		return err
	}
	if url := c.servedAt(locked.PID); url != "" {
		return failf(exitFailed, "add --server "+url+" to the command: it is that one's client then", "%s is served by another process%s", c.home, pidText(locked.PID))
	}
	return failf(exitFailed, "wait until it ends, or stop it with Ctrl-C there", "%w", err)
}

// trace makes traces of what this process does from here on if telemetry.otlp_endpoint or the OTEL_* variables ask for them, as they
// do of coordinators and workers.
func (h *home) trace() error {
	t, err := telemetry.New(telemetry.Config{
		Program: "aerie", Version: version, Env: h.c.env, Log: h.c.log,
		Tracing: telemetry.Tracing{Endpoint: h.cfg.Telemetry.OTLPEndpoint, Ratio: h.cfg.Telemetry.TraceRatio},
	})
	if err != nil {
		return usagef("", "%w", err)
	}
	if t.Traced() {
		h.traces = t
		h.places.Watch(t)
	}
	return nil
}

// endTraces sends what is left of them.
func (h *home) endTraces() {
	if h.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h.traces.Close(ctx)
}
