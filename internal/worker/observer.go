package worker

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
)

// Outcome is how a delivery of a task ended for its worker.
type Outcome string

// The outcomes.
const (
	Done     Outcome = "done"     // its node was made
	Reused   Outcome = "reused"   // its node existed
	Failed   Outcome = "failed"   // the attempt counts, and the task is tried again
	Returned Outcome = "returned" // given back, and the attempt doesn't count
	Buried   Outcome = "buried"
)

// End says how a delivery ended.
type End struct {
	Outcome Outcome
	Cause   string // of Buried: one word
	Took    time.Duration
	Err     error // why it wasn't done; nil for Done and Reused
	// LeaseLost says that the lease ran out while the work went on.
	LeaseLost bool
}

// Observer is told what becomes of tasks. Its methods are called from every slot, and must not block.
type Observer interface {
	// Taken is told of a delivery before anything is done for it. The work goes on under the context that it returns.
	Taken(ctx context.Context, t *queue.Task) context.Context
	// Settled is told how the delivery ended, once for each Taken and with its context.
	Settled(ctx context.Context, t *queue.Task, end End)
}

// unobserved is the Observer of those who have none.
type unobserved struct{}

func (unobserved) Taken(ctx context.Context, _ *queue.Task) context.Context { return ctx }
func (unobserved) Settled(context.Context, *queue.Task, End)                {}
