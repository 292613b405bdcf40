package evaluate

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Report is the outcome of a run.
type Report struct {
	Config Config `json:"config"`
	// OptionsHash is that of config and arms, QuestionsHash that of the questions.
	OptionsHash   string `json:"options_hash"`
	QuestionsHash string `json:"questions_hash"`
	Questions     int    `json:"questions"`
	// Types are the questions' types, ascending.
	Types []string `json:"types"`
	// Trees are what was asked: one for each corpus. Hash is left to the caller ([TreeHash]).
	Trees       []Tree       `json:"trees"`
	Arms        []ArmReport  `json:"arms"`
	Comparisons []Comparison `json:"comparisons"`

	// Scores are those of each arm, in order, for each question; not part of the JSON.
	Scores [][]Score `json:"-"`
}

// Tree names the tree that was asked.
type Tree struct {
	Corpus     string `json:"corpus"`
	Generation int    `json:"generation"`
	Hash       string `json:"hash,omitempty"`
}

// ArmReport is what one arm achieved.
type ArmReport struct {
	Name     string           `json:"name"`
	Group    string           `json:"group"`
	Baseline bool             `json:"baseline"`
	Request  retrieve.Request `json:"request"`
	All      Summary          `json:"all"`
	// Types has a summary for each of Report.Types, in that order.
	Types []Summary `json:"types"`
}

// Summary is the mean over questions.
type Summary struct {
	Type      string    `json:"type"` // "" for all
	Questions int       `json:"questions"`
	Coverage  *Estimate `json:"coverage"` // nil where no question gives ground for it
	Answered  *Estimate `json:"answered"`
	Recall    *Estimate `json:"evidence_recall"`
	NDCG      *Estimate `json:"ndcg"`
	// Summaries is the share among the hits, nil without hits; Tokens and Hits are means.
	Summaries *float64 `json:"summaries"`
	Tokens    float64  `json:"tokens"`
	Hits      float64  `json:"hits"`
	// P50MS and P95MS are of whole requests: those of budgets that shared what another had found don't count.
	P50MS float64 `json:"p50_ms"`
	P95MS float64 `json:"p95_ms"`
}

// Estimate is a mean with its interval at Config.Confidence, by the normal approximation: mean ± z · s / √n.
type Estimate struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Comparison is one test of an arm against the baseline of its group, over the questions that both were scored on.
type Comparison struct {
	Group    string `json:"group"`
	Arm      string `json:"arm"`
	Baseline string `json:"baseline"`
	Type     string `json:"type"` // "" for all
	Metric   Metric `json:"metric"`
	N        int    `json:"n"`
	Wins     int    `json:"wins"` // questions on which the arm is better
	Losses   int    `json:"losses"`
	// Difference is the mean of arm less baseline, with its bootstrap interval.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	// Test is "permutation" or "mcnemar", P its p value, Wilcoxon that of the signed ranks (nil for McNemar), and Holm
	// is P corrected over all comparisons of the same metric and type.
	Test     string   `json:"test"`
	P        float64  `json:"p"`
	Wilcoxon *float64 `json:"p_wilcoxon"`
	Holm     float64  `json:"p_holm"`
}

func newReport(cfg Config, questions []Question, arms []Arm, scores [][]Score, generations map[string]int) *Report {
	r := &Report{
		Config: cfg, OptionsHash: hashOf([]any{cfg, arms}), QuestionsHash: hashOf(questions),
		Questions: len(questions), Types: []string{}, Trees: []Tree{}, Comparisons: []Comparison{}, Scores: scores,
	}
	types := map[string]bool{}
	for i := range questions {
		if questions[i].Type != "" {
			types[questions[i].Type] = true
		}
	}
	r.Types = append(r.Types, slices.Sorted(maps.Keys(types))...)
	for _, corpus := range slices.Sorted(maps.Keys(generations)) {
		r.Trees = append(r.Trees, Tree{Corpus: corpus, Generation: generations[corpus]})
	}
	baselines := baselinesOf(arms, cfg.Baseline)
	for a, arm := range arms {
		report := ArmReport{
			Name: arm.Name, Group: arm.Group, Request: arm.Request, Baseline: baselines[arm.Group] == a,
			All: summarize(scores[a], questions, "", cfg.Confidence), Types: []Summary{},
		}
		for _, kind := range r.Types {
			report.Types = append(report.Types, summarize(scores[a], questions, kind, cfg.Confidence))
		}
		r.Arms = append(r.Arms, report)
	}
	kinds, metrics := append([]string{""}, r.Types...), Metrics()
	compared := make([][]Comparison, len(kinds)*len(metrics))
	var tests errgroup.Group
	tests.SetLimit(runtime.GOMAXPROCS(0))
	for i := range compared {
		tests.Go(func() error {
			compared[i] = compareAll(cfg, questions, arms, scores, baselines, kinds[i/len(metrics)], metrics[i%len(metrics)])
			return nil
		})
	}
	_ = tests.Wait() // none fails
	r.Comparisons = append(r.Comparisons, slices.Concat(compared...)...)
	return r
}

// baselinesOf returns the baseline's index for each group.
func baselinesOf(arms []Arm, name string) map[string]int {
	out := map[string]int{}
	for a, arm := range arms {
		if _, has := out[arm.Group]; !has && (name == "" || arm.Name == name) {
			out[arm.Group] = a
		}
	}
	return out
}

// intervalDraws is enough for the percentiles of an interval, which need less than a p value far in the tail.
const intervalDraws = 4000

// compareAll tests every arm against its baseline by one metric on one type of question ("": all), and corrects
// the p values together.
func compareAll(cfg Config, questions []Question, arms []Arm, scores [][]Score, baselines map[string]int, kind string, metric Metric) []Comparison {
	var out []Comparison
	var p []float64
	for a, arm := range arms {
		b := baselines[arm.Group]
		if a == b {
			continue
		}
		var differences []float64
		c := Comparison{Group: arm.Group, Arm: arm.Name, Baseline: arms[b].Name, Type: kind, Metric: metric}
		for i := range questions {
			d := scores[a][i].metric(metric) - scores[b][i].metric(metric)
			if kind != "" && questions[i].Type != kind || math.IsNaN(d) {
				continue
			}
			differences = append(differences, d)
			c.Difference += d
			if d > 0 {
				c.Wins++
			} else if d < 0 {
				c.Losses++
			}
		}
		if c.N = len(differences); c.N == 0 {
			continue
		}
		c.Difference /= float64(c.N)
		c.Low, c.High = Bootstrap(differences, min(cfg.Resamples, intervalDraws), cfg.Confidence, rand.NewPCG(cfg.Seed, 1))
		if metric == Answered {
			c.Test, c.P = "mcnemar", McNemar(c.Wins, c.Losses)
		} else {
			w := Wilcoxon(differences)
			c.Test, c.P, c.Wilcoxon = "permutation", Permutation(differences, cfg.Resamples, rand.NewPCG(cfg.Seed, 2)), &w
		}
		out, p = append(out, c), append(p, c.P)
	}
	for i, corrected := range Holm(p) {
		out[i].Holm = corrected
	}
	return out
}

func summarize(scores []Score, questions []Question, kind string, confidence float64) Summary {
	s := Summary{Type: kind}
	metrics := map[Metric][]float64{}
	var shares []float64
	var latencies []time.Duration
	for i := range scores {
		if kind != "" && questions[i].Type != kind {
			continue
		}
		score := &scores[i]
		s.Questions++
		s.Tokens += float64(score.Tokens)
		s.Hits += float64(score.Hits)
		if score.Latency > 0 {
			latencies = append(latencies, score.Latency)
		}
		for _, m := range Metrics() {
			if v := score.metric(m); !math.IsNaN(v) {
				metrics[m] = append(metrics[m], v)
			}
		}
		if !math.IsNaN(score.Summaries) {
			shares = append(shares, score.Summaries)
		}
	}
	s.Tokens /= float64(s.Questions)
	s.Hits /= float64(s.Questions)
	s.Coverage = estimate(metrics[Coverage], confidence)
	s.Answered = estimate(metrics[Answered], confidence)
	s.Recall = estimate(metrics[Recall], confidence)
	s.NDCG = estimate(metrics[NDCG], confidence)
	if e := estimate(shares, confidence); e != nil {
		s.Summaries = &e.Mean
	}
	s.P50MS, s.P95MS = percentile(latencies, 0.50), percentile(latencies, 0.95)
	return s
}

// estimate returns the mean of values; nil if there is none.
func estimate(values []float64, confidence float64) *Estimate {
	if len(values) == 0 {
		return nil
	}
	e := &Estimate{N: len(values)}
	for _, v := range values {
		e.Mean += v / float64(len(values))
	}
	square := 0.0
	for _, v := range values {
		square += (v - e.Mean) * (v - e.Mean)
	}
	half := 0.0
	if len(values) > 1 {
		half = math.Sqrt2 * math.Erfinv(confidence) * math.Sqrt(square/float64(len(values)-1)/float64(len(values)))
	}
	e.Low, e.High = e.Mean-half, e.Mean+half
	return e
}

// percentile returns the nearest-rank percentile in milliseconds.
func percentile(latencies []time.Duration, q float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Clone(latencies)
	slices.SortFunc(sorted, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	rank := int(math.Ceil(q * float64(len(sorted))))
	return float64(sorted[max(rank, 1)-1]) / float64(time.Millisecond)
}
