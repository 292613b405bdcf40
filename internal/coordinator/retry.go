package coordinator

import (
	"context"
	"fmt"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
)

// retry takes buried tasks back and lets the build go on with them. A tree that was published without its buried tasks is built
// again: its plan has the same clusters, and what was made is there, so that only what was buried is asked for, and what stands on it.
func (r *run) retry(record *levels.Corpus, d levels.Decision) (api.BuildReport, error) {
	cause := r.req.RetryCause
	switch {
	case r.state != nil && r.state.Status == levels.Built && r.buriedFor(cause):
		if r.state.Config != r.configDigest() {
			return api.BuildReport{}, (&BuiltOtherwiseError{Corpus: r.cfg.Corpus, Generation: r.state.Generation, Changes: Changes(r.state.Settings, r.cfg.Settings)})
		}
		return r.start(record, r.req, d)
	case r.state == nil || !r.state.Resumable():
		return r.nothingToDo(record, "no build of this corpus has buried tasks"), nil
	case r.state.Config != r.configDigest():
		return api.BuildReport{}, r.otherSettings()
	}
	buried, err := r.deps.Queue.Dead(r.ctx, r.cfg.Corpus, r.state.Build)
	if err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	var tasks []queue.Task
	var positions []int
	level := len(r.state.Levels)
	for _, b := range buried {
		if b.Task.Level == level && (cause == "" || b.Cause == cause) {
			tasks = append(tasks, b.Task)
			positions = append(positions, b.Task.Position)
		}
	}
	if len(tasks) == 0 {
		why := "no task is buried"
		if cause != "" {
			why = fmt.Sprintf("no task is buried because of %q", cause)
		}
		return r.nothingToDo(record, why), nil
	}
	// The dead first: when this is cut short, the reconciliation at the next start clears the marks.
	if err := r.fenced(r.ctx, func(ctx context.Context) error { return r.deps.Queue.Exhume(ctx, tasks) }); err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	for _, t := range tasks {
		if err := r.deps.Journal.Forget(r.ctx, t.Build, t.ID); err != nil {
			return api.BuildReport{}, fmt.Errorf("coordinator: task %s: %w", t.ID, err)
		}
	}
	if err := r.deps.Barrier.Clear(r.ctx, r.of(level), positions); err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: level %d: %w", level, err)
	}
	if err := r.deps.Builds.RequestStop(r.ctx, r.cfg.Corpus, r.state.Build, levels.Stop{}); err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	if _, err := r.readBuried(level); err != nil {
		return api.BuildReport{}, err
	}
	if _, err := r.step(levels.Reopened{Level: level}); err != nil {
		return api.BuildReport{}, err
	}
	r.say("%d buried tasks of level %d run again", len(tasks), level)
	return r.drive()
}

// buriedFor reports whether the newest build has buried tasks, for a cause if that isn't "".
func (r *run) buriedFor(cause string) bool {
	if cause == "" {
		return len(r.state.BuriedCount) > 0
	}
	return r.state.BuriedCount[cause] > 0
}
