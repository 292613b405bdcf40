// Package queue is the contract of the work queue: one task for each cluster of a level's plan.
//
// Package natsqueue implements it on NATS JetStream, in this process or on a server; package queuetest holds the
// contract suite, an in-memory twin and fault decorators.
//
// The queue promises at-least-once delivery. A confirmed ack proves that a task left the queue, never who did
// the work: an expired holder's late ack counts too. So everything that a worker does for a task must be
// harmless when it is done twice.
package queue

import (
	"context"
	"errors"
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Errors of a Queue, wrapped with the task's id.
var (
	// ErrTooLarge: a task doesn't fit into a message.
	ErrTooLarge = errors.New("task too large")
	// ErrLost: the lease on a delivery is gone, or whether it holds can't be told any more.
	ErrLost = errors.New("lease lost")
	// ErrSettled: the delivery has been settled before.
	ErrSettled = errors.New("delivery is settled already")
	// ErrUnavailable: the queue can't be reached.
	ErrUnavailable = errors.New("queue unavailable")
)

// MaxTaskBytes is the largest encoded task, without its headers.
const MaxTaskBytes = 64 << 10

// MaxHeaderBytes bounds the names and values of a task's headers together.
const MaxHeaderBytes = 2 << 10

// Task asks for one summary. It carries ids, not text.
type Task struct {
	Corpus string  `json:"corpus"`
	Build  string  `json:"build"`
	Level  int     `json:"level"` // of the summary, from 1
	ID     tree.ID `json:"id"`    // of the summary, and of the task

	Position int    `json:"position"` // in the plan; the barrier's bit
	Digest   string `json:"digest"`   // of the plan
	Recipe   string `json:"recipe"`

	Generation int        `json:"generation"` // Born of the node to write
	Scope      tree.Scope `json:"scope"`
	DocumentID string     `json:"document_id"`
	NLeaves    int        `json:"n_leaves"`
	// Unseen and Formed are those of the node to write.
	Unseen int `json:"unseen_tokens,omitempty"`
	Formed int `json:"formed_tokens,omitempty"`

	// Children are in the order in which they are summarized. Empty when the list would not fit into
	// MaxTaskBytes: then it is read from the plan.
	Children []tree.ID `json:"children,omitempty"`

	// Headers travel beside the task and reach every delivery of it, after a restart too: the trace that it belongs to,
	// as W3C traceparent and tracestate. They mean nothing to the queue. A second copy of an unfinished task doesn't
	// change the first one's, and the dead keep none. Names are of a-z, 0-9 and "-", not beginning with "nats-", values of printable ASCII, all
	// together of at most MaxHeaderBytes; see [CheckHeaders].
	Headers map[string]string `json:"-"`
}

// Of returns the level that a task belongs to.
func (t *Task) Of() tree.Level { return tree.Level{Corpus: t.Corpus, Build: t.Build, Level: t.Level} }

// Buried is a task that was given up, with the reason.
type Buried struct {
	Task  Task      `json:"task"`
	Cause string    `json:"cause"` // one word of a small set, such as "refused"; for grouping
	Error string    `json:"error"` // one sentence
	At    time.Time `json:"at"`
}

// Delivery is a task in the hands of one worker, under a lease that runs out unless it is extended.
// Each delivery is settled once, by Done, Retry or Bury; what follows is ErrSettled. One that failed with
// ErrUnavailable, or with the end of its context, may be repeated. Retry and Bury under a lost lease change nothing and
// return ErrLost; Done under a lost lease counts, since the work is done.
type Delivery interface {
	Task() Task
	// Extend renews the lease. ErrLost says that the work should stop; after any other error the lease still
	// holds, and Extend should be tried again soon.
	Extend(ctx context.Context) error
	// Done removes the task from the queue, and returns when the queue has confirmed it.
	Done(ctx context.Context) error
	// Retry gives the task back, to be delivered again after a delay; 0 means at once.
	Retry(ctx context.Context, after time.Duration) error
	// Bury moves the task to the dead: first written there, then removed from the queue.
	Bury(ctx context.Context, cause, message string) error
}

// Queue holds tasks until they are done or buried. Its methods may be called from many goroutines.
type Queue interface {
	// Publish adds tasks. One that is unfinished already (same corpus, build, level and id) counts as
	// published, even after a restart of the queue. On an error some may have been added; publishing
	// again is harmless.
	Publish(ctx context.Context, tasks []Task) error

	// Receive waits for a task. It fetches one and no more: nothing is held back in a buffer. It returns
	// ctx.Err() when ctx ends.
	Receive(ctx context.Context) (Delivery, error)

	// Queued returns the ids of a level's unfinished tasks, waiting or in hand, in any order.
	Queued(ctx context.Context, level tree.Level) ([]tree.ID, error)

	// Dead returns the buried tasks of a build, by level, then position. A task buried twice is listed once.
	Dead(ctx context.Context, corpus, build string) ([]Buried, error)

	// Exhume removes tasks from the dead so that they can be published again.
	Exhume(ctx context.Context, tasks []Task) error

	// Withdraw removes the queued tasks of a build, which its plan can publish again, and leaves its dead. The lease of one
	// in hand is lost.
	Withdraw(ctx context.Context, corpus, build string) error

	// Purge removes every task of a build, queued or dead. The lease of one in hand is lost.
	Purge(ctx context.Context, corpus, build string) error
}
