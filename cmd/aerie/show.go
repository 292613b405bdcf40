package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/tree"
)

func (c *cli) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one leaf or summary: its text, parents, children and neighbors",
		Example: "  aerie show L2-0f3c9a51\n  aerie show 5d1c0a --output json",
		Args:    one("the id of a node, the beginning of one, or a cluster id"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.showOne(cmd.Context(), args[0]) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) showOne(ctx context.Context, name string) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	shown, err := h.Show(ctx, c.cfg.Corpus, name)
	if err != nil {
		return err
	}
	texts := map[tree.ID]string{}
	if c.output == "table" {
		around := append(append([]tree.ID{}, shown.ParentIDs...), shown.ChildIDs...)
		if texts, err = h.Texts(ctx, c.cfg.Corpus, append(around, shown.Previous, shown.Following)); err != nil {
			return err
		}
	}
	return c.print(shown, func(w io.Writer) { c.showNode(w, shown, texts) })
}

// mostBeside is how many parents and children are shown; JSON has all.
const mostBeside = 20

func (c *cli) showNode(w io.Writer, s api.Shown, texts map[tree.ID]string) {
	if s.Level == 0 {
		fmt.Fprintf(w, "leaf %s, number %d of %s, %s\n", s.ID, s.ChunkIndex+1, s.DocumentID, plural(s.Tokens, "token", "tokens"))
	} else {
		fmt.Fprintf(w, "summary %s (%s), level %d, of %s in %s, %s\n", s.ID, s.ClusterID, s.Level, plural(s.NLeaves, "leaf", "leaves"),
			plural(len(s.DocumentIDs), "document", "documents"), plural(s.Tokens, "token", "tokens"))
	}
	if s.Carried {
		fmt.Fprintf(w, "carried: the text was made for %s\n", s.Author)
	}
	if s.UnseenTokens > 0 {
		fmt.Fprintf(w, "not seen: %s of the leaves under it\n", plural(s.UnseenTokens, "token", "tokens"))
	}
	if s.Context != "" {
		fmt.Fprintf(w, "under: %s\n", s.Context)
	}
	fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(s.Text))
	width := 110
	if columns, ok := terminal(c.out); ok {
		width = columns
	}
	list := func(title string, ids ...tree.ID) {
		if len(ids) == 0 || ids[0].IsZero() {
			return
		}
		fmt.Fprintf(w, "\n%s:\n", title)
		for i, id := range ids {
			if i == mostBeside {
				fmt.Fprintf(w, "  and %d more\n", len(ids)-i)
				return
			}
			fmt.Fprintf(w, "  %.8s  %s\n", id, firstLine(texts[id], width-12))
		}
	}
	list("parents", s.ParentIDs...)
	list("children", s.ChildIDs...)
	list("before it", s.Previous)
	list("after it", s.Following)
}
