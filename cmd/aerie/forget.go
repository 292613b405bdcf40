package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) forgetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget DOCUMENT...",
		Short: "Remove documents and all that is left of them, now",
		Long: "Beside deleting documents, forget takes what is left of them, and of all that were deleted before, out of the summaries of every\n" +
			"generation, the paid answers, the buried tasks, the copies and the free pages of the home's files. Summaries keep their places\n" +
			"without a text until a build makes them again. Paid answers go for the whole corpus. An unfinished build is cancelled and named.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("", "aerie forget needs at least one document id")
			}
			return c.forget(cmd.Context(), args)
		},
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) forget(ctx context.Context, documents []string) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	out, err := h.Forget(ctx, c.cfg.Corpus, documents)
	if err != nil {
		return err
	}
	err = c.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s with %s forgotten; the texts of %s and of %s are taken out\n", out.Corpus, plural(out.Documents, "document", "documents"),
			plural(out.Leaves, "leaf", "leaves"), plural(out.Summaries, "summary", "summaries"), plural(out.Answers, "paid answer", "paid answers"))
		if out.Cancelled != "" {
			fmt.Fprintf(w, "build %s, which was unfinished, is cancelled; if workers had calls of it in hand, the same again in a minute takes those out too\n", out.Cancelled)
		}
	})
	if err == nil && len(out.Unknown) > 0 {
		return failf(exitLeftOut, "what was left of documents that were deleted before is gone", "corpus %s has no document %s", out.Corpus, strings.Join(quoted(out.Unknown), ", "))
	}
	return err
}

func quoted(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}
