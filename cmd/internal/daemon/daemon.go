// Package daemon is what the coordinator and the worker have in common: flags and configuration, logs and metrics, a listener
// for probes that is up before anything else, connections that are tried until the servers are there, and a clean end.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// Program is what is particular to one daemon.
type Program struct {
	Name  string // such as "worker"
	About string // one sentence for help, after the name
	// Version is that of the build.
	Version string
	// Shown are the config keys that help lists as flags; all keys are taken.
	Shown []string
	// Listen returns where probes and metrics are served; "" is nowhere. ListenKey is the key that says so.
	Listen    func(*config.Config) string
	ListenKey string
	// TLS, if not nil, returns the files of the listener's certificate and key; "" and "" are plain HTTP.
	TLS func(*config.Config) (cert, key string)
	// Early, if not nil, stands round what answers until Serve has set a handler of its own: clients that come early must not take it
	// for the whole.
	Early func(http.Handler) http.Handler
	// Serve works until ctx ends, then finishes in an orderly way and returns nil.
	Serve func(ctx context.Context, d *Daemon) error
}

// Daemon is a running one.
type Daemon struct {
	Program
	Config    *config.Config
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Holder names this process in leases and reports: no other has the name.
	Holder string
	// Counter counts tokens.
	Counter *corpus.Counter
	// Address is what the listener is at, once Serve is called; nil without one.
	Address net.Addr

	handler atomic.Pointer[http.Handler]
}

// Main runs a command line and returns the exit code: 0 after a clean end, 1 for a failure, 2 for a wrong configuration.
func Main(p Program, args, env []string, stdout, stderr io.Writer) int {
	cfg, options, err := p.parse(args, env, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return api.ExitDone
	}
	if err != nil {
		return p.refuse(stderr, err, api.ExitUsage)
	}
	log, err := telemetry.NewLogger(stderr, options.level, options.format)
	if err != nil {
		return p.refuse(stderr, err, api.ExitUsage)
	}
	t, err := telemetry.New(telemetry.Config{
		Program: p.Name, Version: p.Version, Env: env, Log: log,
		Tracing: telemetry.Tracing{Endpoint: cfg.Telemetry.OTLPEndpoint, Ratio: cfg.Telemetry.TraceRatio},
	})
	if err != nil {
		return p.refuse(stderr, err, api.ExitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	d := &Daemon{Program: p, Config: cfg, Log: log, Telemetry: t, Holder: Holder(p.Name), Counter: corpus.NewCounter()}
	if err := d.Run(ctx); err != nil {
		log.Error("stopped", "error", err)
		return api.Judge(err).Exit
	}
	log.Info("stopped")
	return api.ExitDone
}

// options are the flags that are no config keys.
type options struct{ file, level, format string }

func (p Program) parse(args, env []string, stdout io.Writer) (*config.Config, options, error) {
	var o options
	flags, given := pflag.NewFlagSet(p.Name, pflag.ContinueOnError), keyflag.Given{}
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	flags.StringVar(&o.file, "config", lookup(env, "AERIE_CONFIG", ""), "configuration file (default ./aerie.yaml if there)")
	flags.StringVar(&o.level, "log-level", lookup(env, "AERIE_LOG_LEVEL", "info"), "debug, info, warn or error")
	flags.StringVar(&o.format, "log-format", lookup(env, "AERIE_LOG_FORMAT", "json"), "text or json, on stderr")
	if key, ok := config.Lookup("corpus"); ok {
		keyflag.AddOne(flags, given, key, "corpus")
	}
	keyflag.Add(flags, given, []string{""}, p.Shown...)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "%s %s.\n\nUsage:\n  %s [flags]\n\nFlags:\n%s", p.Name, p.About, p.Name, flags.FlagUsages())
		return nil, o, err
	case err != nil:
		return nil, o, keyflag.Explain(flags, p.Name, err)
	case flags.NArg() > 0:
		return nil, o, fmt.Errorf("it takes no argument, and got %q", flags.Arg(0))
	}
	cfg, _, err := config.Load(config.Options{
		File: o.file, Env: env, EnvAlso: []string{"AERIE_CONFIG", "AERIE_LOG_LEVEL", "AERIE_LOG_FORMAT"}, Flags: given,
	})
	if err == nil {
		err = cfg.Fleet()
	}
	return cfg, o, err
}

func lookup(env []string, name, fallback string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := cutName(env[i], name); ok && v != "" {
			return v
		}
	}
	return fallback
}

func cutName(pair, name string) (string, bool) {
	if len(pair) > len(name) && pair[:len(name)] == name && pair[len(name)] == '=' {
		return pair[len(name)+1:], true
	}
	return "", false
}

func (p Program) refuse(stderr io.Writer, err error, exit int) int {
	line := p.Name + ": " + err.Error()
	if hint := api.Judge(err).Hint; hint != "" { // one line, for whoever collects them
		line += " (" + hint + ")"
	}
	fmt.Fprintln(stderr, printable.Line(line))
	return exit
}

// Holder makes a name for this process that no other has, also not one of the same pod after a restart.
func Holder(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%s-%d-%x", program, host, os.Getpid(), time.Now().UnixNano()&0xffffff)
}

// Run listens and serves until ctx ends.
func (d *Daemon) Run(ctx context.Context) error {
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		d.Telemetry.Close(flush)
	}()
	d.waitFor(errors.New("not connected yet"))
	if address := d.Listen(d.Config); address != "" {
		end, err := d.listen(ctx, address)
		if err != nil {
			return err
		}
		defer end()
	}
	return d.Serve(ctx, d)
}

// Handle replaces what answers at the listener.
func (d *Daemon) Handle(h http.Handler) { d.handler.Store(&h) }

const (
	// mostConnections is how many clients are served at a time; those beyond wait in the system's queue.
	mostConnections = 4096
	// rereadCertificate is how often the files of the certificate are looked at.
	rereadCertificate = 10 * time.Second
)

// listen serves until the returned function is called.
func (d *Daemon) listen(ctx context.Context, address string) (end func(), err error) {
	var cert *certificate
	if d.TLS != nil {
		if certFile, keyFile := d.TLS(d.Config); certFile != "" {
			if cert, err = newCertificate(certFile, keyFile, rereadCertificate, d.Log); err != nil {
				return nil, api.Usagef("", "%w", err)
			}
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, d.unheard(address, err)
	}
	d.Address = l.Addr()
	d.Log.Info("listening", "address", d.Address.String(), "tls", cert != nil)
	l = netutil.LimitListener(l, mostConnections)
	if cert != nil {
		l = tls.NewListener(l, cert.config())
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.Log.Error("the listener has ended", "address", address, "error", err)
		}
	}()
	return func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close() // what streams still is cut off
		}
		<-ended
	}, nil
}

// unheard is the error of an address that can't be listened at. It names the key and, where another process has the address, one
// that is free.
func (d *Daemon) unheard(address string, err error) error {
	key, ok := config.Lookup(d.ListenKey)
	if !ok {
		return fmt.Errorf("listening at %s: %w", address, err)
	}
	hint := fmt.Sprintf("--%s chooses another address", key.Flag())
	if errors.Is(err, syscall.EADDRINUSE) {
		err = errors.New("another process listens there")
		if free := freeBeside(address); free != "" {
			hint = fmt.Sprintf("give this one an address of its own, such as --%s %s", key.Flag(), free)
		}
	}
	return api.Usagef(hint, "%s is %s: %w; %s", key.Name, address, err, hint)
}

// freeBeside returns an address of the same host at which nobody listens now: one of the next ports; "" if they are all taken.
func freeBeside(address string) string {
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil {
		return ""
	}
	const tries = 20
	for i := 2; i < tries; i++ { // the next one is the other daemon's
		beside := net.JoinHostPort(host, strconv.Itoa(n+i))
		if l, err := net.Listen("tcp", beside); err == nil {
			_ = l.Close()
			return beside
		}
	}
	return ""
}

// Connect opens the fleet's places, and tries again while a server can't be reached. Any other error is the
// configuration's, or a server's that refuses us.
func (d *Daemon) Connect(ctx context.Context) (*wire.Places, error) {
	const most = 10 * time.Second
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, most) {
		p, err := wire.Fleet(ctx, d.Config, d.Log)
		if err == nil {
			p.Watch(d.Telemetry)
			return p, nil
		}
		if !coordinator.Away(err) || ctx.Err() != nil {
			return nil, err
		}
		if err := d.wait(ctx, "a server can't be reached, trying again", err, pause); err != nil {
			return nil, err
		}
	}
}

// Until calls ready again and again until it returns nil, saying each time why not yet. An error for which fatal says yes
// ends it.
func (d *Daemon) Until(ctx context.Context, what string, ready func(context.Context) error, fatal func(error) bool) error {
	const most = 10 * time.Second
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, most) {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || fatal(err) {
			return err
		}
		if err := d.wait(ctx, what, err, pause); err != nil {
			return err
		}
	}
}

// waitFor answers that the daemon isn't ready, and why.
func (d *Daemon) waitFor(why error) {
	h := d.Telemetry.Handler(telemetry.Check{Name: "start", Ask: func(context.Context) error { return why }})
	if d.Early != nil {
		h = d.Early(h)
	}
	d.Handle(h)
}

// wait shows at /readyz why the daemon waits.
func (d *Daemon) wait(ctx context.Context, what string, why error, pause time.Duration) error {
	d.waitFor(why)
	d.Log.Warn(what, "error", why)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// Ended takes an end that somebody asked for, before the work began, as a clean one.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Mismatch reports whether the streams on the server aren't as they should be.
func Mismatch(err error) bool { return errors.Is(err, natsqueue.ErrMismatch) }

// Checks are those of the places, for the handler.
func Checks(p *wire.Places) []telemetry.Check {
	var all []telemetry.Check
	for _, c := range p.Checks {
		all = append(all, telemetry.Check{Name: c.Name, Ask: c.Ask})
	}
	return all
}
