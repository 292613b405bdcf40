// Package serving opens a service to clients and lets builds start by themselves: what a coordinator of a fleet and aerie serve on
// one machine have in common.
package serving

import (
	"context"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// Door is who may come in, and when builds start by themselves.
type Door struct {
	schedule coordinator.Schedule // nil: growth decides
	tokens   *access.File         // nil: there is no tokens file
}

// Open reads what the configuration says about both. An error is one of the configuration.
func Open(d *daemon.Daemon) (*Door, error) {
	schedule, err := scheduleOf(d.Config)
	if err != nil {
		return nil, err
	}
	if err := d.Config.Server.CheckListen(); err != nil {
		return nil, err
	}
	tokens, err := tokensOf(d)
	if err != nil {
		return nil, err
	}
	return &Door{schedule: schedule, tokens: tokens}, nil
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

// Behind is what is served.
type Behind struct {
	Places  *wire.Places
	Service *service.Service
	Audit   api.Auditor
	// Beside runs as long as the service is served; nil for nothing.
	Beside func(ctx context.Context)
	// Ready is called once clients are answered; nil for nobody.
	Ready func()
}

// Serve answers clients, starts the builds that are due and goes on with those that were begun, until ctx ends. Then streams end, and
// the builds in hand are handed over.
func (o *Door) Serve(ctx context.Context, d *daemon.Daemon, b Behind) {
	web := server.New(server.Config{
		Token: d.Config.Server.Token.Reveal(), Tokens: o.tokens, Corpus: d.Config.Corpus, Version: d.Version, Observe: d.Telemetry.Request, Audit: b.Audit, Embed: b.Service.Embed, Log: d.Log,
	}, b.Service, d.Telemetry.Handler(daemon.Checks(b.Places)...))
	d.Handle(web.Handler())
	if b.Ready != nil {
		b.Ready()
	}
	d.Log.Info("watching corpora", "holder", d.Holder, "schedule", d.Config.Build.Schedule)
	var side sync.WaitGroup
	side.Go(func() { readings(d, b.Places).Run(ctx) })
	if b.Beside != nil {
		side.Go(func() { b.Beside(ctx) })
	}
	o.watch(ctx, d, b)
	web.EndStreams()
	b.Service.Close()
	side.Wait()
}

// watch starts builds by themselves until ctx ends.
func (o *Door) watch(ctx context.Context, d *daemon.Daemon, b Behind) {
	const stuck = 5 * time.Minute // longer than calls are repeated while servers are away
	pulse := d.Telemetry.Pulse("watch", stuck)
	defer pulse.Stop()
	coordinator.NewWatcher(coordinator.WatchConfig{Rule: wire.Rule(d.Config), Schedule: o.schedule}, coordinator.WatchDeps{
		Store: b.Places.Store, Corpora: b.Places.Corpora, Builds: b.Places.Builds, Log: d.Log,
		Start: func(ctx context.Context, corpus, trigger string) error {
			ctx = api.WithCaller(ctx, api.Caller{Name: "by itself: " + trigger})
			_, err := b.Service.Start(ctx, corpus, api.Start{BuildRequest: api.BuildRequest{Trigger: trigger}})
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
