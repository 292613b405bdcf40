package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) statusCommand() *cobra.Command {
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show corpora, growth, what would start the next build, and the running one by level",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("", "--every is %s; it must be at least 100ms", every)
			}
			return c.status(cmd.Context(), watch, every)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: how often")
	keyflag.Add(cmd.Flags(), c.flags, append([]string{"build"}, placeKeys...))
	return cmd
}

func (c *cli) status(ctx context.Context, watch bool, every time.Duration) error {
	if err := c.load(); err != nil {
		return err
	}
	_, screen := terminal(c.out)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		result, where, err := c.readStatus(ctx)
		if err != nil {
			return err
		}
		if watch && screen && c.output == "table" {
			fmt.Fprint(bare(c.out), "\x1b[H\x1b[2J")
		}
		if err := c.print(result, func(w io.Writer) { c.showStatus(w, result, where) }); err != nil || !watch {
			return err
		}
		select {
		case <-ctx.Done():
			return leave(exitInterrupted)
		case <-tick.C:
		}
	}
}

func (c *cli) readStatus(ctx context.Context) (api.Status, string, error) {
	if c.cfg.Server.URL == "" && !c.homeExists() {
		return api.Status{Corpora: []api.CorpusStatus{}, Workers: api.WorkersOf(nil, time.Now())}, c.home, nil
	}
	h, err := c.openReading()
	if err != nil {
		return api.Status{}, "", err
	}
	defer h.close()
	status, err := h.Status(ctx, c.namedCorpus())
	return status, h.where(), err
}

func (c *cli) showStatus(w io.Writer, r api.Status, where string) {
	if len(r.Corpora) == 0 {
		fmt.Fprintf(w, "no corpus in %s yet; aerie ingest PATH brings text in\n", where)
		return
	}
	for i, s := range r.Corpora {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.showCorpus(w, s)
	}
	if len(r.Workers.Workers)+len(r.Coordinators) > 0 {
		fmt.Fprintln(w)
		showWorkers(w, r.Workers)
	}
	for _, away := range r.Away {
		fmt.Fprintf(w, "\n%s\n", away)
	}
}

func (c *cli) showCorpus(w io.Writer, s api.CorpusStatus) {
	fmt.Fprintln(w, bold(c.colored(c.out), s.Corpus))
	baseline := "unknown"
	switch {
	case s.BaselineLeaves != nil:
		baseline = plural(*s.BaselineLeaves, "leaf", "leaves")
	case s.Generation == 0:
		baseline = "none, nothing is built yet"
	}
	growth := "-"
	if s.Growth != nil {
		growth = fmt.Sprintf("%.1f %% of %.1f %%", 100**s.Growth, 100*s.Threshold)
	}
	cells := []string{
		"  documents", count(s.Documents), "  leaves", count(s.Leaves), "  summaries", count(s.Summaries),
		"  generation", count(s.Generation), "  built from", baseline, "  growth", growth, "  next build", s.NextBuild,
	}
	if s.HiddenLeaves > 0 {
		cells = append(cells, "  hidden", plural(s.HiddenLeaves, "leaf", "leaves")+" with a summary above them are out of search, as build.keep_leaves is false")
	}
	if s.StoppedBecause != "" {
		cells = append(cells, "  top level", s.StoppedBecause)
	}
	if s.Unseen > 0 {
		cells = append(cells, "  unseen", fmt.Sprintf("%.1f %% of the leaf tokens of a level aren't in its summaries yet", 100*s.Unseen))
	}
	if s.Advice != "" {
		cells = append(cells, "  advice", s.Advice)
	}
	if s.SettingsAdvice != "" {
		cells = append(cells, "  settings", s.SettingsAdvice)
	}
	pairs(w, cells...)
	if s.Build != nil {
		showBuild(w, s.Build)
	}
}

func showBuild(w io.Writer, b *api.BuildStatus) {
	fmt.Fprintf(w, "  build %s is %s", b.Build, b.State)
	if b.Why != "" {
		fmt.Fprintf(w, ": %s", b.Why)
	}
	fmt.Fprintf(w, "; %s, %s reused, %s tokens in, %s out; since %s\n", plural(b.Calls, "call", "calls"), count(b.Reused),
		count(b.InputTokens), count(b.OutputTokens), b.Started.Local().Format("2006-01-02 15:04:05"))
	if b.Doing != "" {
		fmt.Fprintf(w, "  doing: %s\n", b.Doing)
	}
	for _, what := range b.WaitingFor {
		fmt.Fprintf(w, "  waiting: %s\n", what)
	}
	for _, odd := range b.Odd() {
		fmt.Fprintf(w, "  %s\n", odd)
	}
	rows := [][]string{{"  level", "expected", "done", "queued", "running", "buried"}}
	for _, l := range b.Levels {
		rows = append(rows, []string{count(l.Level), count(l.Expected), count(l.Done), count(l.Queued), count(l.Running), count(l.Buried)})
	}
	if len(rows) > 1 {
		table(w, rows)
	}
	for _, l := range b.Levels {
		if l.Missing > 0 {
			fmt.Fprintf(w, "  level %d: %s found nowhere, neither done nor queued nor buried, and queued again\n", l.Level, plural(l.Missing, "task was", "tasks were"))
		}
	}
	for _, g := range b.Buried {
		fmt.Fprintf(w, "  buried, %s: %s, such as level %d, %s: %s\n", g.Cause, plural(g.Count, "task", "tasks"), g.Example.Level,
			g.Example.Task, firstLine(g.Example.Error, 400))
	}
	if len(b.Buried) > 0 {
		fmt.Fprintln(w, "  "+hintRetry)
	}
}
