// Command run starts the three servers of a fleet on this machine and leaves them running, or stops them: `make stack` and
// `make stack-stop`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/aerie-rag/aerie/internal/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 2 || args[0] != "up" && args[0] != "down" {
		return errors.New("usage: run up|down FOLDER")
	}
	if args[0] == "down" {
		s, err := stack.Open(args[1])
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(stdout, "no servers were started in %s\n", args[1])
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Down(ctx); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "the servers of %s are stopped; their files stay\n", args[1])
		return nil
	}
	s, err := stack.Up(ctx, args[1], stderr)
	if err != nil {
		if s != nil { // nothing half-started stays
			err = errors.Join(err, s.Down(context.WithoutCancel(ctx)))
		}
		return err
	}
	config := s.Config()
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, config); err == nil {
			config = near
		}
	}
	fmt.Fprintf(stdout, "NATS      %s\nRedis     %s\nWeaviate  %s, gRPC %s\n\nbin/coordinator --config %s\nbin/worker --config %s\nbin/aerie --config %s status\n",
		s.NATS.Address, s.Redis.Address, s.Weaviate.Address, s.GRPC, config, config, config)
	return nil
}
