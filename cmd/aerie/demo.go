package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// demoQuestions are asked of the documentation of Go's standard library. The built-in embedder knows words, not
// meanings, so they use the words of that field.
var demoQuestions = []string{
	"How do I shut down an HTTP server gracefully, without interrupting active connections?",
	"How do I walk all files in a directory tree, and in which order are they visited?",
	"Which packages compress data, and in which formats?",
}

// demoResult is the JSON of aerie demo.
type demoResult struct {
	Home    string            `json:"home"`
	Ingest  api.IngestReport  `json:"ingest"`
	Build   api.BuildReport   `json:"build"`
	Queries []retrieve.Result `json:"queries"`
	Seconds float64           `json:"seconds"`
}

func (c *cli) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Do the main job on real text: the documentation of Go's standard library",
		Long: "Takes the documentation that ships with the Go toolchain, builds a tree with the built-in providers, prints it and\n" +
			"asks it three questions. The home is a new temporary folder unless --home names one.",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named := cmd.Flags().Changed("home") || c.lookupEnv(globalEnv("home")) != ""
			return c.demo(cmd.Context(), named)
		},
	}
	keyflag.Add(cmd.Flags(), c.flags, allKeys)
	return cmd
}

func (c *cli) demo(ctx context.Context, named bool) error {
	start := time.Now()
	if err := c.load(); err != nil {
		return err
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return failf(exitUnreachable, "install Go from https://go.dev/dl, or use text of your own: aerie ingest FOLDER",
			"the demo takes its text from the Go toolchain, and there is no go command on this machine")
	}
	if !named {
		if c.home, err = os.MkdirTemp("", "aerie-demo-"); err != nil {
			return err
		}
	}
	texts, err := filepath.Abs(filepath.Join(c.home, "documents"))
	if err != nil {
		return err
	}
	c.step("Reading the documentation of Go's standard library with %s doc", tool)
	if err := writeGoDocs(ctx, tool, texts); err != nil {
		return err
	}
	h, err := c.openAt(texts)
	if err != nil {
		return err
	}
	defer h.close()
	result := demoResult{Home: c.home, Queries: []retrieve.Result{}}
	c.step("\n$ aerie ingest documents")
	if result.Ingest, err = h.IngestFiles(ctx, ingest.Request{Corpus: c.cfg.Corpus, Paths: []string{texts}}); err != nil {
		return err
	}
	c.show(func(w io.Writer) { showIngest(w, ingestResult{IngestReport: result.Ingest}) })
	c.step("\n$ aerie build")
	if result.Build, err = h.Run(ctx, c.cfg.Corpus, api.Start{}); err != nil {
		return err
	}
	c.show(func(w io.Writer) { showReport(w, result.Build) })
	if err := c.outcome(ctx, result.Build); err != nil {
		return err
	}
	if err := c.demoAsk(ctx, h, &result); err != nil {
		return err
	}
	result.Seconds = time.Since(start).Seconds()
	if c.output != "table" {
		return c.printJSON(result)
	}
	c.show(func(w io.Writer) {
		fmt.Fprintf(w, "\nAll of this took %s, on this machine, with no server, no network and no model: summaries are chosen\n"+
			"sentences and vectors know words, not meanings. aerie init writes an aerie.yaml in which models are named.\n\n"+
			"Go on with\n"+
			"  aerie --home %[2]s query \"your question\"\n"+
			"  aerie --home %[2]s tree --depth 3\n"+
			"  aerie --home %[2]s status\n"+
			"  aerie ingest FOLDER && aerie build        # text of your own, in ./.aerie\n", seconds(result.Seconds), c.home)
	})
	return nil
}

// demoAsk prints the tree and asks the questions.
func (c *cli) demoAsk(ctx context.Context, h *home, result *demoResult) error {
	if c.output == "table" {
		c.step("\n$ aerie tree --depth 2 --limit 4")
		if err := c.outline(ctx, h, treeOptions{depth: 2, limit: 4}); err != nil {
			return err
		}
	}
	for _, question := range demoQuestions {
		q := api.Query{Query: question, Options: retrieve.Options{Budget: new(400), TopK: new(3), Alpha: new(1.0)}}
		found, err := h.Query(ctx, c.cfg.Corpus, q)
		if err != nil {
			return err
		}
		result.Queries = append(result.Queries, found)
		c.step("\n$ aerie query --budget %d --top-k %d %q", *q.Budget, *q.TopK, question)
		c.show(func(w io.Writer) { c.showHits(w, found) })
	}
	return nil
}

// step says what the demo does next; in JSON only its result is printed.
func (c *cli) step(format string, args ...any) {
	c.show(func(w io.Writer) { fmt.Fprintf(w, "%s\n", bold(c.colored(c.out), fmt.Sprintf(format, args...))) })
}

func (c *cli) show(write func(io.Writer)) {
	if c.output == "table" {
		write(c.out)
	}
}

// notPublic matches packages that nobody outside of the standard library can import.
var notPublic = regexp.MustCompile(`(^|/)(internal|vendor)(/|$)`)

// writeGoDocs writes the documentation of each package of the standard library to a file of its own. Files that are
// there are kept, so that a second demo in the same home finds its documents unchanged.
func writeGoDocs(ctx context.Context, tool, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	list, err := runGo(ctx, tool, "list", "std")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, name := range strings.Fields(string(list)) {
		path := filepath.Join(dir, filepath.FromSlash(name)+".txt")
		if notPublic.MatchString(name) || exists(path) {
			continue
		}
		group.Go(func() error {
			text, err := runGo(ctx, tool, "doc", "-all", name)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return writeFile(path, func(w io.Writer) error { _, err := w.Write(text); return err })
		})
	}
	return group.Wait()
}

// runGo runs the go command with nothing around it that could make it reach for the network or another toolchain.
func runGo(ctx context.Context, tool string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = os.TempDir() // in the folder of the texts, names of packages would be taken for its subfolders
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var gone *exec.ExitError
	if errors.As(err, &gone) {
		return nil, failf(exitFailed, "", "go %s failed: %s", strings.Join(args, " "), firstLine(stderr.String(), 300))
	}
	return out, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
