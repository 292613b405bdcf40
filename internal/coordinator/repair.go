package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// mostStill bounds the time between two comparisons of a level that stands still.
const mostStill = 5 * time.Minute

// stillness tells when a barrier has not moved for so long that it is worth a look at the facts.
type stillness struct {
	least time.Duration

	count    levels.Count
	moved    time.Time // zero before the first reading
	patience time.Duration
}

// since takes a reading of the barrier at a time, and reports whether nothing has moved for too long. It says so once, and again
// after twice the time.
func (s *stillness) since(count levels.Count, now time.Time) bool {
	if s.moved.IsZero() || count != s.count {
		s.count, s.moved, s.patience = count, now, s.least
		return false
	}
	if now.Sub(s.moved) < s.patience {
		return false
	}
	s.moved, s.patience = now, min(2*s.patience, max(mostStill, s.least))
	return true
}

// reconcile compares an open level with the facts, and queues what is nowhere.
func (r *run) reconcile(level int) error {
	missing, err := r.publish(level)
	var lost *planLost
	if errors.As(err, &lost) {
		return nil // the way on is the same without it, and a restart makes it anew
	}
	if err != nil || missing == 0 {
		return err
	}
	return r.foundMissing(level, missing)
}

// foundMissing keeps for people how many tasks were nowhere and are queued again.
func (r *run) foundMissing(level, missing int) error {
	_, err := r.step(levels.TasksMissing{Level: level, Tasks: missing})
	return err
}

// repair waits until every node of a sealed level's plan is in the store, but for the buried, and has those made again that are not:
// what they are made from is in the journal.
func (r *run) repair(plan *levels.Plan) error {
	still := stillness{least: r.cfg.Still}
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	for begun := false; ; begun = true {
		missing, err := r.missing(plan)
		if err != nil || missing == 0 {
			return err
		}
		if still.since(levels.Count{Total: missing}, time.Now()) || !begun {
			r.setDoing(fmt.Sprintf("having %d nodes of level %d made again, which are gone", missing, plan.Level))
			queued, err := r.publish(plan.Level)
			if err == nil && queued > 0 {
				err = r.foundMissing(plan.Level, queued)
			}
			if err != nil {
				return err
			}
		}
		if wish, err := r.deps.Builds.StopRequested(r.ctx, r.cfg.Corpus, r.state.Build); err != nil || wish != (levels.Stop{}) {
			if err != nil {
				return fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
			}
			return &stopWish{wish}
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-tick.C:
		case <-r.hints:
		}
	}
}

// missing counts the nodes of a plan that are neither in the store nor buried. More buried ones than are allowed are an error.
func (r *run) missing(plan *levels.Plan) (int, error) {
	gone := make(map[tree.ID]bool)
	for lo := 0; lo < len(plan.Clusters); lo += page {
		ids := make([]tree.ID, 0, page)
		for _, c := range plan.Clusters[lo:min(lo+page, len(plan.Clusters))] {
			ids = append(ids, c.ID)
			gone[c.ID] = true
		}
		nodes, err := r.deps.Store.Get(r.ctx, r.cfg.Corpus, ids, store.Fields{})
		if err != nil {
			return 0, fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
		}
		for i := range nodes {
			if !nodes[i].Emptied() {
				delete(gone, nodes[i].ID)
			}
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	buried, err := r.deps.Queue.Dead(r.ctx, plan.Corpus, plan.Build)
	if err != nil {
		return 0, fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
	}
	dead := 0
	for _, b := range buried {
		if b.Task.Level == plan.Level && b.Task.Digest == plan.Digest && gone[b.Task.ID] {
			delete(gone, b.Task.ID)
			dead++
		}
	}
	if dead > r.allowed(len(plan.Clusters)) {
		return 0, fmt.Errorf("coordinator: %d nodes of level %d are gone from the store and could not be made again", dead, plan.Level)
	}
	return len(gone), nil
}
