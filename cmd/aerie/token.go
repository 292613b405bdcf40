package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/access"
)

func (c *cli) tokenCommand() *cobra.Command {
	var right string
	var corpora []string
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a token, and the line of server.tokens_file that lets it in",
		Long: "Make a token, and the line of server.tokens_file that lets it in. The token is shown this once: the line holds only its hash.\n" +
			"Two lines may have one name, so that a token can be replaced without a gap: add the new line, change the clients, take the old one out.",
		Example: "  aerie token create ci --right write --corpora docs,wiki",
		Args:    one("a name"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(corpora) == 0 {
				return usagef("name them with commas, or * for all of them, those to come too", "--corpora is missing")
			}
			r, err := access.ParseRight(right)
			if err != nil {
				return usagef("", "--right: %w", err)
			}
			if slices.Equal(corpora, []string{"*"}) {
				corpora = nil
			}
			token, line, err := access.Create(args[0], r, corpora)
			if err != nil {
				return usagef("", "%w", err)
			}
			return c.print(struct {
				Token string `json:"token"`
				Line  string `json:"line"`
			}{token, line}, func(w io.Writer) {
				fmt.Fprintf(w, "token, shown this once:\n%s\n\nline for server.tokens_file:\n%s\n", token, line)
			})
		},
	}
	create.Flags().StringVar(&right, "right", "", "read, write (documents and builds too) or admin (everything); required")
	create.Flags().StringSliceVar(&corpora, "corpora", nil, "the corpora that it is for, with commas; * is all of them, those to come too; required")
	cmd := &cobra.Command{
		Use: "token", Short: "Make tokens for a coordinator's API", Args: oneOfCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(create)
	return cmd
}
