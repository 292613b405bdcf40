package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) repairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Make the keyword index again from the texts, and drop the caches beside the database",
		Long: "repair makes again what is made of something else: the keyword index, of the texts, and the files beside the database,\n" +
			"of its rows. Texts, vectors and trees are only read. Without --corpus it does so for every corpus of the home.",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.repair(cmd.Context()) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) repair(ctx context.Context) error {
	if err := c.load(); err != nil {
		return err
	}
	if c.cfg.Server.URL != "" || c.fleet() {
		return usagef("leave the servers out to repair a home: --home names it", "Weaviate keeps its index itself, so there is nothing to repair here")
	}
	if !c.homeExists() {
		return failf(exitFailed, "aerie ingest PATH brings text in; --home names another folder", "there is no corpus in %s yet", c.home)
	}
	done, err := wire.Repair(ctx, c.home, c.namedCorpus())
	if err != nil {
		return err
	}
	if len(done) == 0 && c.namedCorpus() != "" {
		return failf(exitFailed, "aerie status lists the corpora", "there is no corpus %s in %s", c.namedCorpus(), c.home)
	}
	if c.output == "jsonl" {
		for _, r := range done {
			if err := c.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	return c.print(map[string]any{"repaired": done}, func(w io.Writer) {
		for _, r := range done {
			fmt.Fprintf(w, "%s: the keyword index is made again, of %s\n", r.Corpus, plural(r.Nodes, "text", "texts"))
		}
	})
}
