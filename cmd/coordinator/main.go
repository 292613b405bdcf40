// Command coordinator is the daemon of a fleet that plans builds, keeps their barriers and publishes trees, and serves the HTTP
// API. Several may run: the lease of each corpus decides who builds it, and any of them answers.
package main

import (
	"context"
	"os"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/serving"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/audit"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service"
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
	door, err := serving.Open(d)
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
	door.Serve(ctx, d, serving.Behind{
		Places: p, Service: service.New(cfg, deps), Audit: auditor,
		Beside: func(ctx context.Context) {
			wire.Tell(ctx, p.Members, d.Log, func() levels.Member {
				return levels.Member{ID: d.Holder, Role: levels.RoleCoordinator, Version: version, Recipe: models.Recipe, WaitingFor: builder.Waiting()}
			})
		},
	})
	return nil
}
