// Package wire puts aerie together as it is configured: the places where corpora and builds live, embedded or of a fleet, and the
// models that write and embed. It is the one package that names adapters; the programs of cmd share it.
package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/redisstate"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

// Places is where everything is kept. Close it.
type Places struct {
	Store   store.Store
	Corpora levels.Corpora
	Builds  levels.Builds
	Barrier levels.Barrier
	Members levels.Members
	// Reading is Corpora for whoever answers a person: it doesn't wait for a state that is away. Nil when embedded.
	Reading *coordinator.ReadingCorpora
	// Fleet says that other processes share these places.
	Fleet bool
	// Checks tell whether each server can be reached; none when embedded.
	Checks []Check

	cfg     *config.Config
	log     *slog.Logger
	dir     string               // of the embedded places
	reading bool                 // the embedded places can't be written to
	conn    *natsqueue.Conn      // nil until OpenQueue
	state   *redisstate.State    // nil when embedded
	watched *telemetry.Telemetry // nil: nobody watches
	told    sync.Map             // corpora that were warned of
	home    *sqlite.DB           // nil on a fleet
	full    space.Alarm          // raised by the worker of this process
	kept    *reserve             // of the journal; nil until OpenQueue
	close   []func() error
}

// Check asks one server whether it can do its part.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

// Open returns the places that the configuration names: those of a fleet, or the embedded ones in dir.
func Open(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (*Places, error) {
	if cfg.Queue.URL == "" && cfg.State.URL == "" && cfg.Store.URL == "" {
		return Embedded(cfg, dir, log)
	}
	return Fleet(ctx, cfg, log)
}

// Embedded returns the places of one machine: a SQLite file in dir, which is made if need be, and the files of a queue beside it.
func Embedded(cfg *config.Config, dir string, log *slog.Logger) (*Places, error) {
	db, err := sqlite.Open(dir, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	return &Places{
		Store: db.Store(), Corpora: db.Corpora(), Builds: db.Builds(), Barrier: db.Barrier(), Members: db.Members(), cfg: cfg, log: log, dir: dir,
		reading: db.ReadOnly(), home: db,
		close: []func() error{db.Close},
	}, nil
}

// Scrub takes what was deleted out of the files of the embedded places. The servers of a fleet free their room themselves.
func (p *Places) Scrub(ctx context.Context, corpus string) error {
	if p.home == nil {
		return nil
	}
	if p.conn != nil {
		if err := p.conn.Rewrite(ctx); err != nil {
			return err
		}
	}
	return p.home.Scrub(ctx, corpus)
}

// Repair makes again what the embedded places in dir can make again, for one corpus or with "" for all.
func Repair(ctx context.Context, dir, corpus string) ([]sqlite.Repaired, error) {
	db, err := sqlite.Open(dir, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	done, err := db.Repair(ctx, corpus)
	return done, errors.Join(err, db.Close())
}

// EmbeddedExists reports whether there is anything in dir.
func EmbeddedExists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, sqlite.FileName))
	return err == nil
}

// Fleet returns the places that a fleet shares: NATS, Redis and Weaviate. All three must be configured. A server that can't be
// reached is an error that says so; NATS alone may come later.
func Fleet(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Places, error) {
	if err := cfg.Fleet(); err != nil {
		return nil, err
	}
	p := &Places{cfg: cfg, log: log, Fleet: true}
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Places) connect(ctx context.Context) error {
	if err := p.OpenQueue(); err != nil {
		return err
	}
	state, err := redisstate.Connect(ctx, redisConfig(p.cfg, p.log))
	if err != nil {
		return unreachable("Redis", "state.url", p.cfg.State.URL, err)
	}
	p.state = state
	p.close = append(p.close, state.Close)
	nodes, err := weaviate.Connect(ctx, weaviateConfig(p.cfg))
	if err != nil {
		return unreachable("Weaviate", "store.url", p.cfg.Store.URL, err)
	}
	p.close = append(p.close, nodes.Close)
	p.Store = store.Listed(nodes, state.Roster())
	p.Corpora = coordinator.MirroredCorpora{Corpora: state.Corpora(), Plans: p.Plans()}
	p.Reading = &coordinator.ReadingCorpora{Corpora: state.Corpora(), Plans: p.Plans()}
	p.Builds = coordinator.MirroredBuilds{Builds: state.Builds(), Plans: p.Plans()}
	p.Barrier, p.Members = state.Barrier(), state.Members()
	p.Checks = []Check{{"nats", p.conn.Check}, {"redis", state.Check}, {"weaviate", nodes.Check}}
	return nil
}

// OpenQueue opens the queue, if it isn't open yet: that of a fleet, or the embedded one, which one process has at a time. The
// error is then natsqueue.ErrLocked.
func (p *Places) OpenQueue() error {
	if p.conn != nil {
		return nil
	}
	if p.reading {
		return fmt.Errorf("the home folder %s can't be written to: %w", p.dir, store.ErrReadOnly)
	}
	var err error
	if p.Fleet {
		var cfg natsqueue.Config
		if cfg, err = natsConfig(p.cfg, p.log); err == nil {
			p.conn, err = natsqueue.Connect(p.cfg.Queue.URL, cfg)
		}
	} else {
		p.conn, err = natsqueue.Embedded(p.queueDir(), natsqueue.Config{MaxAckPending: max(1024, 2*p.cfg.Build.Slots), Logger: p.log})
	}
	if err != nil {
		return err
	}
	p.close = append(p.close, p.conn.Close)
	file := ""
	if !p.Fleet {
		file = filepath.Join(p.queueDir(), reserveName)
	}
	p.kept = newReserve(p.conn.Journal(), file, p.log)
	p.close = append(p.close, p.kept.Close)
	return nil
}

func (p *Places) queueDir() string { return filepath.Join(p.dir, "queue") }

// HasQueue reports whether there is a queue to open: an embedded one is made by the first build.
func (p *Places) HasQueue() bool {
	if p.Fleet {
		return true
	}
	_, err := os.Stat(p.queueDir())
	return err == nil && !p.reading // a queue can't be looked at without being written to
}

// Migrate makes the streams of a fleet's queue that are missing. Ones that differ are an error, and left alone.
func (p *Places) Migrate(ctx context.Context) error { return p.conn.Migrate(ctx) }

// Queue, Plans, Journal and Heartbeat need OpenQueue before.
func (p *Places) Queue() queue.Queue {
	if p.watched != nil {
		return p.watched.Queue(p.conn.Queue())
	}
	return p.conn.Queue()
}

// Plans returns the frozen plans.
func (p *Places) Plans() levels.Plans {
	if p.watched != nil {
		return p.watched.Plans(p.conn.Plans())
	}
	return p.conn.Plans()
}

// Journal returns the journal of paid answers.
func (p *Places) Journal() journal.Journal {
	if p.watched != nil {
		return p.watched.Journal(p.kept)
	}
	return p.kept
}

// Conn returns the connection to the queue; nil before OpenQueue.
func (p *Places) Conn() *natsqueue.Conn { return p.conn }

// Close closes everything, last opened first.
func (p *Places) Close() error {
	var errs []error
	for i := len(p.close) - 1; i >= 0; i-- {
		errs = append(errs, p.close[i]())
	}
	p.close = nil
	return errors.Join(errs...)
}

// limiter returns what keeps calls within the limits: of this process, or of the fleet.
func (p *Places) limiter() llm.Limiter {
	l := p.cfg.Limits
	cfg := llm.LimiterConfig{
		RequestsPerMinute: l.RequestsPerMinute, InputTokensPerMinute: l.InputTokensPerMinute, OutputTokensPerMinute: l.OutputTokensPerMinute,
	}
	if p.state != nil {
		return p.state.Limiter(cfg)
	}
	return llm.NewLimiter(cfg)
}

// Budget bounds what builds spend, and can be told what they have spent before.
type Budget interface {
	llm.Budget
	// Open sets the bounds of a build, and what it has spent on a model already.
	Open(ctx context.Context, build string, b Bounds, model string, spent tree.Usage) error
}

func (p *Places) budget(b Bounds) Budget {
	cfg := llm.BudgetConfig{MaxTokens: b.MaxTokens, MaxCost: b.MaxCost, Prices: prices(p.cfg)}
	if p.state != nil {
		return fleetBudget{p.state.Budget(cfg)}
	}
	return localBudget{llm.NewBudget(cfg)}
}

type fleetBudget struct{ *redisstate.Budget }

func (f fleetBudget) Open(ctx context.Context, build string, b Bounds, model string, spent tree.Usage) error {
	return errors.Join(f.Bound(ctx, build, b.MaxTokens, b.MaxCost), f.Resume(ctx, build, model, spent))
}

// localBudget has the bounds that it was made with.
type localBudget struct{ *llm.LocalBudget }

func (l localBudget) Open(_ context.Context, build string, _ Bounds, model string, spent tree.Usage) error {
	l.Resume(build, model, spent)
	return nil
}

func prices(cfg *config.Config) map[string]llm.Price {
	all := map[string]llm.Price{}
	for model, p := range cfg.AllPrices() {
		all[model] = llm.Price{Input: p.Input, Output: p.Output, Currency: p.Currency}
	}
	return all
}

func natsConfig(cfg *config.Config, log *slog.Logger) (natsqueue.Config, error) {
	q := cfg.Queue
	out := natsqueue.Config{
		AckWait: q.AckWait, MaxAckPending: q.MaxInHand, Replicas: q.Replicas, CredentialsFile: q.CredentialsFile, NKeySeedFile: q.NKeyFile,
		MonitorURL: q.MonitorURL, Logger: log,
	}
	if q.CAFile == "" && q.CertFile == "" {
		return out, nil
	}
	out.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if q.CAFile != "" {
		pem, err := os.ReadFile(q.CAFile)
		if err != nil {
			return out, fmt.Errorf("queue.ca_file: %w", err)
		}
		out.TLS.RootCAs = x509.NewCertPool()
		if !out.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return out, fmt.Errorf("queue.ca_file: %s holds no PEM certificate", q.CAFile)
		}
	}
	if q.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(q.CertFile, q.KeyFile)
		if err != nil {
			return out, fmt.Errorf("queue.cert_file: %w", err)
		}
		out.TLS.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

func redisConfig(cfg *config.Config, log *slog.Logger) redisstate.Config {
	s := cfg.State
	return redisstate.Config{
		URL: s.URL, User: s.User, Password: s.Password.Reveal(), PasswordFile: s.PasswordFile, CAFile: s.CAFile, CertFile: s.CertFile,
		KeyFile: s.KeyFile, Log: log,
	}
}

func weaviateConfig(cfg *config.Config) weaviate.Config {
	s := cfg.Store
	return weaviate.Config{
		URL: s.URL, GRPC: s.GRPCURL, APIKey: s.APIKey.Reveal(), APIKeyFile: s.APIKeyFile, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile,
		Tenant: s.Tenant, Replicas: s.Replicas, Consistency: s.Consistency, Compat: s.Compat,
	}
}
