package evaluate

import (
	"context"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Searcher answers requests; a *retrieve.Retriever is one.
type Searcher interface {
	Retrieve(ctx context.Context, req retrieve.Request) (retrieve.Result, error)
}

// Config says how to score and test. Start from [NewConfig].
type Config struct {
	// Baseline names the arm that the others of each group are compared with; "": the first of the group.
	Baseline string `json:"baseline"`
	// Threshold is the coverage, 0…1, from which a question counts as answered; 0.8 by default.
	Threshold float64 `json:"threshold"`
	// Seed is that of the tests' random numbers; 224 by default.
	Seed uint64 `json:"seed"`
	// Resamples is the largest number of draws of a permutation test, at least 100; 100000 by default. No p value is
	// below its reciprocal, and Holm's method multiplies that by the number of arms.
	Resamples int `json:"resamples"`
	// Confidence is that of intervals, between 0 and 1; 0.95 by default.
	Confidence float64 `json:"confidence"`

	// Prepare, if not nil, is called with each question before any arm is asked, outside of all latencies: a place to
	// embed it once for all arms ([Remember]).
	Prepare func(ctx context.Context, question string) error `json:"-"`
	// Progress, if not nil, is called after each question.
	Progress func(done, total int) `json:"-"`
}

// NewConfig returns the defaults.
func NewConfig() Config {
	return Config{Threshold: 0.8, Seed: 224, Resamples: 100000, Confidence: 0.95}
}

// Validate returns a *retrieve.UsageError if a value is out of its range.
func (c *Config) Validate() error {
	var bad []string
	if !(c.Threshold > 0 && c.Threshold <= 1) {
		bad = append(bad, fmt.Sprintf("threshold is %v: it must be above 0 and at most 1", c.Threshold))
	}
	if c.Resamples < 100 {
		bad = append(bad, fmt.Sprintf("resamples is %d: it must be at least 100", c.Resamples))
	}
	if !(c.Confidence > 0 && c.Confidence < 1) {
		bad = append(bad, fmt.Sprintf("confidence is %v: it must be between 0 and 1", c.Confidence))
	}
	if len(bad) > 0 {
		return &retrieve.UsageError{Problems: bad}
	}
	return nil
}

// Run asks every question through every arm, and reports. Questions are asked one after the other, and every question
// starts with another arm, so that no arm always finds caches warm. A question without hits scores 0.
func Run(ctx context.Context, cfg Config, searcher Searcher, questions []Question, arms []Arm) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := validateArms(arms, cfg.Baseline); err != nil {
		return nil, err
	}
	scores := make([][]Score, len(arms)) // of each arm, each question
	for a := range scores {
		scores[a] = make([]Score, len(questions))
	}
	generations := map[string]int{}
	for i := range questions {
		q := &questions[i]
		if cfg.Prepare != nil {
			if err := cfg.Prepare(ctx, q.Question); err != nil {
				return nil, fmt.Errorf("evaluate: question %s: %w", name(q, i), err)
			}
		}
		key := newKey(q)
		for turn := range arms {
			a := (turn + i) % len(arms)
			req := arms[a].Request
			req.Query = q.Question
			start := time.Now()
			result, err := searcher.Retrieve(ctx, req)
			latency := time.Since(start)
			if err != nil {
				return nil, fmt.Errorf("evaluate: arm %s: question %s: %w", arms[a].Name, name(q, i), err)
			}
			if before, known := generations[req.Corpus]; known && before != result.Generation {
				return nil, fmt.Errorf("evaluate: corpus %s went from generation %d to %d while it was evaluated: run it again when no build is on", req.Corpus, before, result.Generation)
			}
			generations[req.Corpus] = result.Generation
			scores[a][i] = key.score(result.Hits, cfg.Threshold)
			scores[a][i].Latency = latency
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(questions))
		}
	}
	return newReport(cfg, questions, arms, scores, generations), nil
}

// name is what an error calls a question.
func name(q *Question, index int) string {
	if q.ID != "" {
		return q.ID
	}
	return fmt.Sprintf("number %d", index+1)
}
