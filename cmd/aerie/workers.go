package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

// hintRetry stands where buried tasks are listed.
const hintRetry = "aerie retry --failed runs the buried tasks again"

func (c *cli) workersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workers", Short: "Show who works: workers with their slots and what they wait for, and coordinators", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.workers(cmd.Context()) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) workers(ctx context.Context) error {
	if err := c.load(); err != nil {
		return err
	}
	result := api.WorkersOf(nil, time.Now())
	if c.cfg.Server.URL != "" || c.homeExists() {
		h, err := c.openReading()
		if err != nil {
			return err
		}
		defer h.close()
		if result, err = h.Workers(ctx); err != nil {
			return err
		}
	}
	return c.print(result, func(w io.Writer) { showWorkers(w, result) })
}

func showWorkers(w io.Writer, r api.Workers) {
	if len(r.Workers)+len(r.Coordinators) == 0 {
		fmt.Fprintln(w, "nobody works")
		return
	}
	rows := [][]string{{"id", "does", "version", "slots", "running", "since", "waiting for"}}
	since := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
	for _, m := range r.Coordinators {
		rows = append(rows, []string{m.ID, "coordinator", m.Version, "", "", since(m.Started), strings.Join(m.WaitingFor, "; ")})
	}
	for _, m := range r.Workers {
		rows = append(rows, []string{m.ID, "worker", m.Version, count(m.Slots), count(m.Running), since(m.Started), strings.Join(m.WaitingFor, "; ")})
	}
	table(w, rows)
}

func (c *cli) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Show the buried tasks of the newest build by cause, with an example of each", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.dead(cmd.Context()) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) dead(ctx context.Context) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	result, err := h.Dead(ctx, c.cfg.Corpus)
	if err != nil {
		return err
	}
	return c.print(result, func(w io.Writer) {
		if len(result.Causes) == 0 {
			fmt.Fprintf(w, "%s: no task is buried\n", result.Corpus)
			return
		}
		for _, g := range result.Causes {
			fmt.Fprintf(w, "%s: %s, such as level %d, %s: %s\n", g.Cause, plural(g.Tasks, "task", "tasks"), g.Example.Level, g.Example.Task,
				firstLine(g.Example.Error, 400))
		}
		fmt.Fprintln(w, hintRetry)
	})
}
