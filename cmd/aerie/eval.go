package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/printable"
)

// evalOptions are the flags of aerie eval.
type evalOptions struct {
	cfg     evaluate.Config
	arms    []string
	file    string
	budgets []string
	vectors string
	svg     string
	metric  string
	ask     bool
	pin     string
}

// evalResult is the JSON of aerie eval: the report, and what else it takes to get the same one again.
type evalResult struct {
	*evaluate.Report
	Version string `json:"version"`
	// Settings is the configuration by key, secrets left out.
	Settings map[string]string `json:"settings"`
	// Embedder made the vectors of the questions; empty when they were brought along, or no arm has use for them.
	Embedder string `json:"embedder"`
	// Vectors are those that were brought along.
	Vectors *evalVectors `json:"vectors"`
	Seconds float64      `json:"seconds"`
}

type evalVectors struct {
	File string `json:"file"`
	// Hash is the beginning of the SHA-256 of the file.
	Hash string `json:"hash"`
}

// evalScore is a line of jsonl: what one arm made of one question. A metric that the question gives no ground for is null.
type evalScore struct {
	Question  string   `json:"question"` // its id, or its number
	Type      string   `json:"type"`
	Group     string   `json:"group"`
	Arm       string   `json:"arm"`
	Coverage  *float64 `json:"coverage"`
	Answered  *float64 `json:"answered"`
	Recall    *float64 `json:"evidence_recall"`
	NDCG      *float64 `json:"ndcg"`
	Summaries *float64 `json:"summaries"`
	Tokens    int      `json:"tokens"`
	Hits      int      `json:"hits"`
	MS        *float64 `json:"ms"` // null where the answer shares what was found for another budget
}

const evalLong = `Asks every question of a JSONL file through every arm, scores the hits, and tests which arms differ by more than chance.

A question is a line with question and answer, and if you like id, type, and evidence: a list of leaves (ids, or
DOCUMENT#CHUNK with chunks from 0) or of passages. An arm is a set of options of aerie query with a name:

  --arm "wide: mode=boost boost=1.5 pack=similarity" --arm "old tree: corpus=other" --arm leaf/similarity

A question whose answer is a list counts any of them as right; one whose answer is null has none in the corpus. With --ask every
arm answers, as aerie ask does, and the answers are scored by rules: exact, contains, F1 of words; and whether an arm rightly or
wrongly says that there is no answer. A question that fails is counted, and the run goes on. --pin FILE keeps the results; a later
run whose results differ fails, and names what differs.

The last is one of the standard arms, all of which are run if none is named. A YAML file lists arms with the same
options: {arms: [{name: wide, mode: boost, boost: 1.5}, leaf/similarity]}. The first arm is the baseline unless --baseline
names another. With --output jsonl the scores of every question are printed, one question and arm a line.`

func (c *cli) evalCommand() *cobra.Command {
	o := evalOptions{cfg: evaluate.NewConfig()}
	cmd := &cobra.Command{
		Use:   "eval QUESTIONS.jsonl",
		Short: "Measure what ways to query are worth, on questions with answers",
		Long:  evalLong,
		Example: "  aerie eval questions.jsonl --budget 500,2000 --out-svg arms.svg\n" +
			"  aerie eval questions.jsonl --arm leaf/similarity --arm \"mine: alpha=.7 max_level=2\" --output json",
		Args: one("one file of questions"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.ask && !cmd.Flags().Changed("budget") {
				o.budgets = []string{"2000"}
			}
			return c.eval(cmd.Context(), o, args[0])
		},
	}
	o.flags(cmd.Flags())
	keyflag.Add(cmd.Flags(), c.flags, askKeys)
	return cmd
}

func (o *evalOptions) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.arms, "arm", nil, `an arm, "NAME: OPTION=VALUE …" or the name of a standard one; may be given several times`)
	f.StringVar(&o.file, "arms", "", "a YAML file with arms")
	f.StringVar(&o.cfg.Baseline, "baseline", "", "the arm that all others are tested against (default the first)")
	f.StringSliceVar(&o.budgets, "budget", []string{"250", "500", "1000", "2000"}, "tokens of all hits together; each arm is run with each budget")
	f.BoolVar(&o.ask, "ask", false, "let every arm answer each question, and score the answers; the budget is 2000 unless given")
	f.StringVar(&o.pin, "pin", "", "a file of results: written if it isn't there, else the run fails if its results differ")
	f.StringVar(&o.vectors, "vectors", "", "a .npy file with the vector of each question, row for row; no embedder is asked then")
	f.StringVar(&o.svg, "out-svg", "", "draw the arms with their intervals into this file")
	f.StringVar(&o.metric, "plot", string(evaluate.Coverage), "what --out-svg draws: "+oneOfWords(evaluate.Metrics()))
	f.Uint64Var(&o.cfg.Seed, "seed", o.cfg.Seed, "seed of the tests' random numbers")
	f.IntVar(&o.cfg.Resamples, "resamples", o.cfg.Resamples, "most draws of a permutation test")
	f.Float64Var(&o.cfg.Confidence, "confidence", o.cfg.Confidence, "of the intervals, between 0 and 1")
	f.Float64Var(&o.cfg.Threshold, "threshold", o.cfg.Threshold, "coverage from which a question counts as answered")
}

// eval checks all that was typed, asks, and prints.
func (c *cli) eval(ctx context.Context, o evalOptions, path string) error {
	start := time.Now()
	specs, err := o.specs()
	if err != nil {
		return err
	}
	budgets, err := o.parseBudgets()
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := c.load(); err != nil {
		return err
	}
	arms, err := o.makeArms(specs, c.cfg.Corpus)
	if err != nil {
		return err
	}
	questions, bad, err := c.readQuestions(path)
	if err != nil {
		return err
	}
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	searcher, err := c.evalSearcher(ctx, h, o.vectors, questions, arms)
	if err != nil {
		return err
	}
	defer searcher.close()
	if o.ask {
		if err := c.evalAnswers(ctx, o, searcher, questions, evaluate.Grid(arms, budgets...)); err != nil {
			return err
		}
		return bad
	}
	report, err := c.runEval(ctx, h, o.cfg, searcher, questions, evaluate.Grid(arms, budgets...))
	if err != nil {
		return err
	}
	scores := scoresOf(report, questions)
	if o.svg != "" {
		err := writeFile(o.svg, func(w io.Writer) error { return report.WritePlot(w, evaluate.Metric(o.metric)) })
		if err != nil {
			return err
		}
	}
	if c.output == "jsonl" {
		for _, line := range scores {
			if err := c.printJSON(line); err != nil {
				return err
			}
		}
		return errors.Join(c.pinned(o.pin, pinsOfScores(scores)), bad)
	}
	result := evalResult{
		Report: report, Version: readBuildInfo().Version, Settings: c.cfg.Map(), Embedder: searcher.embedderName(), Vectors: searcher.pinned,
		Seconds: time.Since(start).Seconds(),
	}
	var table strings.Builder
	if err := report.WriteTable(&table); err != nil {
		return err
	}
	if err := c.print(result, func(w io.Writer) { io.WriteString(w, printable.Text(table.String())) }); err != nil {
		return err
	}
	return errors.Join(c.pinned(o.pin, pinsOfScores(scores)), bad)
}

// specs are the arms as they were written, those of the file first; none stands for the standard ones.
func (o *evalOptions) specs() ([]armSpec, error) {
	var specs []armSpec
	if o.file != "" {
		var err error
		if specs, err = armsFromFile(o.file); err != nil {
			return nil, err
		}
	}
	for _, text := range o.arms {
		spec, err := armFromFlag(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	for i, spec := range specs {
		if j := slices.IndexFunc(specs[:i], func(s armSpec) bool { return s.name == spec.name }); j >= 0 {
			return nil, usagef("", "%s: an arm is named %q already (%s)", spec.where, spec.name, specs[j].where)
		}
	}
	return specs, nil
}

func (o *evalOptions) makeArms(specs []armSpec, corpus string) ([]evaluate.Arm, error) {
	arms := evaluate.StandardArms(corpus)
	if len(specs) > 0 {
		standard := arms
		arms = nil
		for _, spec := range specs {
			arm, err := spec.arm(corpus, standard)
			if err != nil {
				return nil, err
			}
			arms = append(arms, arm)
		}
	}
	var names []string
	for _, arm := range arms {
		names = append(names, arm.Name)
	}
	if o.cfg.Baseline != "" && !slices.Contains(names, o.cfg.Baseline) {
		return nil, usagef("", "--baseline %q is not one of the arms; did you mean %q?", o.cfg.Baseline, config.Nearest(o.cfg.Baseline, names))
	}
	return arms, nil
}

func (o *evalOptions) parseBudgets() ([]int, error) {
	var budgets []int
	for _, text := range o.budgets {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		switch {
		case err != nil || n < 1:
			return nil, usagef("", "--budget is %q; it must be whole numbers of at least 1, such as 500,2000", text)
		case slices.Contains(budgets, n):
			return nil, usagef("", "--budget names %d twice", n)
		}
		budgets = append(budgets, n)
	}
	if len(budgets) == 0 {
		return nil, usagef("", "--budget is empty; it must be whole numbers of at least 1, such as 500,2000")
	}
	return budgets, nil
}

// check refuses what would fail only after all questions were asked.
func (o *evalOptions) check() error {
	if err := o.cfg.Validate(); err != nil {
		return usagef("", "%w", err)
	}
	if !slices.Contains(evaluate.Metrics(), evaluate.Metric(o.metric)) {
		valid := strings.Split(oneOfWords(evaluate.Metrics()), " | ")
		return usagef("", "--plot is %q; it must be one of %s; did you mean %s?", o.metric, strings.Join(valid, ", "), config.Nearest(o.metric, valid))
	}
	if o.svg == "" {
		return nil
	}
	if err := writeFile(o.svg, func(io.Writer) error { return errTrial }); !errors.Is(err, errTrial) {
		return usagef("", "--out-svg can't be written: %w", err)
	}
	return nil
}

// errTrial ends a trial of whether a file can be written, before it is.
var errTrial = errors.New("this was a trial")

// readQuestions reads the file of questions; - is stdin. leftOut is how a run without some bad lines ends; nil if there are none.
func (c *cli) readQuestions(path string) (questions []evaluate.Question, leftOut, err error) {
	in := c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, usagef("", "%w", err)
		}
		defer f.Close()
		in = f
	}
	questions, err = evaluate.ReadQuestions(in)
	var bad *evaluate.QuestionsError
	const form = `a question is a line such as {"id": "1", "question": "…", "answer": "…"}`
	switch {
	case errors.As(err, &bad) && len(questions) > 0:
		return questions, failf(exitLeftOut, form, "%s: %s left out: %w", path, plural(len(bad.Rows), "line was", "lines were"), bad), nil
	case bad != nil:
		return nil, nil, usagef(form, "%s: %w", path, err)
	}
	return questions, nil, err
}

// runEval asks, and pins the trees that were asked.
func (c *cli) runEval(ctx context.Context, h place, cfg evaluate.Config, searcher *evalSearcher, questions []evaluate.Question, arms []evaluate.Arm) (*evaluate.Report, error) {
	ticker := newTicker(c, "evaluating")
	defer ticker.stop()
	cfg.Prepare = searcher.prepare
	cfg.Progress = func(done, total int) {
		ticker.set("%s of %s questions, %s", count(done), count(total), plural(len(arms), "arm", "arms"))
	}
	report, err := evaluate.Run(ctx, cfg, searcher.forRun(), questions, arms)
	if err != nil {
		return nil, err
	}
	for i := range report.Trees {
		t := &report.Trees[i]
		hash, err := h.TreeHash(ctx, t.Corpus)
		if err != nil {
			return nil, err
		}
		if hash.Generation != t.Generation {
			return nil, failf(exitFailed, "run it again", "corpus %s was built anew while it was asked", t.Corpus)
		}
		t.Hash = hash.Hash
	}
	return report, nil
}

// scoresOf are the scores of every question, arm by arm.
func scoresOf(report *evaluate.Report, questions []evaluate.Question) []evalScore {
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	var lines []evalScore
	for i, q := range questions {
		for a, arm := range report.Arms {
			s := report.Scores[a][i]
			line := evalScore{
				Question: q.ID, Type: q.Type, Group: arm.Group, Arm: arm.Name, Coverage: known(s.Coverage), Answered: known(s.Answered),
				Recall: known(s.Recall), NDCG: known(s.NDCG), Summaries: known(s.Summaries), Tokens: s.Tokens, Hits: s.Hits,
			}
			if s.Latency > 0 {
				line.MS = known(float64(s.Latency) / float64(time.Millisecond))
			}
			if line.Question == "" {
				line.Question = fmt.Sprint(i + 1)
			}
			lines = append(lines, line)
		}
	}
	return lines
}
