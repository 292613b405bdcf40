// Command coordinator is the daemon of a fleet that plans builds, keeps their barriers and publishes trees, and serves the HTTP
// API. Several may run: the lease of each corpus decides who builds it, and any of them answers.
package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/adhocore/gronx"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/audit"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(program, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

var program = daemon.Program{
	Name: "coordinator", About: "plans builds, keeps their barriers and publishes trees", Version: version,
	Shown:  []string{"queue.url", "state.url", "store.url", "server.listen", "build.schedule", "build.time-zone"},
	Listen: func(c *config.Config) string { return c.Server.Listen }, ListenKey: "server.listen",
	TLS:   func(c *config.Config) (cert, key string) { return c.Server.TLSCert, c.Server.TLSKey },
	Early: server.Starting,
	Serve: serve,
}

func serve(ctx context.Context, d *daemon.Daemon) error {
	schedule, err := scheduleOf(d.Config)
	if err != nil {
		return err
	}
	if err := d.Config.Server.CheckListen(); err != nil {
		return err
	}
	tokens, err := tokensOf(d)
	if err != nil {
		return err
	}
	auditor, err := audit.Open(d.Config.Server.AuditLog, d.Log)
	if err != nil {
		return api.Usagef("", "server.audit_log: %w", err)
	}
	defer auditor.Close()
	p, err := d.Connect(ctx)
	if err != nil {
		return daemon.Ended(ctx, err)
	}
	defer p.Close()
	if err := d.Until(ctx, "the queue is not ready", p.Migrate, daemon.Mismatch); err != nil {
		return daemon.Ended(ctx, err)
	}
	models, err := p.Models(d.Counter, p.Journal(), wire.BudgetOf(d.Config, wire.NoRequest))
	if err != nil {
		return err
	}
	builder := &wire.Builder{
		Places: p, Models: models, Holder: d.Holder, More: func(deps *coordinator.Deps) { deps.Observer = d.Telemetry.Coordinator() },
	}
	cfg, deps, err := p.ServiceConfig(d.Counter, builder)
	if err != nil {
		return err
	}
	cfg.Place, cfg.Holder, cfg.LeaseTTL, deps.Audit = "the fleet's store", d.Holder+"/documents", d.Config.Server.Lease, auditor
	svc := service.New(cfg, deps)
	web := server.New(server.Config{
		Token: d.Config.Server.Token.Reveal(), Tokens: tokens, Corpus: d.Config.Corpus, Version: version, Observe: d.Telemetry.Request, Audit: auditor, Log: d.Log,
	}, svc, d.Telemetry.Handler(daemon.Checks(p)...))
	d.Handle(web.Handler())
	d.Log.Info("watching corpora", "holder", d.Holder, "schedule", d.Config.Build.Schedule)

	var side sync.WaitGroup
	side.Go(func() { readings(d, p).Run(ctx) })
	side.Go(func() {
		wire.Tell(ctx, p.Members, d.Log, func() levels.Member {
			return levels.Member{ID: d.Holder, Role: levels.RoleCoordinator, Version: version, Recipe: models.Recipe, WaitingFor: builder.Waiting()}
		})
	})
	watch(ctx, d, p, svc, schedule)
	web.EndStreams()
	svc.Close() // builds in hand are handed over
	side.Wait()
	return nil
}

// tokensOf opens the tokens file; nil if there is none.
func tokensOf(d *daemon.Daemon) (*access.File, error) {
	const reread = time.Second
	path := d.Config.Server.TokensFile
	if path == "" {
		return nil, nil
	}
	tokens, err := access.Open(path, reread, d.Log)
	if err != nil {
		return nil, api.Usagef("aerie token create NAME --right read makes a line", "server.tokens_file: %w", err)
	}
	return tokens, nil
}

// watch starts builds by themselves until ctx ends.
func watch(ctx context.Context, d *daemon.Daemon, p *wire.Places, svc *service.Service, schedule coordinator.Schedule) {
	const stuck = 5 * time.Minute // longer than calls are repeated while servers are away
	pulse := d.Telemetry.Pulse("watch", stuck)
	defer pulse.Stop()
	coordinator.NewWatcher(coordinator.WatchConfig{Rule: wire.Rule(d.Config), Schedule: schedule}, coordinator.WatchDeps{
		Store: p.Store, Corpora: p.Corpora, Builds: p.Builds, Log: d.Log,
		Start: func(ctx context.Context, corpus, trigger string) error {
			ctx = api.WithCaller(ctx, api.Caller{Name: "by itself: " + trigger})
			_, err := svc.Start(ctx, corpus, api.Start{BuildRequest: api.BuildRequest{Trigger: trigger}})
			return err
		},
	}).Run(ctx, pulse.Beat)
}

// readings exports what stands in the stores about corpora and builds.
func readings(d *daemon.Daemon, p *wire.Places) *telemetry.Corpora {
	r := &telemetry.Corpora{
		Telemetry: d.Telemetry, Store: p.Store, Corpora: p.Corpora, Builds: p.Builds, Barrier: p.Barrier, Rule: wire.Rule(d.Config),
		MaxTokens: d.Config.Build.MaxTokens, MaxCost: d.Config.Build.MaxCost,
	}
	if price, ok := wire.Price(d.Config, wire.SummariesConfig(d.Config).ModelName()); ok {
		r.Price = &llm.Price{Input: price.Input, Output: price.Output, Currency: price.Currency}
	}
	return r
}

// cron is a schedule in a time zone.
type cron struct {
	expression string
	zone       *time.Location
}

// Next implements coordinator.Schedule.
func (c cron) Next(t time.Time) time.Time {
	next, err := gronx.NextTickAfter(c.expression, t.In(c.zone), false)
	if err != nil {
		return time.Time{} // an expression that no date ever meets, such as 30 February
	}
	return next
}

// scheduleOf returns the configured schedule; nil if there is none.
func scheduleOf(cfg *config.Config) (coordinator.Schedule, error) {
	expression := cfg.Build.Schedule
	if expression == "" {
		return nil, nil
	}
	if !gronx.IsValid(expression) {
		return nil, api.Usagef("such as 0 2 * * * for two o'clock each night", "build.schedule is %q, which is no cron expression of five fields", expression)
	}
	zone, err := time.LoadLocation(cfg.Build.TimeZone)
	if err != nil {
		return nil, api.Usagef("", "build.time_zone: %w", err)
	}
	return cron{expression, zone}, nil
}
