package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

// breaker notices that every call to an endpoint fails in the same way and none succeeds: then the endpoint is away or misconfigured
// and no task is to blame. From then on one call at a time tries it, less and less often, until one succeeds; whatever else is in
// hand waits. Its fields are guarded by the worker's mutex.
type breaker struct {
	alike   string // what the failures have in common
	failed  int    // in a row, without a success
	tasks   map[tree.ID]bool
	open    bool
	since   time.Time     // of the first failure in the row
	probing bool          // a call is under way that tries it
	next    time.Time     // when the next one may
	pause   time.Duration // after which that was
	changed chan struct{} // closed when it is over; nil unless open
}

const (
	// alikeFailures of alikeTasks different tasks open the breaker.
	alikeFailures = 5
	alikeTasks    = 3
	// firstProbe and lastProbe bound the time between two tries.
	firstProbe = 2 * time.Second
	lastProbe  = 30 * time.Second
)

// mayCall waits while the endpoint fails alike, until this call may try it or another one has succeeded.
func (w *Worker) mayCall(ctx context.Context) error {
	for {
		wait, changed := w.turn()
		if changed == nil {
			return nil
		}
		if err := llm.WaitErr(ctx); err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-llm.Leaving(ctx):
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn says how long to wait before asking again, and what ends the wait; nil if the call may be made.
func (w *Worker) turn() (time.Duration, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.breaker
	now := time.Now()
	switch {
	case !b.open:
		return 0, nil
	case !b.probing && !now.Before(b.next):
		b.probing = true
		return 0, nil
	}
	return max(b.next.Sub(now), 100*time.Millisecond), b.changed
}

// called notes how a call has ended. An answer that was paid for before says nothing of the endpoint.
func (w *Worker) called(usage tree.Usage, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || usage.Calls == 0 {
		w.breaker.probing = false
		return
	}
	if w.breaker.open {
		close(w.breaker.changed)
		w.deps.Log.Info("the endpoint answers again", "after", time.Since(w.breaker.since).Round(time.Second))
	}
	w.breaker = breaker{}
}

// failsAlike notes a failure, and reports whether it is the endpoint's and not the task's, and for how long that has been so.
func (w *Worker) failsAlike(task tree.ID, call *llm.Error) (alike bool, lasts time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.breaker
	now := time.Now()
	if what := fmt.Sprint(call.Endpoint, " ", call.Kind, " ", call.Status); what != b.alike {
		if b.open {
			close(b.changed)
		}
		*b = breaker{alike: what, tasks: map[tree.ID]bool{}, since: now}
	}
	b.failed++
	if len(b.tasks) < alikeTasks {
		b.tasks[task] = true
	}
	if !b.open && (b.failed < alikeFailures || len(b.tasks) < alikeTasks) {
		return false, 0
	}
	if !b.open {
		b.open, b.changed = true, make(chan struct{})
		w.deps.Log.Error("every call fails alike and none succeeds: the endpoint is away or misconfigured, and no further task is blamed; one call at a time tries it",
			"failures", b.failed, "error", call)
	}
	b.pause = min(max(2*b.pause, firstProbe), lastProbe)
	b.next = now.Add(b.pause)
	return true, now.Sub(b.since)
}

// tries says for people that the endpoint is tried one call at a time; "" if it isn't.
func (b *breaker) tries() string {
	if !b.open {
		return ""
	}
	return fmt.Sprintf("endpoint %s: every call has failed alike since %s, one at a time tries it", b.alike, b.since.Format(time.TimeOnly))
}
