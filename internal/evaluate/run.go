package evaluate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Searcher answers requests; a *retrieve.Retriever is one.
type Searcher interface {
	Retrieve(ctx context.Context, req retrieve.Request) (retrieve.Result, error)
}

// Sweeper is a Searcher that answers a request at several budgets at once, for less than one after the other costs; a
// *retrieve.Retriever is one. It calls each once for every budget, in their order.
type Sweeper interface {
	Searcher
	RetrieveAt(ctx context.Context, req retrieve.Request, budgets []int, each func(i int, result retrieve.Result)) error
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
	// embed it once for all arms.
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
// starts with another arm, so that no arm always finds caches warm. Arms that differ by their budget alone are asked
// together if the searcher is a Sweeper, each in its turn as the first, which is the one whose latency counts. A question
// without hits scores 0.
func Run(ctx context.Context, cfg Config, searcher Searcher, questions []Question, arms []Arm) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	settled, err := settle(arms, cfg.Baseline)
	if err != nil {
		return nil, err
	}
	r := run{cfg: cfg, searcher: searcher, arms: arms, settled: settled, generations: map[string]int{}}
	for range arms {
		r.scores = append(r.scores, make([]Score, len(questions)))
	}
	_, sweeps := searcher.(Sweeper)
	families := familiesOf(arms, sweeps)
	for i := range questions {
		q := &questions[i]
		if cfg.Prepare != nil {
			if err := cfg.Prepare(ctx, q.Question); err != nil {
				return nil, fmt.Errorf("evaluate: question %s: %w", name(q, i), err)
			}
		}
		key := newKey(q)
		for turn := range families {
			family := families[(turn+i)%len(families)]
			first := i / len(families) % len(family)
			if err := r.ask(ctx, slices.Concat(family[first:], family[:first]), q, i, key); err != nil {
				return nil, err
			}
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(questions))
		}
	}
	return newReport(cfg, questions, settled, r.scores, r.generations), nil
}

// run is one run in progress.
type run struct {
	cfg         Config
	searcher    Searcher
	arms        []Arm          // as they are asked
	settled     []Arm          // as they are meant
	scores      [][]Score      // of each arm, each question
	generations map[string]int // of each corpus
}

// familiesOf returns the places of the arms, in order, those together that differ by the budget alone if wanted.
func familiesOf(arms []Arm, together bool) [][]int {
	var families [][]int
	at := map[string]int{}
	for a := range arms {
		req := arms[a].Request
		req.Budget = nil
		hash := hashOf(req)
		if f, known := at[hash]; known && together {
			families[f] = append(families[f], a)
			continue
		}
		at[hash] = len(families)
		families = append(families, []int{a})
	}
	return families
}

// ask sends a question through the arms of one family, and scores the answers.
func (r *run) ask(ctx context.Context, family []int, q *Question, i int, key key) error {
	var budgets []int
	for _, a := range family {
		budgets = append(budgets, *r.settled[a].Request.Budget)
	}
	req := r.arms[family[0]].Request
	req.Query = q.Question
	start := time.Now()
	took := make([]time.Duration, len(family))
	results := make([]retrieve.Result, len(family))
	var err error
	if len(family) == 1 {
		results[0], err = r.searcher.Retrieve(ctx, req)
		took[0] = time.Since(start)
	} else {
		err = r.searcher.(Sweeper).RetrieveAt(ctx, req, budgets, func(n int, result retrieve.Result) {
			if results[n] = result; n == 0 {
				took[0] = time.Since(start)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("evaluate: arm %s: question %s: %w", r.arms[family[0]].Name, name(q, i), err)
	}
	for n, a := range family {
		if before, known := r.generations[req.Corpus]; known && before != results[n].Generation {
			return fmt.Errorf("evaluate: corpus %s went from generation %d to %d while it was evaluated: run it again when no build is on",
				req.Corpus, before, results[n].Generation)
		}
		r.generations[req.Corpus] = results[n].Generation
		r.scores[a][i] = key.score(results[n].Hits, r.cfg.Threshold)
		r.scores[a][i].Latency = took[n]
	}
	return nil
}

// name is what an error calls a question.
func name(q *Question, index int) string {
	if q.ID != "" {
		return q.ID
	}
	return fmt.Sprintf("number %d", index+1)
}
