// Command hostile sends files and requests that mean harm to a server of the HTTP API, and holds it to what it promises: `make hostile
// SEED=n`.
//
// Sizes, depths, encodings, bombs, paths, headers and slow clients are drawn from the seed. The server is a process of its own, of the
// parts that a coordinator has, on a home. It must stay under 1 GB, never crash, answer nothing but 2xx and 4xx, work on no request for
// more than 5 s beyond what its bytes take at 256 KiB a second, and have everything else as it was. Files are read by a process of their own as well, as `aerie --server URL ingest`
// does, under the same bounds. It talks to this machine only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

const (
	mostMemory = 1 << 30
	mostCPU    = 5.0       // seconds of the processor for one file or request, beyond those that its bytes take
	leastSpeed = 256 << 10 // bytes, unpacked, in a second: cutting the hardest texts is no faster
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// start runs what the arguments say: the whole, or one of the processes that it starts of itself.
func start(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "what is drawn")
	count := flags.Int("count", 500, "how many files and requests")
	serveAt := flags.String("serve", "", "be the server, with this home")
	to := flags.String("to", "", "be a client that ingests a file: the server's address")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *serveAt != "":
		return serve(ctx, *serveAt, out)
	case *to != "":
		return ingestFile(ctx, *to, flags.Arg(0))
	}
	return attack(ctx, *seed, *count, out)
}

// attack is the whole.
func attack(ctx context.Context, seed uint64, count int, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "aerie-hostile-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	v, err := startVictim(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	before, err := v.fill(ctx)
	if err != nil {
		return err
	}
	r := &round{victim: v, folder: folder, random: rand.New(rand.NewPCG(seed, 0)), answers: map[int]int{}, kinds: map[string]int{}}
	r.all(ctx, count)
	if err := ctx.Err(); err != nil {
		return err
	}
	after, err := v.state(ctx)
	switch {
	case err != nil:
		r.fault("the server can't be asked any more: %v", err)
	case after != before:
		r.fault("what was stored has changed: %s, and was %s", after, before)
	}
	memory, err := v.memory()
	if err != nil {
		return err
	}
	if memory > mostMemory {
		r.fault("the server took %d MiB", memory>>20)
	}
	r.report(out, seed, memory)
	if len(r.faults) > 0 {
		return fmt.Errorf("%d faults with seed %d, the first: %s", len(r.faults), seed, r.faults[0])
	}
	return nil
}
