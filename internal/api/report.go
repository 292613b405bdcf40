package api

import (
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Outcome is how a build ended.
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

// BuildReport says what a build did. It is the JSON of aerie build.
type BuildReport struct {
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
func (r BuildReport) Stop() levels.Stop {
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
	LargestClusterNodes  int     `json:"largest_cluster_nodes"` // of the cluster that has most, which need not be that with most tokens
	// Compression is output tokens for each input token of the level's calls; 0 if none was made.
	Compression float64 `json:"compression"`
	Seconds     float64 `json:"seconds"`
}

// Cost is an amount of money.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// NothingToDo is the report of a build that didn't begin, of a corpus without a tree.
func NothingToDo(corpus, why string) BuildReport {
	return BuildReport{Corpus: corpus, Outcome: OutcomeNothingToDo, Why: why, Levels: []LevelReport{}, Buried: []levels.Burial{}}
}

// Estimate says what a build would do and cost. It is the JSON of aerie plan.
type Estimate struct {
	Corpus string          `json:"corpus"`
	Levels []LevelEstimate `json:"levels"`
	tree.Usage
	Cost *Cost `json:"cost"`
	// BatchCost is what the same calls cost in batches; nil where the model has no such price.
	BatchCost *Cost `json:"batch_cost"`
	// Incremental is what a build that grows the tree would do, nil where it can't; Full what one in full would. Levels and the
	// sums above are of the one that was asked about: the way of the next build, unless it was in full.
	Incremental *EstimateSum `json:"incremental"`
	Full        *EstimateSum `json:"full"`
	// Alternatives are what a build in full would take under other settings; none where the next build isn't one, or the corpus is large.
	Alternatives   []Alternative `json:"alternatives,omitempty"`
	WouldBuild     bool          `json:"would_build"`
	Why            string        `json:"why"`
	StoppedBecause string        `json:"stopped_because"`
}

// Alternative is what a build would take under other settings. Clusters is of level 1.
type Alternative struct {
	Settings     string `json:"settings"`
	Clusters     int    `json:"clusters"`
	Calls        int    `json:"calls"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	Cost         *Cost  `json:"cost"`
}

// EstimateSum is one way to build.
type EstimateSum struct {
	Calls        int   `json:"calls"`
	Kept         int   `json:"kept"` // summaries that exist
	Carried      int   `json:"carried"`
	InputTokens  int   `json:"input_tokens"`
	OutputTokens int   `json:"output_tokens"`
	Cost         *Cost `json:"cost"`
	// Estimate says that not even the clusters of level 1 were computed: they are taken to be about as many and as large as those of
	// the tree that has grown.
	Estimate bool `json:"estimate"`
}

// LevelEstimate is one level of an estimate.
type LevelEstimate struct {
	Level    int `json:"level"`
	NodesIn  int `json:"nodes_in"`
	Clusters int `json:"clusters"`
	tree.Usage
	// Carried counts the summaries that get a text of the tree before; they are neither Calls nor Reused.
	Carried              int `json:"carried"`
	LargestClusterTokens int `json:"largest_cluster_tokens"`
	// Estimate is false where the clusters were computed, which is level 1; the vectors of the levels above
	// don't exist yet.
	Estimate bool `json:"estimate"`
}

// Rolled says what a rollback did. Its JSON is a contract with scripts.
type Rolled struct {
	Corpus     string `json:"corpus"`
	Generation int    `json:"generation"` // that readers see now
	From       int    `json:"from"`       // that they saw before
	Summaries  int    `json:"summaries"`  // of the tree that they see now
	// Cancelled is the unfinished build that has lost its ground; "" if there was none.
	Cancelled string `json:"cancelled,omitempty"`
}
