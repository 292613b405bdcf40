package api

import (
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Status is the JSON of aerie status.
type Status struct {
	Corpora []CorpusStatus `json:"corpora"`
	Workers
}

// CorpusStatus is one corpus for one screen.
type CorpusStatus struct {
	Corpus         string   `json:"corpus"`
	Documents      int      `json:"documents"`
	Leaves         int      `json:"leaves"`
	Summaries      int      `json:"summaries"`
	HiddenLeaves   int      `json:"hidden_leaves"` // that no query finds, since build.keep_leaves was false
	Embedder       string   `json:"embedder"`
	Width          int      `json:"width"` // of its vectors; 0 before the first
	Generation     int      `json:"generation"`
	BaselineLeaves *int     `json:"baseline_leaves"`
	Growth         *float64 `json:"growth"`
	Threshold      float64  `json:"threshold"`
	NextBuild      string   `json:"next_build"`
	// Unseen is the share of leaf tokens that summaries haven't seen, of the level that has seen least; Advice says why a build in
	// full would do good, "" if nothing speaks for one.
	Unseen         float64 `json:"unseen"`
	Advice         string  `json:"advice,omitempty"`
	StoppedBecause string  `json:"stopped_because"`
	// SettingsChanged are the keys whose values differ from those that the unfinished build, or else the tree, was made with.
	SettingsChanged []string     `json:"settings_changed"`
	SettingsAdvice  string       `json:"settings_advice"` // one sentence: what differs, and which commands work; "" if nothing does
	Build           *BuildStatus `json:"build"`
}

// BuildStatus is the newest build of a corpus.
type BuildStatus struct {
	Build         string        `json:"build"`
	State         levels.Status `json:"state"`
	Why           string        `json:"why"`
	Doing         string        `json:"doing"`
	Alive         bool          `json:"alive"` // a process has reported within the last seconds
	WaitingFor    []string      `json:"waiting_for"`
	Levels        []LevelStatus `json:"levels"`
	Calls         int           `json:"calls"`
	Reused        int           `json:"reused"`
	InputTokens   int           `json:"input_tokens"`
	OutputTokens  int           `json:"output_tokens"`
	Refused       int           `json:"refused,omitempty"` // as in tree.Usage
	Trimmed       int           `json:"trimmed,omitempty"`
	CutPrompts    int           `json:"cut_prompts,omitempty"`
	OtherLanguage int           `json:"other_language,omitempty"`
	Started       time.Time     `json:"started"`
	Updated       time.Time     `json:"updated"`
	Buried        []BuriedGroup `json:"buried"`
}

// LevelStatus counts the tasks of a level: Expected = Done + Queued + Running + Buried.
type LevelStatus struct {
	Level    int `json:"level"`
	Expected int `json:"expected"`
	Done     int `json:"done"`
	Queued   int `json:"queued"`
	Running  int `json:"running"`
	Buried   int `json:"buried"`
	// Missing counts the tasks that were found nowhere since the level began, and queued again.
	Missing int `json:"missing"`
}

// BuriedGroup is the buried tasks of one cause, with one example.
type BuriedGroup struct {
	Cause   string        `json:"cause"`
	Count   int           `json:"count"`
	Example levels.Burial `json:"example"`
}
