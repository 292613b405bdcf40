package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) buildsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "builds", Short: "Show all builds of the corpus with outcome and cost", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.builds(cmd.Context()) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) builds(ctx context.Context) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	result, err := h.History(ctx, c.cfg.Corpus)
	if err != nil {
		return err
	}
	return c.print(result, func(w io.Writer) { showBuilds(w, result) })
}

func showBuilds(w io.Writer, r api.PastBuilds) {
	if len(r.Builds) == 0 {
		fmt.Fprintf(w, "%s: nothing was built yet\n", r.Corpus)
		return
	}
	rows := [][]string{{"build", "generation", "outcome", "started", "seconds", "calls", "reused", "carried", "tokens in", "tokens out", "cost"}}
	for _, b := range r.Builds {
		cost := ""
		if b.Cost != nil {
			cost = fmt.Sprintf("%.4f %s", b.Cost.Amount, b.Cost.Currency)
		}
		rows = append(rows, []string{
			b.Build, count(b.Generation), string(b.Outcome), b.Started.Local().Format("2006-01-02 15:04:05"), seconds(b.Seconds), count(b.Calls), count(b.Reused),
			count(b.Carried), count(b.InputTokens), count(b.OutputTokens), cost,
		})
	}
	table(w, rows)
}
