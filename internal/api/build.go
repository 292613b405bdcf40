package api

import (
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// BuildRequest asks for a build.
type BuildRequest struct {
	Force bool `json:"force,omitempty" doc:"build whatever the growth rule says"`
	Full  bool `json:"full,omitempty" doc:"cluster everything anew, whatever build.growth says; starts a build as force does"`
	// Settle makes summaries again that the tree has carried over.
	Settle bool `json:"settle,omitempty" doc:"make every summary again that has not seen all of its leaves; starts a build as force does"`
	// Trigger says who wants it: command, the default, or growth, which leaves settings that differ for later.
	Trigger   string   `json:"trigger,omitempty" enum:"command,growth" doc:"command (default), or growth: only if the corpus has grown, and not because settings differ"`
	MaxTokens *int     `json:"max_tokens,omitempty" minimum:"0" doc:"budget of the build, input and output together; 0: none; default: as the coordinator is configured"`
	MaxCost   *float64 `json:"max_cost,omitempty" minimum:"0" doc:"budget of the build in the currency of build.prices; 0: none; default: as the coordinator is configured"`
}

// RetryRequest asks for buried tasks to run again.
type RetryRequest struct {
	Cause string `json:"cause,omitempty" doc:"only those that were buried for this cause, as status lists them"`
	BuildRequest
}

// Start is everything that decides what a build does.
type Start struct {
	BuildRequest
	// Retry takes buried tasks back, with Cause only those of one cause.
	Retry bool
	Cause string
	// Key is the Idempotency-Key; "" if there is none.
	Key string
}

// Build is one build, running or at rest.
type Build struct {
	Corpus string `json:"corpus"`
	BuildStatus
	// Attached says that the build ran already, so that a request for one has begun nothing.
	Attached bool `json:"attached" doc:"the build ran already when this was asked for"`
	Resting  bool `json:"resting" doc:"nothing happens any more by itself"`
	// Steps tells in sentences what was done so far, first to last; empty where another process builds.
	Steps []string `json:"steps" doc:"what was done so far, in sentences; empty where another coordinator builds"`
	// Report is what aerie build prints; nil until the build rests.
	Report *BuildReport `json:"report" doc:"what the build did; null until it rests"`
	// Problem says why a build could not go on at all; nil mostly.
	Problem *Problem `json:"problem,omitempty"`
}

// PastBuilds is the JSON of aerie builds.
type PastBuilds struct {
	Corpus string      `json:"corpus"`
	Builds []PastBuild `json:"builds" doc:"in the order in which they began"`
}

// PastBuild is one build of the history, the newest included.
type PastBuild struct {
	Build      string    `json:"build"`
	Generation int       `json:"generation" doc:"that it built toward"`
	Outcome    Outcome   `json:"outcome" doc:"as in the report of a build, and running of one that isn't over"`
	Why        string    `json:"why"`
	Trigger    string    `json:"trigger" doc:"why it began"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Carried    int       `json:"carried"`
	tree.Usage
	Cost *Cost `json:"cost" doc:"of its summaries at the prices of now; null without a price of the model that wrote them"`
}

// RollbackRequest says which way a rollback goes.
type RollbackRequest struct {
	Forward bool `json:"forward,omitempty" doc:"take a rollback back: readers see again the tree that it left"`
}

// Collected is the JSON of aerie gc.
type Collected struct {
	Corpus  string `json:"corpus"`
	Removed int    `json:"removed" doc:"nodes"`
}
