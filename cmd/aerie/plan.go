package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) planCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Say what a build would do and cost, without making a call", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.plan(cmd.Context(), full) },
	}
	cmd.Flags().BoolVar(&full, "full", false, "compute what a build in full would do, which takes as long as clustering everything")
	keyflag.Add(cmd.Flags(), c.flags, allKeys, append(append([]string{}, buildShown...), clusterShown...)...)
	return cmd
}

func (c *cli) plan(ctx context.Context, full bool) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	estimate, err := h.Plan(ctx, c.cfg.Corpus, full)
	if err != nil {
		return err
	}
	return c.print(estimate, func(w io.Writer) { showEstimate(w, estimate) })
}

func showEstimate(w io.Writer, e api.Estimate) {
	if len(e.Levels) > 0 {
		rows := [][]string{{"level", "nodes in", "clusters", "calls", "carried", "reused", "tokens in", "tokens out", "largest cluster"}}
		for _, l := range e.Levels {
			about := ""
			if l.Estimate {
				about = "~"
			}
			rows = append(rows, []string{
				count(l.Level), about + count(l.NodesIn), about + count(l.Clusters), about + count(l.Calls), about + count(l.Carried), about + count(l.Reused),
				"~" + count(l.InputTokens), "~" + count(l.OutputTokens), about + count(l.LargestClusterTokens),
			})
		}
		table(w, rows)
		fmt.Fprintln(w)
		fmt.Fprintf(w, "%s: about %s (%s reused), %s tokens in, at most %s out%s%s\n", e.Corpus, plural(e.Calls, "call", "calls"),
			count(e.Reused), count(e.InputTokens), count(e.OutputTokens), costText(e.Cost), batchText(e.BatchCost))
	}
	for _, way := range []struct {
		name string
		sum  *api.EstimateSum
	}{{"growing the tree", e.Incremental}, {"in full", e.Full}} {
		if s := way.sum; s != nil && e.Incremental != nil {
			name := way.name
			if s.Estimate {
				name += " (estimated; plan --full computes it)"
			}
			fmt.Fprintf(w, "  %s: about %s, %s kept, %s carried, %s tokens in, at most %s out%s\n", name, plural(s.Calls, "call", "calls"),
				count(s.Kept), count(s.Carried), count(s.InputTokens), count(s.OutputTokens), costText(s.Cost))
		}
	}
	if len(e.Alternatives) > 0 && e.Calls > 0 {
		fmt.Fprintln(w, "fewer, larger clusters (docs/retrieval.md says what they cost in detail):")
		for _, a := range e.Alternatives {
			fmt.Fprintf(w, "  %s: about %s, %.0f %% of that, %s tokens in, at most %s out%s\n", a.Settings, plural(a.Calls, "call", "calls"),
				100*float64(a.Calls)/float64(e.Calls), count(a.InputTokens), count(a.OutputTokens), costText(a.Cost))
		}
	}
	verb := "a build would start"
	if !e.WouldBuild {
		verb = "a build would do nothing (--force builds at any rate)"
	}
	fmt.Fprintf(w, "%s: %s\n", verb, e.Why)
	if e.StoppedBecause != "" {
		fmt.Fprintf(w, "no level %d: %s\n", len(e.Levels)+1, e.StoppedBecause)
	}
}

func batchText(cost *api.Cost) string {
	if cost == nil {
		return ""
	}
	return fmt.Sprintf(" (%.4f %s in batches)", cost.Amount, cost.Currency)
}
