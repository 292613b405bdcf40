package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
)

// look is what a worker knows of the newest build of a corpus.
type look struct {
	at    time.Time
	state *levels.State // nil: there is none
}

// lookEvery is how long a look at a build's state is good for.
const lookEvery = time.Second

// resting says that a task's build rests: its tasks wait in the queue until it goes on, and none may be paid for.
type resting struct {
	status  levels.Status
	updated time.Time
}

func (e *resting) Error() string { return "its build rests: " + string(e.status) }

// after is how long a task of a resting build waits before it is looked at again: longer the longer the build rests, so
// that neither a short pause nor a long night costs much.
func (e *resting) after() time.Duration {
	return min(max(time.Since(e.updated), 500*time.Millisecond), 10*time.Second)
}

// check returns an error if the task's build rests.
func (w *Worker) check(ctx context.Context, t *queue.Task) error {
	state, err := w.look(ctx, t.Corpus)
	switch {
	case err != nil:
		return &dependency{fmt.Errorf("reading the state of the build: %w", err)}
	case state != nil && state.Build == t.Build && state.Resting():
		return &resting{state.Status, state.Updated}
	}
	return nil
}

// look returns the state of a corpus's newest build, not older than lookEvery; nil if there is none.
func (w *Worker) look(ctx context.Context, corpus string) (*levels.State, error) {
	w.mu.Lock()
	known, ok := w.looked[corpus]
	w.mu.Unlock()
	if ok && time.Since(known.at) < lookEvery {
		return known.state, nil
	}
	state, err := w.deps.Builds.Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) {
		state, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.looked[corpus] = look{time.Now(), state}
	w.mu.Unlock()
	return state, nil
}
