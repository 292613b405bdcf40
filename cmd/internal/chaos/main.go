// Command chaos builds trees on a fleet of real processes and servers while it kills, stops and pauses them, and checks that
// nothing is lost, nothing wrong is seen and hardly anything is paid for twice: `make chaos SEED=n`.
//
// A round is one corpus with four generations, each grown from the one before: documents come, are edited and deleted while the
// generation before is being built. Each is built undisturbed and embedded first; the fleet's tree must then have the same nodes with
// the same texts. Rounds follow one another until every
// kind of fault has happened during a build. Then clients contend for documents through all coordinators while faults go on, and
// what they were told is checked for linearizability. With --kills one build is made instead, during which processes are killed so
// many times, servers included. The whole is bounded in time and talks to this machine only.
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/stack"
)

const (
	coordinators = 2
	workers      = 4
	slots        = 16 // of each worker
	latency      = 100 * time.Millisecond
	ackWait      = 5 * time.Second
	lease        = 5 * time.Second
	leastKills   = 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// test is one run of the whole.
type test struct {
	bin, folder string
	random      *rand.Rand
	out         io.Writer
	began       time.Time

	endpoint *llmtest.Server
	stack    *stack.Stack
	fleet    *fleet
	leaves   []row
	faults   *faults
	pace     *pace
	attempts int // build.max_attempts
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "decides what breaks when")
	bin := flags.String("bin", "bin", "folder of the programs")
	text := flags.String("corpus", "", "text to build trees of: a file or folder that aerie ingest reads (default: the package comments of the Go distribution)")
	minutes := flags.Uint("minutes", 10, "how long clients contend and things break")
	contend := flags.Bool("contend", false, "only let clients contend, and build no trees of their own")
	kills := flags.Int("kills", 0, "instead of all that: kill processes so many times during one build")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lasts := time.Duration(*minutes) * time.Minute
	bound := lasts + 10*time.Minute
	if *kills > 0 {
		bound = 15*time.Minute + time.Duration(*kills)*5*time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not finished within %v", bound))
	defer cancel()
	folder, err := os.MkdirTemp("", "aerie-chaos")
	if err != nil {
		return err
	}
	t := &test{folder: folder, random: rand.New(rand.NewPCG(*seed, *seed)), out: out, began: time.Now(), pace: newPace(), attempts: 5}
	if *kills > 0 {
		t.attempts = 100 * *kills // no task is to blame
	}
	if t.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.close())
		if err == nil {
			err = os.RemoveAll(folder)
		} else {
			fmt.Fprintf(out, "logs and state are in %s\n", folder)
		}
	}()
	t.endpoint = llmtest.New(llmtest.Config{Latency: latency, Chat: t.pace.chat})
	t.say("seed %d: %d coordinators, %d workers of %d slots, an endpoint of %v", *seed, coordinators, workers, slots, latency)
	if err := t.prepare(ctx, *text); err != nil {
		return cause(ctx, err)
	}
	switch {
	case *kills > 0:
		err = t.killing(ctx, *kills)
	case *contend:
		err = t.contend(ctx, *seed, t.began.Add(lasts))
	default:
		if err = t.rounds(ctx); err == nil {
			err = t.contend(ctx, *seed, t.began.Add(lasts))
		}
	}
	if err != nil {
		return cause(ctx, err)
	}
	t.say("passed")
	return nil
}

// cause returns why ctx has ended instead of an error that only says that it has.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// prepare reads the text and starts the servers and the fleet.
func (t *test) prepare(ctx context.Context, text string) error {
	var err error
	if t.leaves, err = t.readLeaves(ctx, text); err != nil {
		return err
	}
	t.say("%d leaves", len(t.leaves))
	if t.stack, err = stack.Up(ctx, filepath.Join(t.folder, "stack"), t.out); err != nil {
		return err
	}
	if t.fleet, err = startFleet(ctx, t); err != nil {
		return err
	}
	t.faults = newFaults(t)
	return nil
}

// rounds runs rounds until every kind of fault has happened.
func (t *test) rounds(ctx context.Context) error {
	var total tally
	for k := 1; k == 1 || !t.faults.enough(); k++ {
		r, err := t.round(ctx, k)
		total = total.add(r)
		if err != nil {
			return fmt.Errorf("round %d: %w", k, err)
		}
	}
	allowed := total.undisturbed + t.faults.losable()
	t.say("%d rounds; %d calls paid, %d undisturbed, %d allowed (%d workers killed or paused, %d slots each); %d trees and %d queries read, none wrong",
		total.rounds, total.paid, total.undisturbed, allowed, t.faults.losable()/slots, slots, total.trees, total.queries)
	t.faults.tell()
	if total.paid > allowed {
		return fmt.Errorf("%d calls were paid for, %d are allowed", total.paid, allowed)
	}
	if total.trees == 0 || total.queries == 0 {
		return errors.New("the readers read nothing")
	}
	return nil
}

// tally counts what rounds did.
type tally struct{ rounds, paid, undisturbed, trees, queries int }

func (a tally) add(b tally) tally {
	return tally{a.rounds + b.rounds, a.paid + b.paid, a.undisturbed + b.undisturbed, a.trees + b.trees, a.queries + b.queries}
}

func (t *test) say(format string, args ...any) {
	fmt.Fprintf(t.out, "%6.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

func (t *test) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if t.fleet != nil {
		errs = append(errs, t.fleet.close(ctx))
	}
	if t.stack != nil {
		errs = append(errs, t.stack.Down(ctx))
	}
	if t.endpoint != nil {
		t.endpoint.Close()
	}
	return errors.Join(errs...)
}
