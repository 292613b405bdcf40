// Command coordinator is the daemon of a fleet that plans builds, keeps their barriers and publishes trees.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

// The exit codes are those of aerie.
const (
	exitDone  = 0
	exitUsage = 2
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run runs one command line and returns the exit code.
func run(args, env []string, stdout, stderr io.Writer) int {
	flags, given := pflag.NewFlagSet("coordinator", pflag.ContinueOnError), keyflag.Given{}
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	file := flags.String("config", "", "configuration file (default ./aerie.yaml if there)")
	if corpus, ok := config.Lookup("corpus"); ok {
		keyflag.AddOne(flags, given, corpus, "corpus")
	}
	keyflag.Add(flags, given, []string{""}, "queue.url", "state.url", "store.url", "server.listen")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "coordinator plans builds, keeps their barriers and publishes trees.\n\nUsage:\n  coordinator [flags]\n\nFlags:\n%s", flags.FlagUsages())
		return exitDone
	case err != nil:
		return refuse(stderr, keyflag.Explain(flags, "coordinator", err))
	case flags.NArg() > 0:
		return refuse(stderr, fmt.Errorf("it takes no argument, and got %q", flags.Arg(0)))
	}
	cfg, _, err := config.Load(config.Options{File: *file, Env: env, Flags: given})
	if err == nil {
		err = cfg.Fleet()
	}
	if err == nil {
		err = errors.New("this version works on one machine only; run `aerie build` without queue.url, state.url and store.url")
	}
	return refuse(stderr, err)
}

func refuse(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "coordinator: %v\n", err)
	return exitUsage
}
