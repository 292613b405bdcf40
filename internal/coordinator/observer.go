package coordinator

import (
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// LeaseEvent is what has become of a coordinator's lease.
type LeaseEvent string

// The events.
const (
	LeaseTaken    LeaseEvent = "taken"
	LeaseReleased LeaseEvent = "released"
	LeaseLost     LeaseEvent = "lost" // another process has it, or it could not be renewed in time; Released follows
)

// Observer is told what a coordinator does. Its methods must not block, and must not keep or change what they are
// given.
type Observer interface {
	Lease(corpus string, event LeaseEvent)
	// Planning is told before a level is planned.
	Planning(level tree.Level)
	// Planned is told of a level's plan when it is durable, and of the time that clustering took; the plan is nil if
	// there is no such level, or if planning failed.
	Planned(level tree.Level, plan *levels.Plan, clustering time.Duration)
	// Published is told how many tasks of a plan a reconciliation has queued, and how long it took.
	Published(plan *levels.Plan, tasks int, took time.Duration)
	// Saved is told of each state of a build that was made durable.
	Saved(state *levels.State)
}

// unobserved is the Observer of those who have none.
type unobserved struct{}

func (unobserved) Lease(string, LeaseEvent)                        {}
func (unobserved) Planning(tree.Level)                             {}
func (unobserved) Planned(tree.Level, *levels.Plan, time.Duration) {}
func (unobserved) Published(*levels.Plan, int, time.Duration)      {}
func (unobserved) Saved(*levels.State)                             {}
