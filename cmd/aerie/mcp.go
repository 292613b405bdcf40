package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/mcp"
)

func (c *cli) mcpCommand() *cobra.Command {
	var allowAsk bool
	cmd := &cobra.Command{
		Use: "mcp", Short: "Let an agent read the corpus: the Model Context Protocol over stdin and stdout",
		Long: "Serves one agent over stdin and stdout until it hangs up: the tools search, fetch, outline and build_status, all read-only, with bounded\n" +
			"results. --allow-ask adds ask, which pays a model. A coordinator offers the same, without ask, at /mcp.",
		Example: `  {"mcpServers": {"aerie": {"command": "aerie", "args": ["mcp", "--home", "/path/to/.aerie"]}}}`,
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.mcp(cmd.Context(), allowAsk) },
	}
	cmd.Flags().BoolVar(&allowAsk, "allow-ask", false, "offer ask too, which pays a model for each answer")
	keyflag.Add(cmd.Flags(), c.flags, askKeys, "summaries.max_output_tokens")
	return cmd
}

func (c *cli) mcp(ctx context.Context, allowAsk bool) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	s := mcp.New(mcp.Config{
		Corpus: c.cfg.Corpus, Version: version, AllowAsk: allowAsk, Log: c.log,
		Explain: func(err error) string {
			f := judge(ctx, err)
			if f.hint == "" {
				return f.Error()
			}
			return f.Error() + "\n" + f.hint
		},
	}, h)
	err = s.RunStdio(ctx, c.in, bare(c.out))
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return leave(exitInterrupted)
	}
	return err
}
