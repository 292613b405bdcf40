package worker

import (
	"fmt"
	"time"
)

// foreign is the last task that was given back because its build has other settings.
type foreign struct {
	build string
	at    time.Time
}

// foreignFor is how long such a task is told of: it comes back within half a minute while its build runs.
const foreignFor = time.Minute

func (w *Worker) mismatched(build string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foreign = foreign{build, time.Now()}
}

// Waiting says for people what keeps the worker from tasks that are there.
func (w *Worker) Waiting() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	if tries := w.breaker.tries(); tries != "" {
		all = append(all, tries)
	}
	if w.foreign.build != "" && time.Since(w.foreign.at) <= foreignFor {
		all = append(all, fmt.Sprintf("the settings of build %s, which are others than this worker's for summaries, embeddings or prompt", w.foreign.build))
	}
	return all
}
