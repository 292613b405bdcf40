// Command aerie builds RAPTOR summary trees over a corpus, keeps them fresh and answers queries from them, all on one
// machine.
//
// main parses, wires and calls run, which the tests call too. A command is one file; it parses its own flags, loads
// the configuration ([cli.load]) and works on a [home], which is the only place that names the adapters. Results go
// to stdout, all else to stderr; what a script may rely on (names, JSON fields, exit codes) is a contract.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // build.time_zone works on machines without a time zone database

	"github.com/spf13/cobra"
)

func main() {
	cobra.EnableCommandSorting = false // help lists commands in the order in which they are used
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-signals
		cancel(errInterrupted)
		<-signals
		// Every write is durable and repeatable, so that nothing is lost by not waiting.
		os.Exit(exitInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
