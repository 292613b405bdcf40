package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
)

// queryOptions are the flags of aerie query: those that were typed.
type queryOptions struct {
	retrieve.Options
	where []string
}

func (c *cli) queryCommand() *cobra.Command {
	var o queryOptions
	cmd := &cobra.Command{
		Use:     "query TEXT",
		Short:   "Find the nodes of all levels that answer a question best, up to a budget of tokens",
		Example: "  aerie query \"How does a lease end?\"\n  aerie query --budget 500 --top-k 5 --output json \"How does a lease end?\"\n  aerie query --output jsonl - < questions.txt",
		Long:    "TEXT - reads the question from stdin; with --output jsonl it reads one question a line and answers one a line.",
		Args:    some("a question"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.settle(cmd.Flags()); err != nil {
				return err
			}
			return c.query(cmd.Context(), o, args)
		},
	}
	o.flags(cmd.Flags())
	keyflag.Add(cmd.Flags(), c.flags, queryKeys)
	return cmd
}

func (o *queryOptions) flags(f *pflag.FlagSet) {
	d := retrieve.Defaults()
	f.Int("budget", *d.Budget, "most tokens of all hits together; 0: no limit")
	f.Int("top-k", *d.TopK, "most hits; 0: no limit")
	f.String("mode", string(*d.Mode), oneOfWords(retrieve.Modes()))
	f.String("pack", string(*d.Pack), "how the budget is filled: "+oneOfWords(retrieve.Packs()))
	f.Int("min-level", 0, "lowest level of a hit; 0: leaves")
	f.Int("max-level", 0, "highest level of a hit (default no limit)")
	f.StringArrayVar(&o.Documents, "document", nil, "only hits of this document; may be given several times")
	f.StringArrayVar(&o.where, "where", nil, "only leaves with this metadata: KEY=VALUE, also != < <= > >=, \"KEY in A,B\", \"KEY exists\"; may be given several times")
	f.Float64("alpha", 0, "weight of vectors against keywords, 0 to 1 (default 0.7 with --pack coverage, else 1)")
	f.String("fusion", string(*d.Fusion), "how the two become one score: "+oneOfWords(retrieve.Fusions()))
	f.Float64("boost", *d.Boost, "mode boost: factor on summaries")
	f.Float64("candidates", *d.Candidates, "mode boost: how many times as many nodes are fetched, such as 1.5")
	f.Int("per-level", *d.PerLevel, "mode traversal: nodes kept of each level")
	f.Bool("leaves-only", *d.LeavesOnly, "mode traversal: leaves are the only hits")
	f.Int("pool", *d.Pool, "nodes that are fetched before packing")
	f.String("hops", string(*d.Hops), "1: only what resembles the query | 2: also what the first hits point to by names and rare terms | auto: 2 if the query names something")
	f.Float64("sharpness", *d.Sharpness, "pack coverage: how fast relevance falls")
	f.Float64("context", *d.Context, "pack coverage: how much relevant neighbors in its document lift a leaf")
	f.Float64("summary-weight", *d.SummaryWeight, "pack coverage: factor on the relevance of summaries")
	f.Bool("parents", *d.Parents, "a summary in the place of hits that are at least half of its children")
	f.Float64("overview", 0, "share of the budget for upper levels alone, 0 to 1 (default 0.5 for a question about the whole, else 0)")
	f.Bool("stale", *d.Stale, "summaries too whose text was deleted or replaced since the build")
	f.Bool("explain", *d.Explain, "say what became of every candidate")
}

// settle takes the options that were typed, and refuses one that would have no effect.
func (o *queryOptions) settle(f *pflag.FlagSet) error {
	for _, name := range retrieve.Names() {
		if flag := f.Lookup(strings.ReplaceAll(name, "_", "-")); flag.Changed {
			if err := o.Set(name, flag.Value.String()); err != nil {
				return usagef("", "--%w", err)
			}
		}
	}
	for _, text := range o.where {
		w, err := store.ParseWhere(text)
		if err != nil {
			return usagef("", "--where %w", err)
		}
		o.Where = append(o.Where, w)
	}
	_, err := retrieve.Request{Corpus: "any", Query: "any", Options: o.Options}.Settled()
	var unused *retrieve.UnusedError
	if errors.As(err, &unused) {
		return usagef("", "--%s has no effect with --mode %s --pack %s --alpha %v; leave it out or choose another",
			strings.ReplaceAll(unused.Option, "_", "-"), unused.Mode, unused.Pack, unused.Alpha)
	}
	return err
}

func oneOfWords[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return strings.Join(list, " | ")
}

func (c *cli) query(ctx context.Context, o queryOptions, args []string) error {
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	return c.eachQuestion(args, func(question string) error {
		return c.queryOne(ctx, h, api.Query{Query: question, Options: o.Options})
	})
}

// eachQuestion calls fn with the question that was typed, or with what stands on stdin: one question, or with jsonl one a line.
func (c *cli) eachQuestion(args []string, fn func(string) error) error {
	switch {
	case len(args) != 1 || args[0] != "-":
		return fn(strings.Join(args, " "))
	case c.output == "jsonl":
		return eachLine(c.in, fn)
	}
	text, err := io.ReadAll(c.in)
	if err != nil {
		return fmt.Errorf("reading the question from stdin: %w", err)
	}
	return fn(strings.TrimSpace(string(text)))
}

func (c *cli) queryOne(ctx context.Context, h place, q api.Query) error {
	result, err := h.Query(ctx, c.cfg.Corpus, q)
	if err != nil {
		return err
	}
	c.tellNotes(result.Notes)
	return c.print(result, func(w io.Writer) {
		c.showHits(w, result)
		if result.Explain != nil {
			showExplain(w, result.Explain)
		}
	})
}

// showExplain lists what became of every candidate.
func showExplain(w io.Writer, e *retrieve.Explain) {
	fmt.Fprintf(w, "\n%s fetched, %d of them lifted by the boost\n", plural(e.Fetched, "node", "nodes"), e.Lifted)
	rows := [][]string{{"rank", "level", "score", "tokens", "fate", "node", "why"}}
	for _, x := range e.Candidates {
		rows = append(rows, []string{count(x.Rank), count(x.Level), fmt.Sprintf("%.4f", x.Score), count(x.Tokens), string(x.Fate), x.ID.String(), x.Why})
	}
	table(w, rows)
}

// tellNotes tells people what they might not expect of a result: in lines, or where programs read stderr, in the log.
func (c *cli) tellNotes(notes []string) {
	for _, note := range notes {
		if c.output == "table" {
			c.note("note: %s", note)
		} else {
			c.log.Warn(note)
		}
	}
}

func (c *cli) showHits(w io.Writer, r retrieve.Result) {
	width, ok := terminal(c.out)
	if !ok || width > 100 {
		width = 100
	}
	colored := c.colored(c.out)
	for i, h := range r.Hits {
		head := fmt.Sprintf("%d. level %d", i+1, h.Level)
		if h.Level > 0 {
			head += fmt.Sprintf(", summary of %s", plural(h.NSources, "leaf", "leaves"))
		}
		fmt.Fprintf(w, "%s  score %.3f  %s  %s\n", bold(colored, head), h.Score, plural(h.Tokens, "token", "tokens"), documentIn(h.DocumentIDs, h.Context))
		fmt.Fprintf(w, "%s\n\n", wrap(printable.Text(h.Text), width, "   "))
	}
	fmt.Fprintf(w, "%s, %s tokens of %s; %s, packed by %s, generation %d\n", plural(len(r.Hits), "hit", "hits"), count(r.Tokens), r.Corpus, r.Mode, r.Pack, r.Generation)
}

// documentList names a few documents.
func documentList(ids []string) string {
	const most = 3
	shown := printable.Text(strings.Join(ids[:min(most, len(ids))], ", "))
	if len(ids) > most {
		shown += fmt.Sprintf(" and %s more", count(len(ids)-most))
	}
	return shown
}

// documentIn is documentList, with what a leaf stands under in its document.
func documentIn(ids []string, context string) string {
	if context == "" {
		return documentList(ids)
	}
	return documentList(ids) + ", " + printable.Text(context)
}

// wrap breaks a text at white space into lines of a width, each with an indent. A word that is longer stays whole.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
