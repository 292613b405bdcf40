package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/readers"
)

// ingestResult is the JSON of aerie ingest and aerie delete.
type ingestResult struct {
	api.IngestReport
	// Build is that of --build.
	Build *api.BuildReport `json:"build,omitempty"`
}

func (c *cli) ingestCommand() *cobra.Command {
	var vectors string
	var prune, build, verbose bool
	var reading corpus.Reading
	var around bool
	cmd := &cobra.Command{
		Use:     "ingest PATH...",
		Short:   "Bring files, folders or ready-made chunks into the corpus",
		Example: "  aerie ingest docs notes.txt\n  aerie ingest --prune docs\n  aerie ingest chunks.jsonl.zst --vectors chunks.npy\n  cat rows.jsonl | aerie ingest -",
		Long:    ingestLong(),
		Args:    some("at least one file or folder, or - for JSONL from stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reading.Check(); err != nil {
				return usagef("", "%w", err)
			}
			req := ingest.Request{Paths: args, Vectors: vectors, Prune: prune, Stdin: c.in, Reading: reading}
			if cmd.Flags().Changed("context") {
				req.Context = &around
			}
			return c.ingest(cmd.Context(), req, build, verbose)
		},
	}
	cmd.Flags().StringVar(&reading.Source, "source", "", "name of the source that the documents belong to, and what their ids begin with (default the folder or file that is named)")
	cmd.Flags().StringVar(&vectors, "vectors", "", "a .npy file with one vector for each row of JSONL, in order")
	cmd.Flags().BoolVar(&prune, "prune", false, "delete documents of the given folders, files or source that are gone")
	cmd.Flags().BoolVar(&build, "build", false, "then build, if the growth rule says so")
	cmd.Flags().StringSliceVar(&reading.Include, "include", nil, "pattern, as in .gitignore: files of a folder that are taken though their extension is unknown or an ignore file names them")
	cmd.Flags().StringSliceVar(&reading.Exclude, "exclude", nil, "pattern, as in .gitignore: files and folders that are left out")
	cmd.Flags().StringVar(&reading.As, "as", "", "reader of the files that are named, and of those found that have none by their extension")
	cmd.Flags().StringVar(&reading.Encoding, "encoding", "", "of texts that don't say theirs, such as windows-1252 (default UTF-8)")
	cmd.Flags().BoolVar(&around, "context", true, "headings and table heads around a leaf are found, embedded and shown with it (default as before, and in a new corpus yes)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "list every file that was left out, with the reason")
	keyflag.Add(cmd.Flags(), c.flags, allKeys, "chunking.tokens")
	return cmd
}

// ingestLong names every reader.
func ingestLong() string {
	var b strings.Builder
	b.WriteString("Brings files and folders in; - reads JSONL from stdin. What is there already is kept, what has changed is replaced. In folders,\n" +
		".gitignore and .aerieignore are obeyed, and names that start with a dot are passed over. Each file may be packed as .gz or .zst.\n\nReaders, for --as:\n")
	for _, r := range readers.All() {
		fmt.Fprintf(&b, "  %-10s %s (%s)\n", r.Name, r.About, shortList(r.Extensions))
	}
	b.WriteString("  jsonl      ready-made chunks: id, text, document_id, chunk_index, embedding, and any metadata (.jsonl, .ndjson)\n\n" +
		"The key readers of aerie.yaml names commands for other extensions, or in place of these.")
	return b.String()
}

func shortList(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d others", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (c *cli) ingest(ctx context.Context, req ingest.Request, build, verbose bool) error {
	h, err := c.openPlace("chunking.tokens", "readers")
	if err != nil {
		return err
	}
	defer h.close()
	req.Corpus = c.cfg.Corpus
	req.Reading.Commands = c.cfg.Readers
	if cache, err := os.UserCacheDir(); err == nil {
		req.Reading.Cache = filepath.Join(cache, "aerie")
	}
	report, err := h.IngestFiles(ctx, req)
	if err != nil {
		if report.Leaves.Added > 0 {
			c.note("stored before that: %s in %s; the same command goes on from there", plural(report.Leaves.Added, "leaf", "leaves"),
				plural(report.Documents.Added+report.Documents.Changed, "document", "documents"))
		}
		return err
	}
	result := ingestResult{IngestReport: report}
	if build {
		built, err := h.Run(ctx, c.cfg.Corpus, api.Start{BuildRequest: api.BuildRequest{Trigger: "growth"}})
		var e *api.Error
		if errors.As(err, &e) && e.Status == http.StatusNotFound && report.Leaves.Total == 0 { // nothing came in, and nothing was there
			built, err = api.NothingToDo(c.cfg.Corpus, "the corpus has no leaves"), nil
		}
		if err != nil {
			return err
		}
		result.Build = &built
	}
	if err := c.print(result, func(w io.Writer) {
		showIngest(w, result)
		if verbose {
			showSkipped(w, report.SkippedFiles)
		}
	}); err != nil {
		return err
	}
	if result.Build != nil {
		if err := c.outcome(ctx, *result.Build); err != nil {
			return err
		}
	}
	if report.LeftOut() {
		return leave(exitLeftOut)
	}
	return nil
}

// shownErrors is how many broken rows a table lists; JSON lists all that the report holds.
const shownErrors = 20

func showIngest(w io.Writer, r ingestResult) {
	d := r.Documents
	fmt.Fprintf(w, "%s: %s added, %s changed, %s unchanged, %s removed", r.Corpus, plural(d.Added, "document", "documents"),
		count(d.Changed), count(d.Unchanged), count(d.Removed))
	if d.Failed > 0 {
		fmt.Fprintf(w, ", %s failed", count(d.Failed))
	}
	fmt.Fprintf(w, "\n%s: %s added, %s removed, %s in all\n", r.Corpus, plural(r.Leaves.Added, "leaf", "leaves"),
		count(r.Leaves.Removed), count(r.Leaves.Total))
	if len(r.Skipped) > 0 {
		var all []string
		total := 0
		for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
			all = append(all, reason+": "+count(r.Skipped[reason]))
			total += r.Skipped[reason]
		}
		fmt.Fprintf(w, "skipped %s (%s); --verbose lists them\n", count(total), strings.Join(all, ", "))
	}
	for i, e := range r.Errors {
		if i == shownErrors {
			fmt.Fprintf(w, "and %s more; --output json lists all\n", count(len(r.Errors)-i))
			break
		}
		if e.Line > 0 {
			fmt.Fprintf(w, "left out, %s:%d: %s\n", e.Source, e.Line, e.Error)
		} else {
			fmt.Fprintf(w, "left out, %s: %s\n", e.Source, e.Error)
		}
	}
	for i, e := range r.Warnings {
		if i == shownErrors {
			fmt.Fprintf(w, "and %s more warnings; --output json lists all\n", count(len(r.Warnings)-i))
			break
		}
		fmt.Fprintf(w, "warning, %s: %s\n", e.Source, e.Error)
	}
	if r.Build != nil {
		fmt.Fprintln(w)
		showReport(w, *r.Build)
	}
}

func showSkipped(w io.Writer, files []api.SkippedFile) {
	for _, f := range files {
		fmt.Fprintf(w, "skipped, %s: %s\n", f.Reason, f.Source)
	}
}

// baseFolder is what ids of files are relative to: the working directory, or the folder above it that holds the home, if
// that is named .aerie: such a folder is a project's, and a file in it has one id from wherever it is named.
func baseFolder(home string) string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	if home, err = filepath.Abs(home); err != nil {
		return here
	}
	holder := filepath.Dir(home)
	if below, err := filepath.Rel(holder, here); err == nil && filepath.IsLocal(below) && filepath.Base(home) == ".aerie" {
		return holder
	}
	return here
}
