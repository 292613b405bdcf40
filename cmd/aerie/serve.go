package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/cmd/internal/serving"
	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/audit"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/worker"
)

func (c *cli) serveCommand() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the home on this machine: the HTTP API, pages and agents' tools, with builds that start by themselves",
		Long: "Serves the home until Ctrl-C: the HTTP API of a coordinator (/v1), agents' tools (/mcp), health and metrics. Builds that are due by growth\n" +
			"or build.schedule start by themselves, and one that is under way when this ends goes on with the next aerie serve or aerie build.\n" +
			"While it runs it has the home's queue: --server with its address makes other commands its clients.",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), open) },
	}
	listen, _ := config.Lookup("server.listen")
	keyflag.AddOne(cmd.Flags(), c.flags, listen, "listen")
	cmd.Flags().BoolVar(&open, "open", false, "open the pages in a browser")
	keyflag.Add(cmd.Flags(), c.flags, allKeys, append([]string{"build.schedule", "server.tokens_file"}, buildShown...)...)
	return cmd
}

// served is the JSON of aerie serve, printed once it answers.
type served struct {
	URL  string `json:"url"`
	Home string `json:"home"`
}

func (c *cli) serve(ctx context.Context, open bool) error {
	if err := c.load(); err != nil {
		return err
	}
	switch {
	case c.cfg.Server.URL != "":
		return usagef("leave server.url out", "a home of this machine is what can be served, and server.url names a coordinator, %s", c.cfg.Server.URL)
	case c.fleet():
		return usagef("start coordinator and worker instead", "a home of this machine is what can be served, and the configuration names the servers of a fleet")
	}
	t, err := telemetry.New(telemetry.Config{
		Program: "aerie", Version: version, Env: c.env, Log: c.log,
		Tracing: telemetry.Tracing{Endpoint: c.cfg.Telemetry.OTLPEndpoint, Ratio: c.cfg.Telemetry.TraceRatio},
	})
	if err != nil {
		return usagef("", "%w", err)
	}
	d := &daemon.Daemon{
		Program: daemon.Program{
			Name: "aerie", Version: version,
			Listen: func(cfg *config.Config) string { return cfg.Server.Listen }, ListenKey: "server.listen",
			TLS:   func(cfg *config.Config) (cert, key string) { return cfg.Server.TLSCert, cfg.Server.TLSKey },
			Early: server.Starting,
			Serve: func(ctx context.Context, d *daemon.Daemon) error { return c.serveHome(ctx, d, open) },
		},
		Config: c.cfg, Log: c.log, Telemetry: t, Holder: daemon.Holder("aerie"), Counter: corpus.NewCounter(),
	}
	return d.Run(ctx)
}

// serveHome is coordinator, worker and server of a home in one process.
func (c *cli) serveHome(ctx context.Context, d *daemon.Daemon, open bool) error {
	door, err := serving.Open(d)
	if err != nil {
		return err
	}
	auditor, err := audit.Open(c.cfg.Server.AuditLog, c.log)
	if err != nil {
		return usagef("", "server.audit_log: %w", err)
	}
	defer auditor.Close()
	p, err := wire.Embedded(c.cfg, c.home, c.log)
	if err != nil {
		return err
	}
	defer p.Close()
	p.Watch(d.Telemetry)
	if err := p.OpenQueue(); err != nil {
		return c.lockedHint(err)
	}
	defer c.sign(d)()
	m, err := p.Models(d.Counter, p.Journal(), wire.BudgetOf(c.cfg, wire.NoRequest))
	if err != nil {
		return err
	}
	builder := &wire.Builder{
		Places: p, Models: m, Holder: embedded, TempDir: c.home, More: func(deps *coordinator.Deps) { deps.Observer = d.Telemetry.Coordinator() },
	}
	work, err := p.Worker(m, func(deps *worker.Deps) {
		deps.Marked, deps.Observer = builder.Hint, d.Telemetry.Worker(c.cfg.Build.Slots, c.cfg.Build.TaskTimeout)
	})
	if err != nil {
		return err
	}
	cfg, deps, err := p.ServiceConfig(d.Counter, builder)
	if err != nil {
		return err
	}
	cfg.Place, cfg.Holder, cfg.Exclusive, cfg.Served, cfg.Lock, deps.Audit = c.home, embedded, true, true, p.LockDocuments, auditor
	door.Serve(ctx, d, serving.Behind{
		Places: p, Service: service.New(cfg, deps), Audit: auditor,
		Beside: func(ctx context.Context) { c.work(ctx, d, p, m, work, builder) },
		Ready:  func() { c.isServed(d, open) },
	})
	return nil
}

// work does the tasks of builds until ctx ends, and tells of it.
func (c *cli) work(ctx context.Context, d *daemon.Daemon, p *wire.Places, m *wire.Models, w *worker.Worker, builder *wire.Builder) {
	side, stop := context.WithCancel(context.WithoutCancel(ctx)) // tells of what is in hand until that is done
	var telling sync.WaitGroup
	telling.Go(func() {
		wire.ReportHands(side, w, p.Builds, wire.Reports{Holder: d.Holder, Waiting: m.Waiting, Beat: func() {}, Log: d.Log})
	})
	telling.Go(func() {
		wire.Tell(side, p.Members, d.Log, func() levels.Member { return wire.WorkerMember(d.Holder, version, c.cfg, m, w) })
	})
	telling.Go(func() {
		wire.Tell(side, p.Members, d.Log, func() levels.Member {
			return levels.Member{ID: d.Holder, Role: levels.RoleCoordinator, Version: version, Recipe: m.Recipe, WaitingFor: builder.Waiting()}
		})
	})
	_ = w.Run(ctx) // returns nil by its contract
	stop()
	telling.Wait()
}

// isServed tells where the home is served.
func (c *cli) isServed(d *daemon.Daemon, open bool) {
	s := served{URL: urlOf(d), Home: c.home}
	_ = c.print(s, func(w io.Writer) { // a reader that has gone stops no server
		fmt.Fprintf(w, "%s is served at %s (Ctrl-C ends it)\n", s.Home, s.URL)
	})
	if open {
		if err := browse(s.URL); err != nil {
			c.note("no browser was opened: %v", err)
		}
	}
}

// urlOf is where a daemon is reached from this machine.
func urlOf(d *daemon.Daemon) string {
	scheme, address := "http", d.Address.String()
	if d.Config.Server.TLSCert != "" {
		scheme = "https"
	}
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", fmt.Sprint(at.Port()))
	}
	return scheme + "://" + address
}

// browse opens a page in the browser of whoever sits here.
func browse(url string) error {
	name, args := "xdg-open", []string{url}
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it opens the page and ends
	return nil
}

// signName is the file of a home that says who serves it and where. Whether that process still does, the lock of the queue says.
const signName = "served"

// sign writes where the home is served, until the returned function is called.
func (c *cli) sign(d *daemon.Daemon) (remove func()) {
	path := filepath.Join(c.home, signName)
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", os.Getpid(), urlOf(d)), 0o600); err != nil {
		c.log.Warn("other commands can't name the address of this server", "error", err)
	}
	return func() { _ = os.Remove(path) }
}

// servedAt returns the address at which the process that has the home's queue serves it; "" if that isn't what it does.
func (c *cli) servedAt(pid int) string {
	text, err := os.ReadFile(filepath.Join(c.home, signName))
	if err != nil {
		return ""
	}
	signed, url, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if signed != strconv.Itoa(pid) {
		return ""
	}
	return url
}
