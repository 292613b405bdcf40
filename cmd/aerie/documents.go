package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/printable"
)

// documentsResult is the JSON of aerie documents.
type documentsResult struct {
	Corpus    string         `json:"corpus"`
	Documents []api.Document `json:"documents"`
	// Next is what goes on after the last one; "" if that was all.
	Next string `json:"next"`
}

// selection says which documents are meant.
type selection struct {
	prefix, source string
}

func (c *cli) documentsCommand() *cobra.Command {
	var s selection
	var limit int
	cmd := &cobra.Command{
		Use:     "documents [PREFIX]",
		Short:   "List documents: source, leaves, tokens, state and time",
		Example: "  aerie documents\n  aerie documents docs/ --limit 0 -o jsonl\n  aerie documents --source handbook",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.prefix = args[0]
			}
			if limit < 0 {
				return usagef("", "--limit is %d; it must be 0 (all) or more", limit)
			}
			return c.documents(cmd.Context(), s, limit)
		},
	}
	cmd.Flags().StringVar(&s.source, "source", "", "only documents of this source: a name, or the folder or file that was ingested")
	cmd.Flags().IntVar(&limit, "limit", 1000, "most documents; 0: all")
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

// documentsAtOnce is how many documents are listed, or removed, in one call.
const documentsAtOnce = 1000

// eachDocument calls fn with the documents that are meant, by id, until it returns false, and says where to go on.
func eachDocument(ctx context.Context, h documents, corpus string, s selection, most int, fn func(api.Document)) (next string, err error) {
	req := api.DocumentsRequest{Corpus: corpus, Prefix: s.prefix, Source: s.source}
	for left := most; ; {
		if req.Limit = documentsAtOnce; most > 0 {
			req.Limit = min(req.Limit, left)
		}
		page, err := h.Documents(ctx, req)
		if err != nil {
			return "", err
		}
		for _, d := range page.Documents {
			fn(d)
		}
		left -= len(page.Documents)
		if page.NextCursor == "" || most > 0 && left <= 0 {
			return page.NextCursor, nil
		}
		req.Cursor = page.NextCursor
	}
}

func (c *cli) documents(ctx context.Context, s selection, limit int) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	result := documentsResult{Corpus: c.cfg.Corpus, Documents: []api.Document{}}
	result.Next, err = eachDocument(ctx, h, c.cfg.Corpus, s, limit, func(d api.Document) { result.Documents = append(result.Documents, d) })
	if err != nil {
		return err
	}
	if c.output == "jsonl" {
		for _, d := range result.Documents {
			if err := c.print(d, nil); err != nil {
				return err
			}
		}
		return nil
	}
	return c.print(result, func(w io.Writer) { showDocuments(w, result) })
}

func showDocuments(w io.Writer, r documentsResult) {
	rows := [][]string{{"id", "source", "leaves", "tokens", "state", "updated"}}
	for _, d := range r.Documents {
		updated := ""
		if !d.Updated.IsZero() {
			updated = d.Updated.Local().Format("2006-01-02 15:04")
		}
		rows = append(rows, []string{printable.Text(d.ID), printable.Text(cmp.Or(d.Source, "-")), count(d.Leaves), count(d.Tokens), d.State, cmp.Or(updated, "-")})
	}
	table(w, rows)
	if r.Next != "" {
		fmt.Fprintf(w, "and more; --limit 0 lists all\n")
	}
}

func (c *cli) deleteCommand() *cobra.Command {
	var all, yes bool
	var s selection
	cmd := &cobra.Command{
		Use:   "delete DOCUMENT...",
		Short: "Remove documents from the corpus, or with --all the corpus",
		RunE: func(cmd *cobra.Command, args []string) error {
			selected := s != selection{}
			switch {
			case all && (len(args) > 0 || selected):
				return usagef("", "aerie delete takes documents or --all, not both")
			case selected && len(args) > 0:
				return usagef("", "aerie delete takes documents, or --prefix and --source, not both")
			case !all && !selected && len(args) == 0:
				return usagef("aerie delete --all --yes removes the corpus", "aerie delete needs at least one document id, --prefix or --source")
			case yes && !all:
				return usagef("", "--yes goes with --all; documents are removed without it")
			}
			return c.delete(cmd.Context(), args, s, all, yes)
		},
	}
	cmd.Flags().StringVar(&s.prefix, "prefix", "", "remove the documents whose ids start with this")
	cmd.Flags().StringVar(&s.source, "source", "", "remove the documents of this source, as the list of documents shows it")
	cmd.Flags().BoolVar(&all, "all", false, "remove the whole corpus")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm --all")
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) delete(ctx context.Context, documents []string, s selection, all, yes bool) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	if all && !yes {
		return usagef("add --yes to do it", "aerie delete --all removes the corpus %q with all it holds", c.cfg.Corpus)
	}
	var report api.IngestReport
	switch {
	case all:
		report, err = h.DeleteCorpus(ctx, c.cfg.Corpus)
	case s != selection{}:
		report, err = c.deleteSelected(ctx, h, s)
	default:
		report, err = h.Delete(ctx, c.cfg.Corpus, documents)
	}
	if err != nil && !errors.Is(err, api.ErrUnknown) {
		return err
	}
	if err != nil && report.Documents.Removed == 0 {
		return failf(exitFailed, "nothing was removed", "%w", err)
	}
	if perr := c.print(ingestResult{IngestReport: report}, func(w io.Writer) { showIngest(w, ingestResult{IngestReport: report}) }); perr != nil {
		return perr
	}
	return err
}

// deleteSelected removes the documents that are meant.
func (c *cli) deleteSelected(ctx context.Context, h documents, s selection) (api.IngestReport, error) {
	var ids []string
	if _, err := eachDocument(ctx, h, c.cfg.Corpus, s, 0, func(d api.Document) { ids = append(ids, d.ID) }); err != nil {
		return api.IngestReport{}, err
	}
	if len(ids) == 0 {
		return api.IngestReport{}, failf(exitFailed, "aerie documents lists what is there, with sources", "no document of corpus %s is meant by %s", c.cfg.Corpus, s)
	}
	var all api.IngestReport
	for part := range slices.Chunk(ids, documentsAtOnce) {
		report, err := h.Delete(ctx, c.cfg.Corpus, part)
		report.Documents.Removed += all.Documents.Removed
		report.Leaves.Removed += all.Leaves.Removed
		all = report
		if err != nil && !errors.Is(err, api.ErrUnknown) { // unknown: somebody else has removed it
			return all, err
		}
	}
	return all, nil
}

// String says what is meant as it was typed.
func (s selection) String() string {
	switch {
	case s.source == "":
		return fmt.Sprintf("--prefix %q", s.prefix)
	case s.prefix == "":
		return fmt.Sprintf("--source %q", s.source)
	}
	return fmt.Sprintf("--prefix %q --source %q", s.prefix, s.source)
}
