package coordinator

import (
	"cmp"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Price is what a model costs, for a million tokens.
type Price struct {
	Input, Output           float64
	BatchInput, BatchOutput float64 // of calls in batches; 0 if the model has no such price
	Currency                string
}

// Of returns the price of a usage.
func (p Price) Of(u tree.Usage) *api.Cost {
	const million = 1e6
	return &api.Cost{
		Amount:   (p.Input*float64(u.InputTokens) + p.Output*float64(u.OutputTokens)) / million,
		Currency: p.Currency,
	}
}

// Batched returns the price of a usage whose calls all go in batches; nil without such a price.
func (p Price) Batched(u tree.Usage) *api.Cost {
	if p.BatchInput == 0 {
		return nil
	}
	return Price{Input: p.BatchInput, Output: p.BatchOutput, Currency: p.Currency}.Of(u)
}

func (r *run) nothingToDo(record *levels.Corpus, why string) api.BuildReport {
	report := api.NothingToDo(r.cfg.Corpus, why)
	report.Generation, report.StoppedBecause = record.Generation, record.StoppedBecause
	return report
}

func (r *run) report() api.BuildReport {
	s := r.state
	report := api.BuildReport{
		Build: s.Build, Corpus: s.Corpus, Generation: cmp.Or(s.Before, s.Generation-1), Why: s.Why, Cause: s.Cause,
		Levels: []api.LevelReport{}, StoppedBecause: s.StoppedBecause, Buried: []levels.Burial{},
		Seconds: round(time.Since(s.Started)),
	}
	if s.Resting() && s.Updated.After(s.Started) {
		report.Seconds = round(s.Updated.Sub(s.Started))
	}
	switch s.Status {
	case levels.Built:
		report.Outcome, report.Generation = api.OutcomeBuilt, s.Generation
	case levels.Degraded:
		report.Outcome = api.OutcomeDegraded
	case levels.Failed:
		report.Outcome = api.OutcomeFailed
	case levels.Cancelled:
		report.Outcome = api.OutcomeCancelled
	default:
		report.Outcome = api.OutcomePaused
	}
	report.Buried = append(report.Buried, s.Buried...)
	for _, l := range s.Levels {
		report.Usage = report.Usage.Add(l.Usage)
		report.Carried += l.Carried
		report.Levels = append(report.Levels, api.LevelReport{
			Level: l.Level, NodesIn: l.NodesIn, NodesOut: l.Done, Clusters: l.Total, Usage: l.Usage, Carried: l.Carried,
			LargestClusterTokens: l.Largest, MeanClusterTokens: mean(l.Tokens, l.Total),
			MeanClusterSize: mean(l.Members, l.Total), LargestClusterNodes: l.Widest, Seconds: round(l.Took),
			Compression: mean(l.Usage.OutputTokens, l.Usage.InputTokens),
		})
	}
	if r.cfg.Price != nil && s.SameModel(r.cfg.Settings) {
		report.Cost = r.cfg.Price.Of(report.Usage)
	}
	return report
}

func mean(sum, n int) float64 { return float64(sum) / float64(max(n, 1)) }

func round(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// ReportOf says what a build did, from its durable state alone: for a process that watched while another one built.
func (c *Coordinator) ReportOf(state *levels.State) api.BuildReport {
	return (&run{Coordinator: c, state: state}).report()
}
