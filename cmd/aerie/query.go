package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// queryOptions are the flags of aerie query as they are typed.
type queryOptions struct {
	req                retrieve.Request
	alpha              bool // --alpha was typed
	mode, pack, fusion string
	minLevel, maxLevel int
	where              []string
}

func (c *cli) queryCommand() *cobra.Command {
	o := queryOptions{req: retrieve.NewRequest("", "")}
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
			o.alpha = cmd.Flags().Changed("alpha")
			return c.query(cmd.Context(), o, args)
		},
	}
	o.flags(cmd.Flags())
	keyflag.Add(cmd.Flags(), c.flags, queryKeys)
	return cmd
}

func (o *queryOptions) flags(f *pflag.FlagSet) {
	r := &o.req
	f.IntVar(&r.Budget, "budget", r.Budget, "most tokens of all hits together; 0: no limit")
	f.IntVar(&r.TopK, "top-k", r.TopK, "most hits; 0: no limit")
	f.StringVar(&o.mode, "mode", string(r.Mode), oneOfWords(retrieve.Modes()))
	f.StringVar(&o.pack, "pack", string(r.Pack), "how the budget is filled: "+oneOfWords(retrieve.Packs()))
	f.IntVar(&o.minLevel, "min-level", 0, "lowest level of a hit; 0: leaves")
	f.IntVar(&o.maxLevel, "max-level", 0, "highest level of a hit (default no limit)")
	f.StringArrayVar(&r.Documents, "document", nil, "only hits of this document; may be given several times")
	f.StringArrayVar(&o.where, "where", nil, "only leaves with this metadata, KEY=VALUE; may be given several times")
	f.Float64Var(&r.Alpha, "alpha", r.Alpha, "weight of vectors against keywords, 0 to 1 (default 0.7 with --pack coverage, else 1)")
	f.Lookup("alpha").DefValue = "0" // not shown: it depends on the others
	f.StringVar(&o.fusion, "fusion", string(r.Fusion), "how the two become one score: "+oneOfWords(retrieve.Fusions()))
	f.Float64Var(&r.Boost, "boost", r.Boost, "mode boost: factor on summaries")
	f.IntVar(&r.Candidates, "candidates", r.Candidates, "mode boost: how many times as many nodes are fetched")
	f.IntVar(&r.PerLevel, "per-level", r.PerLevel, "mode traversal: nodes kept of each level")
	f.BoolVar(&r.LeavesOnly, "leaves-only", r.LeavesOnly, "mode traversal: leaves are the only hits")
	f.IntVar(&r.Pool, "pool", r.Pool, "nodes that are fetched before packing")
	f.Float64Var(&r.Sharpness, "sharpness", r.Sharpness, "pack coverage: how fast relevance falls")
	f.Float64Var(&r.Context, "context", r.Context, "pack coverage: how much relevant neighbors in its document lift a leaf")
	f.Float64Var(&r.SummaryWeight, "summary-weight", r.SummaryWeight, "pack coverage: factor on the relevance of summaries")
	f.BoolVar(&r.Stale, "stale", r.Stale, "summaries too whose text was deleted or replaced since the build")
	f.BoolVar(&r.Explain, "explain", r.Explain, "say what became of every candidate")
}

// settle makes a request of what was typed, and refuses an option that would have no effect.
func (o *queryOptions) settle(f *pflag.FlagSet) error {
	var given []string
	f.Visit(func(flag *pflag.Flag) { given = append(given, flag.Name) })
	o.req.Mode, o.req.Pack, o.req.Fusion = retrieve.Mode(o.mode), retrieve.Pack(o.pack), retrieve.Fusion(o.fusion)
	for _, name := range given {
		if mode, ok := api.ModeOf(strings.ReplaceAll(name, "-", "_")); ok && !f.Changed("mode") {
			o.req.Mode = mode
		}
	}
	for i, name := range given {
		given[i] = strings.ReplaceAll(name, "-", "_")
	}
	o.req.Settle(given...)
	if f.Changed("min-level") {
		o.req.MinLevel = &o.minLevel
	}
	if f.Changed("max-level") {
		o.req.MaxLevel = &o.maxLevel
	}
	for _, pair := range o.where {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return usagef("", "--where is %q; it must be KEY=VALUE", pair)
		}
		if o.req.Metadata == nil {
			o.req.Metadata = map[string]any{}
		}
		o.req.Metadata[key] = scalar(value)
	}
	check := o.req
	check.Corpus, check.Query = "any", "any"
	if err := check.Validate(); err != nil {
		return err
	}
	for _, name := range o.req.Unused(given...) {
		return usagef("", "--%s has no effect with --mode %s --pack %s --alpha %v; leave it out or choose another",
			strings.ReplaceAll(name, "_", "-"), o.req.Mode, o.req.Pack, o.req.Alpha)
	}
	return nil
}

// scalar reads a value as JSON has it, and anything else as a text.
func scalar(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		switch v.(type) {
		case string, float64, bool:
			return v
		}
	}
	return text
}

func oneOfWords[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return strings.Join(list, " | ")
}

func (c *cli) query(ctx context.Context, o queryOptions, args []string) error {
	req := o.req
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	one := func(question string) error {
		req.Query = question
		return c.queryOne(ctx, h, api.QueryOf(req, o.alpha))
	}
	return c.eachQuestion(args, one)
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
	bold := c.colored(c.out)
	for i, h := range r.Hits {
		head := fmt.Sprintf("%d. level %d", i+1, h.Level)
		if h.Level > 0 {
			head += fmt.Sprintf(", summary of %s", plural(h.NSources, "leaf", "leaves"))
		}
		fmt.Fprintf(w, "%s  score %.3f  %s  %s\n", paint(bold, "1", head), h.Score, plural(h.Tokens, "token", "tokens"), documentList(h.DocumentIDs))
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
