package coordinator

import (
	"cmp"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Outcome is how a call of Build ended.
type Outcome string

// The outcomes.
const (
	OutcomeBuilt       Outcome = "built"
	OutcomeNothingToDo Outcome = "nothing_to_do"
	OutcomeDegraded    Outcome = "degraded"
	OutcomePaused      Outcome = "paused"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeFailed      Outcome = "failed"
)

// Report says what a build did. Its JSON is a contract with scripts.
type Report struct {
	Build          string        `json:"build"`
	Corpus         string        `json:"corpus"`
	Generation     int           `json:"generation"` // that readers see now
	Outcome        Outcome       `json:"outcome"`
	Why            string        `json:"why"`
	Cause          levels.Cause  `json:"cause,omitempty"` // why the build rests, for programs; none of one that was built
	Levels         []LevelReport `json:"levels"`
	StoppedBecause string        `json:"stopped_because"`
	tree.Usage
	Cost    *Cost           `json:"cost"`
	Seconds float64         `json:"seconds"`
	Carried int             `json:"carried"` // summaries that got a text of the tree before; they are not among Reused
	Buried  []levels.Burial `json:"buried"`
}

// Stop says why the build rests, also from the report of a version without causes; the zero Stop if it was built or there was
// nothing to do.
func (r Report) Stop() levels.Stop {
	if r.Outcome == OutcomeBuilt || r.Outcome == OutcomeNothingToDo {
		return levels.Stop{}
	}
	status := levels.Status(r.Outcome) // the words of what rests are the same
	return levels.Stop{Status: status, Cause: levels.CauseOf(status, r.Cause, r.Why), Sentence: r.Why}
}

// LevelReport is one level of a report.
type LevelReport struct {
	Level    int `json:"level"`
	NodesIn  int `json:"nodes_in"`
	NodesOut int `json:"nodes_out"`
	Clusters int `json:"clusters"`
	tree.Usage
	Carried              int     `json:"carried"`
	LargestClusterTokens int     `json:"largest_cluster_tokens"`
	MeanClusterTokens    float64 `json:"mean_cluster_tokens"`
	MeanClusterSize      float64 `json:"mean_cluster_size"`
	Seconds              float64 `json:"seconds"`
}

// Cost is an amount of money.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// Price is what a model costs, for a million tokens.
type Price struct {
	Input, Output float64
	Currency      string
}

// Of returns the price of a usage.
func (p Price) Of(u tree.Usage) *Cost {
	const million = 1e6
	return &Cost{
		Amount:   (p.Input*float64(u.InputTokens) + p.Output*float64(u.OutputTokens)) / million,
		Currency: p.Currency,
	}
}

func (r *run) nothingToDo(record *levels.Corpus, why string) Report {
	report := NothingToDo(r.cfg.Corpus, why)
	report.Generation, report.StoppedBecause = record.Generation, record.StoppedBecause
	return report
}

// NothingToDo is the report of a build that didn't begin, of a corpus without a tree.
func NothingToDo(corpus, why string) Report {
	return Report{Corpus: corpus, Outcome: OutcomeNothingToDo, Why: why, Levels: []LevelReport{}, Buried: []levels.Burial{}}
}

func (r *run) report() Report {
	s := r.state
	report := Report{
		Build: s.Build, Corpus: s.Corpus, Generation: cmp.Or(s.Before, s.Generation-1), Why: s.Why, Cause: s.Cause,
		Levels: []LevelReport{}, StoppedBecause: s.StoppedBecause, Buried: []levels.Burial{},
		Seconds: round(time.Since(s.Started)),
	}
	if s.Resting() && s.Updated.After(s.Started) {
		report.Seconds = round(s.Updated.Sub(s.Started))
	}
	switch s.Status {
	case levels.Built:
		report.Outcome, report.Generation = OutcomeBuilt, s.Generation
	case levels.Degraded:
		report.Outcome = OutcomeDegraded
	case levels.Failed:
		report.Outcome = OutcomeFailed
	case levels.Cancelled:
		report.Outcome = OutcomeCancelled
	default:
		report.Outcome = OutcomePaused
	}
	report.Buried = append(report.Buried, s.Buried...)
	for _, l := range s.Levels {
		report.Usage = report.Usage.Add(l.Usage)
		report.Carried += l.Carried
		report.Levels = append(report.Levels, LevelReport{
			Level: l.Level, NodesIn: l.NodesIn, NodesOut: l.Done, Clusters: l.Total, Usage: l.Usage, Carried: l.Carried,
			LargestClusterTokens: l.Largest, MeanClusterTokens: mean(l.Tokens, l.Total),
			MeanClusterSize: mean(l.Members, l.Total), Seconds: round(l.Took),
		})
	}
	if r.cfg.Price != nil {
		report.Cost = r.cfg.Price.Of(report.Usage)
	}
	return report
}

func mean(sum, n int) float64 { return float64(sum) / float64(max(n, 1)) }

func round(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// ReportOf says what a build did, from its durable state alone: for a process that watched while another one built.
func (c *Coordinator) ReportOf(state *levels.State) Report {
	return (&run{Coordinator: c, state: state}).report()
}
