package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/printable"
)

// askOptions are the flags of aerie ask: those of query, and its own.
type askOptions struct {
	queryOptions
	floor      float64
	floorGiven bool
	stream     bool
}

const askLong = `Finds what the corpus holds about a question, as aerie query does with the same options, and answers from that alone,
with numbered citations.

The chat model is that of summaries (summaries.provider openai, base_url, model, max_output_tokens); with the built-in provider the
answer quotes the corpus. Every sentence cites what was found, by the model or, where that names nothing, by aerie, which compares
their words; what nothing supports is said in one note. A citation says where to look, not that the sentence is true. If nothing relevant was found, that is the answer, and no model is asked: --min-similarity
is what the best hit must reach, unless the hits share most of the question's words.

TEXT - reads the question from stdin; with --output jsonl it reads one question a line and answers one a line.`

func (c *cli) askCommand() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:     "ask TEXT",
		Short:   "Answer a question from the corpus, with citations",
		Long:    askLong,
		Example: "  aerie ask \"How does a lease end?\"\n  aerie ask --summaries.provider openai --summaries.base_url http://127.0.0.1:11434/v1 --summaries.model qwen3 \"How does a lease end?\"",
		Args:    some("a question"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			if err := o.settle(f); err != nil {
				return err
			}
			o.floorGiven = f.Changed("min-similarity")
			if _, tty := terminal(c.out); tty && !f.Changed("stream") {
				o.stream = true
			}
			return c.ask(cmd.Context(), o, args)
		},
	}
	o.flags(cmd.Flags())
	keyflag.Add(cmd.Flags(), c.flags, askKeys, "summaries.max_output_tokens")
	return cmd
}

// askKeys are the sections that ask takes flags from.
var askKeys = append([]string{"summaries", "limits"}, queryKeys...)

func (o *askOptions) flags(f *pflag.FlagSet) {
	o.queryOptions.flags(f)
	f.Float64Var(&o.floor, "min-similarity", 0, fmt.Sprintf("least similarity of the best hit for an answer (default %v for the built-in vectors, %v for a model's)",
		answer.LexicalFloor, answer.ModelFloor))
	f.BoolVar(&o.stream, "stream", false, "print the answer while it is written (default on a terminal)")
}

func (c *cli) ask(ctx context.Context, o askOptions, args []string) error {
	if given, has := c.flags["summaries.prompt"]; has {
		return usagef("", "%s has no effect here: it is the prompt of summaries", given.Name)
	}
	if o.stream && c.output != "table" {
		return usagef("", "--stream is for people: with --output %s the answer comes in one piece", c.output)
	}
	if !(o.floor >= -1 && o.floor <= 1) {
		return usagef("", "--min-similarity is %v; it must be between -1 (none) and 1", o.floor)
	}
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	return c.eachQuestion(args, func(question string) error {
		q := api.Ask{Query: api.Query{Query: question, Options: o.Options}}
		if o.floorGiven {
			q.MinSimilarity = &o.floor
		}
		return c.answer(ctx, h, q, o.stream)
	})
}

// eachLine calls fn with every line that isn't blank.
func eachLine(in io.Reader, fn func(string) error) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if text := string(bytes.TrimSpace(line)); text != "" {
			if err := fn(text); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading questions from stdin: %w", err)
		}
	}
}

// answer asks, and prints the answer: as it comes if stream is set, else when it is complete.
func (c *cli) answer(ctx context.Context, h place, q api.Ask, stream bool) error {
	width, tty := terminal(c.out)
	if !tty {
		width = 0 // what a program reads isn't wrapped
	}
	out := &flow{w: c.out, width: min(width, 100)}
	var heard []string
	var on func(answer.Sentence)
	if stream {
		on = func(s answer.Sentence) {
			out.write(s.Gap + s.Text)
			heard = append(heard, s.Text)
		}
	}
	result, err := h.Ask(ctx, c.cfg.Corpus, q, on)
	if err != nil {
		if len(heard) > 0 {
			out.write("\n")
		}
		return err
	}
	if c.output != "table" {
		c.tellNotes(result.Notes)
		return c.printJSON(result)
	}
	if !same(heard, result.Sentences) {
		if len(heard) > 0 {
			out.write("\n\nThe text above proved to be the model's reasoning. Its answer:\n\n")
		}
		out.write(result.Text)
	}
	out.write("\n")
	c.tellNotes(result.Notes) // below a text that may have been written while it came
	c.showSources(out, result)
	return out.err
}

// same reports whether what was read while it was written is the answer.
func same(heard []string, sentences []answer.Sentence) bool {
	if len(heard) != len(sentences) || len(heard) == 0 {
		return false
	}
	for i, s := range sentences {
		if heard[i] != s.Text {
			return false
		}
	}
	return true
}

// showSources lists what the answer cites, and says how it came about.
func (c *cli) showSources(out *flow, r api.Answer) {
	var b strings.Builder
	width := 100
	if out.width > 0 {
		width = out.width
	}
	if len(r.Citations) > 0 {
		b.WriteString("\n")
	}
	for _, cite := range r.Citations {
		head := fmt.Sprintf("[%d] level %d  %s  ", cite.N, cite.Level, printable.Text(documentIn(cite.DocumentIDs, cite.Context)))
		fmt.Fprintf(&b, "%s%s\n", head, firstLine(printable.Text(r.Hits[cite.N-1].Text), width-len([]rune(head))))
	}
	fmt.Fprintf(&b, "\n%s, %s tokens of %s", plural(len(r.Hits), "hit", "hits"), count(r.Tokens), r.Corpus)
	cited := 0
	for _, s := range r.Sentences {
		if s.FromCorpus {
			cited++
		}
	}
	switch {
	case r.Abstained:
		fmt.Fprintf(&b, "; no answer, since %s", r.Why)
	case r.Quoted:
		b.WriteString("; quoted from the corpus, since no chat model is configured (summaries.provider is extractive)")
	default:
		fmt.Fprintf(&b, "; %d of %s from the corpus", cited, plural(len(r.Sentences), "sentence", "sentences"))
	}
	if r.Calls > 0 {
		fmt.Fprintf(&b, "; %s: %s, %s tokens in, %s out", r.Model, plural(r.Calls, "call", "calls"), count(r.InputTokens), count(r.OutputTokens))
	}
	if r.Cost != nil {
		fmt.Fprintf(&b, ", %.4f %s", r.Cost.Amount, r.Cost.Currency)
	}
	if r.CutOff {
		b.WriteString("; cut off at summaries.max_output_tokens")
	}
	b.WriteString("\n")
	if r.Explain != nil {
		showExplain(&b, r.Explain)
	}
	_, err := io.WriteString(out.w, b.String())
	out.err = errors.Join(out.err, err)
}

// flow writes a text that comes in pieces, wrapped at a width; 0 doesn't wrap.
type flow struct {
	w      io.Writer
	width  int
	column int
	err    error
}

func (f *flow) write(text string) {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		for _, word := range strings.SplitAfter(line, " ") {
			n := len([]rune(strings.TrimRight(word, " \n")))
			if f.width > 0 && n > 0 && f.column > 0 && f.column+n > f.width {
				b.WriteByte('\n')
				f.column = 0
			}
			b.WriteString(word)
			f.column += len([]rune(word))
		}
		if strings.HasSuffix(line, "\n") {
			f.column = 0
		}
	}
	if _, err := io.WriteString(f.w, b.String()); f.err == nil {
		f.err = err
	}
}
