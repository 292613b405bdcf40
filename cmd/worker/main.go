// Command worker is the daemon of a fleet that takes tasks from the queue: it summarizes the children of a cluster, writes
// the node, and marks the level's barrier. Any number of them may run.
package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/worker"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(program, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

var program = daemon.Program{
	Name: "worker", About: "takes tasks from the queue and writes summaries", Version: version,
	Shown:  []string{"queue.url", "state.url", "store.url", "build.slots", "worker.listen", "worker.grace"},
	Listen: func(c *config.Config) string { return c.Worker.Listen }, ListenKey: "worker.listen",
	Serve: serve,
}

func serve(ctx context.Context, d *daemon.Daemon) error {
	p, err := d.Connect(ctx)
	if err != nil {
		return daemon.Ended(ctx, err)
	}
	defer p.Close()
	models, err := p.Models(d.Counter, p.Journal(), wire.BudgetOf(d.Config, wire.NoRequest))
	if err != nil {
		return err
	}
	w, err := p.Worker(models, func(deps *worker.Deps) {
		deps.Observer = d.Telemetry.Worker(d.Config.Build.Slots, d.Config.Build.TaskTimeout)
	})
	if err != nil {
		return err
	}
	// A coordinator makes the streams. While one is missing, or differs from this worker's configuration, /readyz says so
	// and no task is taken.
	check := func(ctx context.Context) error { return p.Conn().Check(ctx) }
	if err := d.Until(ctx, "the queue is not ready", check, func(error) bool { return false }); err != nil {
		return daemon.Ended(ctx, err)
	}
	d.Handle(d.Telemetry.Handler(daemon.Checks(p)...))
	d.Log.Info("taking tasks", "slots", d.Config.Build.Slots, "holder", d.Holder)

	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var reporting sync.WaitGroup
	const stuck = 5 * time.Minute // longer than a report can take while the state is away
	pulse := d.Telemetry.Pulse("reports", stuck)
	reporting.Go(func() {
		defer pulse.Stop()
		wire.ReportHands(side, w, p.Builds, wire.Reports{Holder: d.Holder, Waiting: models.Waiting, Beat: pulse.Beat, Log: d.Log})
	})
	reporting.Go(func() {
		wire.Tell(side, p.Members, d.Log, func() levels.Member { return wire.WorkerMember(d.Holder, version, d.Config, models, w) })
	})
	err = w.Run(ctx)
	stop()
	reporting.Wait()
	return err
}
