package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// askResult is the JSON of aerie eval --ask.
type askResult struct {
	*evaluate.AskReport
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
	Seconds  float64           `json:"seconds"`
}

// Ask implements evaluate.Asker.
func (s *evalSearcher) Ask(ctx context.Context, req retrieve.Request) (evaluate.Given, error) {
	a, err := s.place.Ask(ctx, req.Corpus, api.Ask{Query: s.query(req)}, nil)
	return evaluate.Given{
		Text: a.Text, Abstained: a.Abstained, Calls: a.Calls, InputTokens: a.InputTokens, OutputTokens: a.OutputTokens,
	}, err
}

// evalAnswers lets every arm answer, and prints what the answers are worth.
func (c *cli) evalAnswers(ctx context.Context, o evalOptions, searcher *evalSearcher, questions []evaluate.Question, arms []evaluate.Arm) error {
	start := time.Now()
	ticker := newTicker(c, "asking")
	cfg := o.cfg
	cfg.Prepare = searcher.prepare
	cfg.Progress = func(done, total int) {
		ticker.set("%s of %s questions, %s", count(done), count(total), plural(len(arms), "arm", "arms"))
	}
	report, err := evaluate.RunAsk(ctx, cfg, searcher, questions, arms)
	ticker.stop()
	if err != nil {
		return err
	}
	pins := make([]pin, len(report.Replies))
	for i, r := range report.Replies {
		pins[i] = pin{fmt.Sprintf("question %s, arm %s at %s", r.Question, r.Arm, r.Group), r}
	}
	if c.output == "jsonl" {
		for _, r := range report.Replies {
			if err := c.printJSON(r); err != nil {
				return err
			}
		}
		return c.pinned(o.pin, pins)
	}
	result := askResult{AskReport: report, Version: readBuildInfo().Version, Settings: c.cfg.Map(), Seconds: time.Since(start).Seconds()}
	var table strings.Builder
	if err := report.WriteTable(&table); err != nil {
		return err
	}
	err = c.print(result, func(w io.Writer) {
		io.WriteString(w, printable.Text(table.String()))
		for _, r := range report.Replies {
			if r.Error != "" {
				fmt.Fprintf(w, "question %s, %s: %s\n", r.Question, r.Arm, firstLine(r.Error, 200))
				break // one tells as much as all
			}
		}
	})
	if err != nil {
		return err
	}
	return c.pinned(o.pin, pins)
}

// pin is one result of an evaluation, with what it is of.
type pin struct {
	of     string
	result any
}

// pinsOfScores are those of scores, without times.
func pinsOfScores(scores []evalScore) []pin {
	pins := make([]pin, len(scores))
	for i, s := range scores {
		s.MS = nil
		pins[i] = pin{fmt.Sprintf("question %s, arm %s at %s", s.Question, s.Arm, s.Group), s}
	}
	return pins
}

// pinned writes results into a file or, if it is there, compares them with it.
func (c *cli) pinned(path string, pins []pin) error {
	if path == "" {
		return nil
	}
	var all bytes.Buffer
	lines := make([]string, len(pins))
	for i, p := range pins {
		raw, err := json.Marshal(p.result)
		if err != nil {
			return err
		}
		lines[i] = string(raw)
		all.WriteString(lines[i] + "\n")
	}
	before, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(path, func(w io.Writer) error { _, err := w.Write(all.Bytes()); return err }); err != nil {
			return usagef("", "--pin can't be written: %w", err)
		}
		c.note("%s pinned in %s", plural(len(pins), "result is", "results are"), path)
		return nil
	}
	if err != nil {
		return usagef("", "--pin: %w", err)
	}
	const again = "delete it to pin what is so now"
	kept := strings.Split(strings.TrimSuffix(string(before), "\n"), "\n")
	if len(kept) != len(lines) {
		return failf(exitFailed, again, "there are %s, and %s has %d: other questions or arms", plural(len(lines), "result", "results"), path, len(kept))
	}
	differ, first := 0, ""
	for i := range lines {
		if lines[i] == kept[i] {
			continue
		}
		if differ++; differ == 1 {
			first = fmt.Sprintf("%s: %s, pinned %s", pins[i].of, lines[i], kept[i])
		}
	}
	if differ > 0 {
		return failf(exitFailed, again, "%d of %s differ from %s, the first of %s", differ, plural(len(lines), "result", "results"), path, firstLine(first, 600))
	}
	return nil
}
