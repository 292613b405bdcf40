package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/levels"
)

func (c *cli) buildCommand() *cobra.Command {
	var request api.BuildRequest
	var detach bool
	cmd := &cobra.Command{
		Use:     "build",
		Short:   "Build the tree if the corpus has grown enough, or go on with an unfinished build",
		Example: "  aerie build\n  aerie build --force --max-tokens 2000000\n  aerie build --full\n  aerie build --scope document --keep-leaves=false",
		Long: "Builds the tree if the growth rule says so, or goes on with a build that was interrupted. If another process\n" +
			"is building, it follows that build until it rests. Ctrl-C stops cleanly and loses nothing; a second one stops at once.",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runBuild(cmd.Context(), api.Start{BuildRequest: request}, detach)
		},
	}
	cmd.Flags().BoolVar(&request.Force, "force", false, "build whatever the growth rule says")
	cmd.Flags().BoolVar(&request.Full, "full", false, "cluster everything anew instead of growing the tree; implies --force")
	cmd.Flags().BoolVar(&request.Settle, "settle", false, "make every summary again that has not seen all of its leaves; implies --force")
	cmd.Flags().BoolVar(&detach, "detach", false, "with --server: start the build and leave it to the coordinator")
	keyflag.Add(cmd.Flags(), c.flags, allKeys, append(append([]string{}, buildShown...), clusterShown...)...)
	return cmd
}

func (c *cli) retryCommand() *cobra.Command {
	var failed, detach bool
	var cause string
	cmd := &cobra.Command{
		Use: "retry --failed", Short: "Run buried tasks again and go on with their build", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !failed {
				return usagef("aerie status lists what is buried and why", "aerie retry needs --failed, which runs the buried tasks again")
			}
			return c.runBuild(cmd.Context(), api.Start{Retry: true, Cause: cause}, detach)
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "run the buried tasks again")
	cmd.Flags().BoolVar(&detach, "detach", false, "with --server: leave the build to the coordinator")
	cmd.Flags().StringVar(&cause, "cause", "", "only those that were buried for this cause, as in aerie status")
	keyflag.Add(cmd.Flags(), c.flags, allKeys)
	return cmd
}

func (c *cli) gcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gc", Short: "Delete what no reader can see any more and no build needs", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.gc(cmd.Context()) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) gc(ctx context.Context) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	result, err := h.Collect(ctx, c.cfg.Corpus)
	if err != nil {
		return err
	}
	return c.print(result, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s removed\n", result.Corpus, plural(result.Removed, "node", "nodes"))
	})
}

// runBuild builds, prints the report and returns the exit code that goes with it.
func (c *cli) runBuild(ctx context.Context, start api.Start, detach bool) error {
	h, err := c.openExisting("build.max_tokens", "build.max_cost")
	if err != nil {
		return err
	}
	defer h.close()
	if detach {
		return c.detach(ctx, h, start)
	}
	report, err := h.Run(ctx, c.cfg.Corpus, start)
	if err != nil {
		return err
	}
	if err := c.print(report, func(w io.Writer) { showReport(w, report) }); err != nil {
		return err
	}
	return c.outcome(ctx, report)
}

// detachedBuild is the JSON of aerie build --detach for a build that runs; one that rests already has its report.
type detachedBuild struct {
	Build    string        `json:"build"`
	Corpus   string        `json:"corpus"`
	State    levels.Status `json:"state"`
	Attached bool          `json:"attached"`
}

// detach starts a build and looks at it no further.
func (c *cli) detach(ctx context.Context, h place, start api.Start) error {
	b, err := h.Detach(ctx, c.cfg.Corpus, start)
	switch {
	case err != nil:
		return err
	case b.Problem != nil:
		return b.Problem.Err()
	case b.Report != nil:
		if err := c.print(b.Report, func(w io.Writer) { showReport(w, *b.Report) }); err != nil {
			return err
		}
		return c.outcome(ctx, *b.Report)
	}
	return c.print(detachedBuild{b.Build, b.Corpus, b.State, b.Attached}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: build %s runs; aerie status looks at it, aerie build attaches to it\n", b.Corpus, b.Build)
	})
}

// goOn says how a build that rests because of a cause goes on, where that takes more than another start.
var goOn = map[levels.Cause]string{
	levels.CauseBudget:      "aerie build with a larger --max-tokens or --max-cost goes on, and pays for nothing twice",
	levels.CauseUnreachable: "aerie build goes on once it can be reached",
	levels.CauseFull:        "once there is room, aerie build goes on where it stopped, and pays for nothing twice",
	levels.CauseBuried:      "aerie status lists them by cause; aerie retry --failed runs them again and goes on",
}

// outcome turns a report into what the program says and the code it leaves with.
func (c *cli) outcome(ctx context.Context, r api.BuildReport) error {
	stop, exit := r.Stop(), api.ExitOf(r)
	switch {
	case stop == (levels.Stop{}) && exit == exitDone:
		return nil
	case stop == (levels.Stop{}) && len(r.Buried) == 0:
		return failf(exit, "set summaries.context_tokens to the window that the endpoint really has, or make that larger there",
			"the tree was built from prompts of which the endpoint seems to have read only a part: %d of %s", r.CutPrompts, plural(r.Calls, "call", "calls"))
	case stop == (levels.Stop{}):
		return failf(exit, "aerie retry --failed runs them again", "the tree was built without %s",
			plural(len(r.Buried), "buried task", "buried tasks"))
	case stop.Status == levels.Degraded:
		return failf(exit, goOn[stop.Cause], "build %s stopped with buried tasks: %s", r.Build, r.Why)
	case stop.Status == levels.Paused && errors.Is(context.Cause(ctx), errInterrupted):
		return failf(exitInterrupted, "aerie build goes on where it stopped, and pays for nothing twice", "build %s is paused", r.Build)
	case stop.Status == levels.Paused:
		return failf(exit, cmp.Or(goOn[stop.Cause], "aerie build goes on where it stopped"), "build %s is paused: %s", r.Build, r.Why)
	}
	return failf(exit, "aerie build goes on where it stopped, once the cause is gone", "build %s %s: %s", r.Build, r.Outcome, r.Why)
}

func showReport(w io.Writer, r api.BuildReport) {
	if len(r.Levels) > 0 {
		rows := [][]string{{"level", "nodes in", "summaries", "calls", "carried", "reused", "tokens in", "tokens out", "out / in", "largest cluster", "most nodes", "mean nodes", "seconds"}}
		for _, l := range r.Levels {
			rows = append(rows, []string{
				count(l.Level), count(l.NodesIn), count(l.NodesOut), count(l.Calls), count(l.Carried), count(l.Reused), count(l.InputTokens),
				count(l.OutputTokens), fmt.Sprintf("%.2f", l.Compression), count(l.LargestClusterTokens), count(l.LargestClusterNodes), fmt.Sprintf("%.1f", l.MeanClusterSize), fmt.Sprintf("%.1f", l.Seconds),
			})
		}
		table(w, rows)
		fmt.Fprintln(w)
	}
	switch r.Outcome {
	case api.OutcomeNothingToDo:
		fmt.Fprintf(w, "%s: nothing to do: %s\n", r.Corpus, r.Why)
		return
	case api.OutcomeBuilt:
		fmt.Fprintf(w, "%s: generation %d stands", r.Corpus, r.Generation)
	default:
		fmt.Fprintf(w, "%s: build %s is %s", r.Corpus, r.Build, r.Outcome)
	}
	fmt.Fprintf(w, "; %s, %s carried, %s reused, %s tokens in, %s out%s, %s\n", plural(r.Calls, "call", "calls"), count(r.Carried), count(r.Reused),
		count(r.InputTokens), count(r.OutputTokens), costText(r.Cost), seconds(r.Seconds))
	for _, odd := range api.Odd(r.Usage) {
		fmt.Fprintln(w, odd)
	}
	if r.StoppedBecause != "" {
		fmt.Fprintf(w, "no further level: %s\n", r.StoppedBecause)
	}
}

func costText(cost *api.Cost) string {
	if cost == nil {
		return ""
	}
	return fmt.Sprintf(", %.4f %s", cost.Amount, cost.Currency)
}
