package levels

import (
	"cmp"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Status is where a build stands.
type Status string

// The statuses. A build rests in the last five.
const (
	Running        Status = "running"
	PublishingTree Status = "publishing-tree"
	Built          Status = "done"
	Degraded       Status = "degraded"
	Failed         Status = "failed"
	Cancelled      Status = "cancelled"
	Paused         Status = "paused"
)

// Phase is where a level stands.
type Phase string

// The phases, in order.
const (
	Planning   Phase = "planning"   // its plan isn't durable yet
	Publishing Phase = "publishing" // the plan is; its tasks are going out
	Open       Phase = "open"       // all tasks are queued or done
	Sealed     Phase = "sealed"     // every task is done, or dead within the policy
)

// Level is one level of a build.
type Level struct {
	Level   int        `json:"level"`
	Phase   Phase      `json:"phase"`
	Digest  string     `json:"digest,omitempty"`
	NodesIn int        `json:"nodes_in"`
	Total   int        `json:"total"`
	Done    int        `json:"done"`
	Dead    int        `json:"dead"`
	Usage   tree.Usage `json:"usage"`
	// Missing counts the tasks that were found nowhere, neither done nor queued nor buried, and queued again.
	Missing int `json:"missing,omitempty"`
	// Largest and Tokens are the tokens of the largest cluster and of all clusters; Members counts children, one
	// in two clusters twice, and Widest those of the cluster that has most; 0 in a record of a version without it.
	Largest int `json:"largest"`
	Widest  int `json:"widest,omitempty"`
	Tokens  int `json:"tokens"`
	Members int `json:"members"`
	// Kept counts the summaries that are those of the tree before, Carried those that have a text of it over other children;
	// the rest is made. Both are 0 in a build in full.
	Kept    int           `json:"kept,omitempty"`
	Carried int           `json:"carried,omitempty"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
}

// State is the durable record of one build.
type State struct {
	Corpus     string `json:"corpus"`
	Build      string `json:"build"`
	Generation int    `json:"generation"` // that it builds toward
	// Before is the generation that readers saw when it began; 0 for the first build, and in records of old versions.
	Before int    `json:"before,omitempty"`
	Recipe string `json:"recipe"`
	// Config is the hash of everything that shapes the plans; a build is resumed only under the same.
	Config string `json:"config"`
	// Settings are those that it was begun with by key, secrets left out, for people; nil in records of old versions.
	Settings map[string]string `json:"settings,omitempty"`
	Baseline Baseline          `json:"baseline"`  // the corpus when level 1 was planned
	Trigger  string            `json:"trigger"`   // why it started
	MaxDepth int               `json:"max_depth"` // levels at most; 0: no limit
	// MaxTokens and MaxCost are the budget that was asked for when the build began, or went on last at somebody's wish; nil: as
	// whoever builds is configured.
	MaxTokens *int     `json:"max_tokens,omitempty"`
	MaxCost   *float64 `json:"max_cost,omitempty"`
	// From is the generation whose tree the build grows from; 0: it is in full. Stale is the share of its leaf tokens that a
	// summary may not have seen and still be carried over. Both stay as they are when the build began.
	From  int     `json:"from,omitempty"`
	Stale float64 `json:"stale,omitempty"`
	// Coherence is that of level 1; see Corpus.
	Coherence float64 `json:"coherence,omitempty"`
	// Key is what the request that began the build, or went on with it last, is known by; "" mostly.
	Key string `json:"key,omitempty"`

	Status Status  `json:"status"`
	Cause  Cause   `json:"cause,omitempty"` // for Degraded, Failed, Cancelled, Paused: what decides
	Why    string  `json:"why"`             // and one sentence, for people only
	Levels []Level `json:"levels"`
	// StoppedBecause says why there is no further level; set once that is known.
	StoppedBecause string `json:"stopped_because"`

	Buried      []Burial       `json:"buried,omitempty"`       // at most 1,000
	BuriedCount map[string]int `json:"buried_count,omitempty"` // all, by cause

	// Epoch is that of the lease under which the state was saved, and Version counts the corpus's saves under it: a copy of the state
	// is replaced by newer ones only.
	Epoch   int64     `json:"epoch"`
	Version int64     `json:"version,omitempty"`
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
}

// Burial is one buried task, for people.
type Burial struct {
	Task  string `json:"task"`
	Level int    `json:"level"`
	Cause string `json:"cause"`
	Error string `json:"error"`
}

// Resting reports whether nothing will happen by itself.
func (s *State) Resting() bool { return s.Status != Running && s.Status != PublishingTree }

// Resumable reports whether the build can go on.
func (s *State) Resumable() bool {
	switch s.Status {
	case Running, PublishingTree, Paused, Degraded, Failed:
		return true
	}
	return false
}

// Past returns what is kept of the build once another one is the newest: all that says what became of it and what it cost, and of
// its settings the model.
func (s *State) Past() *State {
	past := *s
	past.Buried, past.Settings = nil, nil
	if model, ok := s.Settings[modelSetting]; ok {
		past.Settings = map[string]string{modelSetting: model}
	}
	return &past
}

// modelSetting names what wrote a build's summaries, which its cost depends on.
const modelSetting = "summaries.model"

// SameModel reports whether the build's summaries were written by the model that settings name; also if it isn't known which it was.
func (s *State) SameModel(settings map[string]string) bool {
	model, ok := s.Settings[modelSetting]
	return !ok || model == settings[modelSetting]
}

// InOrder sorts builds by when they began.
func InOrder(builds []*State) {
	slices.SortFunc(builds, func(a, b *State) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Build, b.Build)) })
}

// Newer reports whether the state was saved after another one of the same corpus.
func (s *State) Newer(than *State) bool {
	if s.Epoch != than.Epoch {
		return s.Epoch > than.Epoch
	}
	return s.Version > than.Version
}
