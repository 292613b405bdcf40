package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/levels"
)

// daemon is one process of the fleet, which may be started again and again.
type daemon struct {
	name    string
	args    []string
	program string
	log     string

	mu  sync.Mutex
	cmd *exec.Cmd
	end chan struct{} // closed when the process has ended
}

// start starts the process.
func (d *daemon) start() error {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command(d.program, d.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us
	if err := cmd.Start(); err != nil {
		return err
	}
	end := make(chan struct{})
	go func() { _ = cmd.Wait(); close(end) }()
	d.mu.Lock()
	d.cmd, d.end = cmd, end
	d.mu.Unlock()
	return nil
}

func (d *daemon) process() (*exec.Cmd, chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd, d.end
}

func (d *daemon) signal(s syscall.Signal) { cmd, _ := d.process(); _ = cmd.Process.Signal(s) }

// kill ends the process at once and waits for its end.
func (d *daemon) kill() {
	_, end := d.process()
	d.signal(syscall.SIGKILL)
	<-end
}

// stop ends the process in an orderly way, or at once if that takes too long.
func (d *daemon) stop(ctx context.Context) error {
	_, end := d.process()
	d.signal(syscall.SIGCONT)
	d.signal(syscall.SIGTERM)
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		d.kill()
		return fmt.Errorf("%s did not end when it was told to", d.name)
	}
}

// fleet is all processes, and ways to look at what they do.
type fleet struct {
	coordinators, workers []*daemon
	clients               []*client.Client // one for each coordinator
	places                *wire.Places
}

// startFleet starts the coordinators and workers and waits until they are ready.
func startFleet(ctx context.Context, t *test) (*fleet, error) {
	file := filepath.Join(t.folder, "fleet.yaml")
	u := t.stack.URLs()
	text := fmt.Sprintf(`queue: {url: %q, ack_wait: %s}
state: {url: %q}
store: {url: %q, grpc_url: %q}
summaries: {provider: openai, base_url: %q, model: fake}
build: {slots: %d, max_attempts: %d}
server: {lease: %s}
worker: {listen: "127.0.0.1:0", grace: 5s}
`, u["queue.url"], ackWait, u["state.url"], u["store.url"], u["store.grpc_url"], t.endpoint.URL(), slots, t.attempts, lease)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	cfg, _, err := config.Load(config.Options{File: file})
	if err != nil {
		return nil, err
	}
	f := &fleet{}
	if f.places, err = wire.Fleet(ctx, cfg, slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil {
		return nil, err
	}
	for i := range coordinators {
		address, err := freeAddress()
		if err != nil {
			return f, err
		}
		d := t.daemon("coordinator", i, "--config", file, "--server-listen", address)
		f.coordinators = append(f.coordinators, d)
		c, err := client.New(client.Config{URL: "http://" + address, Patience: time.Second})
		if err != nil {
			return f, err
		}
		f.clients = append(f.clients, c)
	}
	for i := range workers {
		f.workers = append(f.workers, t.daemon("worker", i, "--config", file))
	}
	for _, d := range f.all() {
		if err := d.start(); err != nil {
			return f, err
		}
	}
	return f, f.ready(ctx)
}

func (t *test) daemon(program string, i int, args ...string) *daemon {
	name := fmt.Sprintf("%s-%d", program, i)
	return &daemon{name: name, program: filepath.Join(t.bin, program), args: args, log: filepath.Join(t.folder, name+".log")}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (f *fleet) all() []*daemon { return append(append([]*daemon{}, f.coordinators...), f.workers...) }

// ready waits until a coordinator answers.
func (f *fleet) ready(ctx context.Context) error {
	return f.ask(ctx, func(c *client.Client) error { _, err := c.Status(ctx, ""); return err })
}

// ask asks one coordinator after another until one answers.
func (f *fleet) ask(ctx context.Context, question func(*client.Client) error) error {
	for {
		var err error
		for _, c := range f.clients {
			if err = question(c); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// leader returns the coordinator that builds a corpus; nil if none does just now.
func (f *fleet) leader(ctx context.Context, corpus string) *daemon {
	holder, err := f.places.Builds.Holder(ctx, corpus, levels.RightBuild)
	if err != nil || holder == "" {
		return nil
	}
	for _, d := range f.coordinators {
		if cmd, _ := d.process(); strings.Contains(holder, fmt.Sprintf("-%d-", cmd.Process.Pid)) {
			return d
		}
	}
	return nil
}

func (f *fleet) close(ctx context.Context) error {
	var errs []error
	for _, d := range f.all() {
		if cmd, _ := d.process(); cmd != nil {
			errs = append(errs, d.stop(ctx))
		}
	}
	for _, c := range f.clients {
		c.Close()
	}
	return errors.Join(append(errs, f.places.Close())...)
}
