package api

import (
	"github.com/aerie-rag/aerie/internal/levels"
)

// The exit codes are a contract with scripts.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitLeftOut     = 3 // finished, but something was left out
	ExitBudget      = 4 // what a build may spend is spent; it is paused
	ExitUnreachable = 5 // a dependency can't be reached
	ExitInterrupted = 130
)

// exitOf has the codes of all causes. That of a build whose process was told to end is the one of whoever waits for it; a program
// that was itself interrupted leaves with ExitInterrupted.
var exitOf = map[levels.Cause]int{
	levels.CauseBudget:      ExitBudget,
	levels.CauseUnreachable: ExitUnreachable,
	levels.CauseFull:        ExitUnreachable,
	levels.CauseBuried:      ExitLeftOut,
	levels.CauseAuth:        ExitFailed,
	levels.CauseQuota:       ExitFailed,
	levels.CauseAsked:       ExitFailed,
	levels.CauseInterrupted: ExitFailed,
	levels.CauseReplaced:    ExitFailed,
	levels.CauseSettings:    ExitFailed,
	levels.CauseError:       ExitFailed,
}

// ExitOf returns the code that the command line leaves with after a build.
func ExitOf(r BuildReport) int {
	stop := r.Stop()
	if stop == (levels.Stop{}) {
		if len(r.Buried) > 0 || r.CutPrompts > 0 {
			return ExitLeftOut
		}
		return ExitDone
	}
	if code, ok := exitOf[stop.Cause]; ok {
		return code
	}
	return ExitFailed // a cause of a newer version
}
