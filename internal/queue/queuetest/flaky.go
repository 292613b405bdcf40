package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Op names a call that Flaky can disturb.
type Op string

// The calls.
const (
	OpPublish  Op = "publish"
	OpReceive  Op = "receive"
	OpQueued   Op = "queued"
	OpDead     Op = "dead"
	OpExhume   Op = "exhume"
	OpWithdraw Op = "withdraw"
	OpPurge    Op = "purge"
	OpExtend   Op = "extend"
	OpDone     Op = "done"
	OpRetry    Op = "retry"
	OpBury     Op = "bury"
)

// Fault is what happens to a call.
type Fault int

// The faults.
const (
	// None lets the call through.
	None Fault = iota
	// Before fails the call without any effect. The error is queue.ErrUnavailable.
	Before
	// After makes the call and loses the reply: the effect is there, the caller gets queue.ErrUnavailable. A
	// Receive that loses its reply gives the task back, as the end of its lease would.
	After
	// Twice is for Receive: the same task is handed out again by the next Receive although its first holder is
	// well, as a queue does whose lease has expired.
	Twice
	// Lose is for a delivery's calls: its lease is lost. The task goes to the next Receive. Extend, Retry and Bury
	// return queue.ErrLost, and Done counts, as the contract says of an expired holder's.
	Lose
)

// Decide picks the fault of the nth call, counted from 0 over all calls. The task is zero where the call isn't
// about one. It may be called from many goroutines.
type Decide func(n int, op Op, task tree.ID) Fault

// Rates are the probabilities of the faults, by call.
type Rates map[Op]map[Fault]float64

// EveryFault returns rates that disturb each kind of call in each way that it can be, with a probability of p.
func EveryFault(p float64) Rates {
	r := Rates{}
	for _, op := range []Op{OpPublish, OpQueued, OpDead, OpExhume, OpWithdraw, OpPurge} {
		r[op] = map[Fault]float64{Before: p, After: p}
	}
	r[OpReceive] = map[Fault]float64{Before: p, After: p, Twice: p}
	for _, op := range []Op{OpExtend, OpDone, OpRetry, OpBury} {
		r[op] = map[Fault]float64{Before: p, After: p, Lose: p}
	}
	return r
}

// Seeded picks faults at random. A seed gives the same faults to the same sequence of calls.
func Seeded(seed uint64, rates Rates) Decide {
	return func(n int, op Op, _ tree.ID) Fault {
		x := rand.New(rand.NewPCG(seed, uint64(n))).Float64()
		for _, fault := range []Fault{Before, After, Twice, Lose} {
			if x -= rates[op][fault]; x < 0 {
				return fault
			}
		}
		return None
	}
}

// Flaky is a queue whose calls fail by a plan.
type Flaky struct {
	queue  queue.Queue
	decide Decide

	mu     sync.Mutex
	calls  int
	counts map[Fault]int
	again  []*held          // handed out by the next Receives
	late   map[taskKey]bool // done by an expired holder; swallowed when they come
}

// NewFlaky returns a queue over q that asks decide before each call.
func NewFlaky(q queue.Queue, decide Decide) *Flaky {
	return &Flaky{queue: q, decide: decide, counts: map[Fault]int{}, late: map[taskKey]bool{}}
}

// Faults returns how often a fault happened.
func (f *Flaky) Faults(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[fault]
}

func (f *Flaky) fault(op Op, task tree.ID) Fault {
	f.mu.Lock()
	n := f.calls
	f.calls++
	f.mu.Unlock()
	fault := f.decide(n, op, task)
	if fault != None {
		f.mu.Lock()
		f.counts[fault]++
		f.mu.Unlock()
	}
	return fault
}

// call runs a call whose only faults are Before and After.
func (f *Flaky) call(op Op, call func() error) error {
	fault := f.fault(op, tree.ID{})
	if fault == Before {
		return disturbed(op, "before")
	}
	err := call()
	if err == nil && fault == After {
		return disturbed(op, "after")
	}
	return err
}

func disturbed(op Op, when string) error {
	return fmt.Errorf("queuetest: %s was made to fail %s its effect: %w", op, when, queue.ErrUnavailable)
}

// Publish implements queue.Queue.
func (f *Flaky) Publish(ctx context.Context, tasks []queue.Task) error {
	f.mu.Lock()
	for i := range tasks {
		delete(f.late, keyOf(&tasks[i])) // what comes now may be a new copy
	}
	f.mu.Unlock()
	return f.call(OpPublish, func() error { return f.queue.Publish(ctx, tasks) })
}

// Queued implements queue.Queue.
func (f *Flaky) Queued(ctx context.Context, level tree.Level) (ids []tree.ID, err error) {
	err = f.call(OpQueued, func() error {
		ids, err = f.queue.Queued(ctx, level)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(ids, func(id tree.ID) bool { return f.late[taskKey{level: level, id: id}] }), nil
}

// Dead implements queue.Queue.
func (f *Flaky) Dead(ctx context.Context, corpus, build string) (list []queue.Buried, err error) {
	err = f.call(OpDead, func() error {
		list, err = f.queue.Dead(ctx, corpus, build)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Exhume implements queue.Queue.
func (f *Flaky) Exhume(ctx context.Context, tasks []queue.Task) error {
	return f.call(OpExhume, func() error { return f.queue.Exhume(ctx, tasks) })
}

// Withdraw implements queue.Queue.
func (f *Flaky) Withdraw(ctx context.Context, corpus, build string) error {
	return f.call(OpWithdraw, func() error { return f.queue.Withdraw(ctx, corpus, build) })
}

// Purge implements queue.Queue.
func (f *Flaky) Purge(ctx context.Context, corpus, build string) error {
	return f.call(OpPurge, func() error { return f.queue.Purge(ctx, corpus, build) })
}

func (f *Flaky) setLate(task *queue.Task, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if late {
		f.late[keyOf(task)] = true
	} else {
		delete(f.late, keyOf(task))
	}
}

// Receive implements queue.Queue.
func (f *Flaky) Receive(ctx context.Context) (queue.Delivery, error) {
	fault := f.fault(OpReceive, tree.ID{})
	if fault == Before {
		return nil, disturbed(OpReceive, "before")
	}
	h, err := f.next(ctx)
	if err != nil {
		return nil, err
	}
	switch fault {
	case After:
		if err := h.giveBack(ctx); err != nil {
			return nil, err
		}
		return nil, disturbed(OpReceive, "after")
	case Twice:
		f.mu.Lock()
		f.again = append(f.again, h)
		f.mu.Unlock()
	}
	return &flakyDelivery{flaky: f, held: h}, nil
}

// next returns a task that is to be handed out again, or one from the queue.
func (f *Flaky) next(ctx context.Context) (*held, error) {
	f.mu.Lock()
	if len(f.again) > 0 && ctx.Err() == nil {
		h := f.again[0]
		f.again = f.again[1:]
		f.mu.Unlock()
		return h, nil
	}
	f.mu.Unlock()
	for {
		d, err := f.queue.Receive(ctx)
		if err != nil {
			return nil, err
		}
		task := d.Task()
		f.mu.Lock()
		late := f.late[keyOf(&task)]
		delete(f.late, keyOf(&task))
		f.mu.Unlock()
		if !late {
			return &held{delivery: d}, nil
		}
		if err := d.Done(ctx); err != nil {
			return nil, err
		}
	}
}

// held is one lease of the queue below, which several holders may believe to have.
type held struct {
	mu       sync.Mutex
	delivery queue.Delivery
	settled  Op // the call that ended it; "" before
}

func (h *held) giveBack(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.settled != "" {
		return nil
	}
	h.settled = OpRetry
	return h.delivery.Retry(ctx, 0)
}

// flakyDelivery is what one holder believes to have.
type flakyDelivery struct {
	flaky *Flaky
	held  *held

	mu      sync.Mutex
	lost    bool
	settled bool
}

// Task implements queue.Delivery.
func (d *flakyDelivery) Task() queue.Task { return d.held.delivery.Task() }

// Extend implements queue.Delivery.
func (d *flakyDelivery) Extend(ctx context.Context) error {
	return d.call(ctx, OpExtend, func() error { return d.held.delivery.Extend(ctx) })
}

// Done implements queue.Delivery.
func (d *flakyDelivery) Done(ctx context.Context) error {
	return d.call(ctx, OpDone, func() error { return d.held.delivery.Done(ctx) })
}

// Retry implements queue.Delivery.
func (d *flakyDelivery) Retry(ctx context.Context, after time.Duration) error {
	return d.call(ctx, OpRetry, func() error { return d.held.delivery.Retry(ctx, after) })
}

// Bury implements queue.Delivery.
func (d *flakyDelivery) Bury(ctx context.Context, cause, message string) error {
	return d.call(ctx, OpBury, func() error { return d.held.delivery.Bury(ctx, cause, message) })
}

func (d *flakyDelivery) call(ctx context.Context, op Op, call func() error) error {
	task := d.Task()
	fault := d.flaky.fault(op, task.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return fmt.Errorf("queuetest: %s task %s: %w", op, task.ID, queue.ErrSettled)
	}
	if fault == Before {
		return disturbed(op, "before")
	}
	if fault == Lose && !d.lost {
		d.lost = true
		if err := d.held.giveBack(ctx); err != nil && !errors.Is(err, queue.ErrLost) {
			return err
		}
	}
	err := d.effect(op, &task, call)
	switch {
	case err == nil && fault == After:
		// The caller doesn't know, and repeats; a repeat finds the delivery settled below, and is told the truth then.
		return disturbed(op, "after")
	case err == nil && op != OpExtend, errors.Is(err, queue.ErrLost) && op != OpExtend:
		d.settled = true
	}
	return err
}

// effect makes the call on the lease below, or finds that another holder, or a call whose reply was lost, has ended it.
func (d *flakyDelivery) effect(op Op, task *queue.Task, call func() error) error {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	ended := d.held.settled
	switch {
	case !d.lost && ended == "":
		err := call()
		if op != OpExtend && (err == nil || errors.Is(err, queue.ErrLost)) {
			d.held.settled = op
		}
		if err == nil && (op == OpDone || op == OpBury) {
			d.flaky.setLate(task, false)
		}
		return err
	case op == ended && !d.lost:
		return nil // the repeat of a call whose reply was lost
	case op == OpDone && ended == OpRetry:
		// The task is in the queue again, or on its way there. A late Done counts.
		d.flaky.setLate(task, true)
		return nil
	case op == OpDone:
		return nil
	default:
		return fmt.Errorf("queuetest: %s task %s: %w", op, task.ID, queue.ErrLost)
	}
}
