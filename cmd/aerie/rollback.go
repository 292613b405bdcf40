package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) rollbackCommand() *cobra.Command {
	var forward bool
	cmd := &cobra.Command{
		Use: "rollback", Short: "Let readers see the tree before the one that they see, in one step and without a call",
		Long: "With build.keep 1, the default, the tree before is kept until the next one is published. What led to the tree that is left\n" +
			"makes no build due again; aerie build --force makes one. An unfinished build is cancelled and named.",
		Example: "  aerie rollback\n  aerie rollback --forward",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.rollback(cmd.Context(), forward) },
	}
	cmd.Flags().BoolVar(&forward, "forward", false, "take a rollback back")
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) rollback(ctx context.Context, forward bool) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	rolled, err := h.Rollback(ctx, c.cfg.Corpus, forward)
	if err != nil {
		return err
	}
	return c.print(rolled, func(w io.Writer) {
		fmt.Fprintf(w, "%s: readers see generation %d, %s, after generation %d\n", rolled.Corpus, rolled.Generation,
			plural(rolled.Summaries, "summary", "summaries"), rolled.From)
		if rolled.Cancelled != "" {
			fmt.Fprintf(w, "build %s, which was unfinished, is cancelled; what it paid for serves the next one\n", rolled.Cancelled)
		}
	})
}
