package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

func (r *run) of(level int) tree.Level {
	return tree.Level{Corpus: r.cfg.Corpus, Build: r.state.Build, Level: level}
}

// publishLevel compares the plan with the facts and queues what is missing:
//
//	expected = done + queued + dead
//
// Done is what the store holds, queued what the queue holds, dead what was buried. Queued is read first: a task that
// finishes between the readings then shows up in one of them at least; the other order would invent missing ones,
// which is harmless but costs look-ups.
func (r *run) publishLevel(level int) (levels.Event, error) {
	began := time.Now()
	if _, err := r.publish(level); err != nil {
		return lostOr(err)
	}
	return levels.LevelPublished{Level: level, Began: began}, nil
}

// publish is publishLevel that returns how many tasks were nowhere and are queued now. The error is a *planLost if there is
// nothing to compare with.
func (r *run) publish(level int) (int, error) {
	plan, err := r.plan(level)
	if err != nil {
		return 0, err
	}
	r.setDoing(fmt.Sprintf("publishing %d tasks of level %d", len(plan.Clusters), level))
	defer r.setDoing("")
	began := time.Now()
	if err := r.deps.Barrier.Open(r.ctx, r.of(level), plan.Digest, len(plan.Clusters)); err != nil {
		return 0, fmt.Errorf("coordinator: level %d: %w", level, err)
	}
	if err := r.carry(plan); err != nil {
		return 0, err
	}
	queued, err := r.deps.Queue.Queued(r.ctx, r.of(level))
	if err != nil {
		return 0, fmt.Errorf("coordinator: level %d: %w", level, err)
	}
	settled := make(map[tree.ID]bool, len(plan.Clusters))
	for _, id := range queued {
		settled[id] = true
	}
	if err := r.markDone(plan, settled); err != nil {
		return 0, err
	}
	if err := r.markDead(plan, settled); err != nil {
		return 0, err
	}
	var missing []queue.Task
	for position, c := range plan.Clusters {
		if !settled[c.ID] {
			missing = append(missing, taskOf(plan, position))
		}
	}
	if err := r.fenced(r.ctx, func(ctx context.Context) error { return r.deps.Queue.Publish(ctx, missing) }); err != nil {
		return 0, fmt.Errorf("coordinator: publishing level %d: %w", level, err)
	}
	r.deps.Observer.Published(plan, len(missing), time.Since(began))
	return len(missing), nil
}

func taskOf(plan *levels.Plan, position int) queue.Task {
	c := plan.Clusters[position]
	task := queue.Task{
		Corpus: plan.Corpus, Build: plan.Build, Level: plan.Level, ID: c.ID, Position: position,
		Digest: plan.Digest, Recipe: plan.Recipe, Generation: plan.Generation, Scope: plan.Scope,
		DocumentID: c.DocumentID, NLeaves: c.NLeaves, Unseen: c.Unseen, Formed: c.Formed,
	}
	const perID = 40 // bytes of JSON
	if len(c.Children)*perID < queue.MaxTaskBytes/2 {
		task.Children = c.Children
	}
	return task
}

// markDone marks the tasks whose node exists. One that is marked already keeps the usage that was counted for it; for
// a new one a call was saved.
func (r *run) markDone(plan *levels.Plan, settled map[tree.ID]bool) error {
	of := plan.Of()
	already, err := r.deps.Barrier.Positions(r.ctx, of, levels.Done)
	if err != nil {
		return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
	}
	marked := make(map[int]bool, len(already))
	for _, p := range already {
		marked[p] = true
	}
	var marks []levels.Mark
	for lo := 0; lo < len(plan.Clusters); lo += page {
		hi := min(lo+page, len(plan.Clusters))
		ids := make([]tree.ID, 0, hi-lo)
		for _, c := range plan.Clusters[lo:hi] {
			ids = append(ids, c.ID)
		}
		nodes, err := r.deps.Store.Get(r.ctx, r.cfg.Corpus, ids, store.Fields{})
		if err != nil {
			return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
		}
		exists := make(map[tree.ID]bool, len(nodes))
		for i := range nodes {
			exists[nodes[i].ID] = !nodes[i].Emptied()
		}
		for position := lo; position < hi; position++ {
			cluster := &plan.Clusters[position]
			id := cluster.ID
			if !exists[id] || settled[id] {
				continue // a worker has it in hand, and will find the node
			}
			settled[id] = true
			if !marked[position] {
				mark := levels.Mark{Position: position, Outcome: levels.Done}
				if !carries(cluster) {
					mark.Usage.Reused = 1
				}
				marks = append(marks, mark)
			}
		}
	}
	for chunk := range slices.Chunk(marks, page) {
		if _, err := r.deps.Barrier.Mark(r.ctx, of, plan.Digest, chunk...); err != nil {
			return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
		}
	}
	return nil
}

// markDead makes the barrier's dead agree with the buried tasks, both ways.
func (r *run) markDead(plan *levels.Plan, settled map[tree.ID]bool) error {
	of := plan.Of()
	buried, err := r.deps.Queue.Dead(r.ctx, plan.Corpus, plan.Build)
	if err != nil {
		return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
	}
	dead := make(map[int]bool)
	for _, b := range buried {
		if b.Task.Level == plan.Level && b.Task.Digest == plan.Digest && !settled[b.Task.ID] {
			dead[b.Task.Position] = true
			settled[b.Task.ID] = true
		}
	}
	marked, err := r.deps.Barrier.Positions(r.ctx, of, levels.Dead)
	if err != nil {
		return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
	}
	var back []int
	for _, p := range marked {
		if !dead[p] {
			back = append(back, p)
		}
		delete(dead, p)
	}
	if len(back) > 0 {
		if err := r.deps.Barrier.Clear(r.ctx, of, back); err != nil {
			return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
		}
	}
	for p := range dead {
		if _, err := r.deps.Barrier.Mark(r.ctx, of, plan.Digest, levels.Mark{Position: p, Outcome: levels.Dead}); err != nil {
			return fmt.Errorf("coordinator: level %d: %w", plan.Level, err)
		}
	}
	return nil
}

// awaitLevel waits until every task of the level is done or dead. Whenever nothing moves for a while it compares the level with the
// facts again: tasks may be lost from the queue, and marks from the barrier, while everybody waits for them.
func (r *run) awaitLevel(level int) (levels.Event, error) {
	still := stillness{least: r.cfg.Still}
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	for {
		event, err := r.lookAt(level)
		if errors.Is(err, levels.ErrNotOpen) {
			// Its place has lost the barrier; the facts that it is made from are elsewhere.
			r.deps.Log.Warn("a barrier is lost, making it anew", "corpus", r.cfg.Corpus, "build", r.state.Build, "level", level)
			lost, err := r.publishLevel(level)
			if _, published := lost.(levels.LevelPublished); err != nil || !published {
				return lost, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if event.Count.Complete() {
			return event, nil
		}
		if _, err := r.state.Step(event); err != nil { // counts for people; saved with the next transition
			return nil, err
		}
		if still.since(event.Count, time.Now()) {
			if err := r.reconcile(level); err != nil {
				return nil, err
			}
		}
		select {
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		case <-tick.C:
		case <-r.hints:
		}
	}
}

// lookAt reads the barrier, the buried tasks, and whether anybody wants the build to rest.
func (r *run) lookAt(level int) (levels.LevelCounted, error) {
	wish, err := r.deps.Builds.StopRequested(r.ctx, r.cfg.Corpus, r.state.Build)
	if err != nil {
		return levels.LevelCounted{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	if wish != (levels.Stop{}) {
		return levels.LevelCounted{}, &stopWish{wish}
	}
	if full := r.deps.Full.Err(); full != nil {
		return levels.LevelCounted{}, full
	}
	count, err := r.deps.Barrier.Count(r.ctx, r.of(level))
	if err != nil {
		return levels.LevelCounted{}, fmt.Errorf("coordinator: level %d: %w", level, err)
	}
	event := levels.LevelCounted{Level: level, At: time.Now(), Count: count, Allowed: r.allowed(count.Total)}
	if count.Dead > 0 {
		if event.Causes, err = r.readBuried(level); err != nil {
			return levels.LevelCounted{}, err
		}
	}
	return event, nil
}

// allowed is how many buried tasks a level may be sealed with.
func (r *run) allowed(total int) int { return int(r.cfg.Buried * float64(total)) }

// keptBurials is how many buried tasks the build's record lists; the dead stream has them all.
const keptBurials = 1000

// readBuried lists the buried tasks in the build's record, which is saved with its next transition, and counts those of a level by
// cause.
func (r *run) readBuried(level int) (map[string]int, error) {
	buried, err := r.deps.Queue.Dead(r.ctx, r.cfg.Corpus, r.state.Build)
	if err != nil {
		return nil, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	causes := make(map[string]int)
	listed := levels.BuriedListed{ByCause: make(map[string]int)}
	for _, b := range buried {
		if b.Task.Level == level {
			causes[b.Cause]++
		}
		listed.ByCause[b.Cause]++
		if len(listed.Tasks) < keptBurials {
			listed.Tasks = append(listed.Tasks, levels.Burial{
				Task: b.Task.ID.String(), Level: b.Task.Level, Cause: b.Cause, Error: b.Error,
			})
		}
	}
	_, err = r.state.Step(listed)
	return causes, err
}

// publishTree switches readers to the new generation in one step. What the new tree doesn't have gets its end before
// the switch, and what it brings back its beginning, so that a reader at either generation sees exactly its own tree.
func (r *run) publishTree() (levels.Event, error) {
	r.setDoing(fmt.Sprintf("publishing generation %d", r.state.Generation))
	defer r.setDoing("")
	keep := make(map[tree.ID]bool)
	all, unseen := 1, 0.0
	for level := 1; level <= r.state.Deepest(); level++ {
		plan, err := r.plan(level)
		if err == nil {
			// Whatever was lost since the level was sealed: readers get the whole tree or the one before.
			err = r.repair(plan)
		}
		var lost *planLost
		if errors.As(err, &lost) {
			return levels.PlanLost{Level: level}, nil
		}
		if err != nil {
			return nil, err
		}
		tokens, missed := 0, 0
		for _, c := range plan.Clusters {
			keep[c.ID] = true
			tokens, missed = tokens+c.Tokens, missed+c.Unseen
		}
		if level == 1 {
			all = max(tokens, 1)
		}
		unseen = max(unseen, float64(missed)/float64(all))
	}
	record, _, err := r.corpus(r.ctx)
	if err != nil {
		return nil, err
	}
	if err := r.setLives(record, keep); err != nil {
		return nil, err
	}
	if err := r.switchGeneration(unseen, len(keep)); err != nil {
		return nil, fmt.Errorf("coordinator: publishing generation %d: %w", r.state.Generation, err)
	}
	return levels.TreePublished{}, nil
}

// switchGeneration lets readers see the new tree. It is refused to a coordinator that another one has followed.
func (r *run) switchGeneration(unseen float64, summaries int) error {
	return r.changeRecord(func(record *levels.Corpus) error {
		if record.Generation == r.state.Generation {
			return nil // it was killed right after
		}
		baseline := r.state.Baseline
		record.Publish(&levels.Published{
			Generation: r.state.Generation, Baseline: &baseline, StoppedBecause: r.state.StoppedBecause,
			Unseen: unseen, Coherence: r.state.Coherence, Full: r.fullBuild(record), Summaries: summaries,
			Settings: &levels.Settings{
				Scope: r.cfg.Rule.Scope, KeepLeaves: r.cfg.Rule.KeepLeaves, Recipe: r.cfg.Recipe,
				Mode: string(r.cfg.Clustering.Mode), All: r.cfg.Settings,
			},
		}, r.cfg.Keep > 0)
		return nil
	})
}

// changeRecord changes the corpus's record and its copy. It is refused to a coordinator that another one has followed.
func (r *run) changeRecord(change func(*levels.Corpus) error) error {
	var changed levels.Corpus
	return r.fenced(r.ctx, func(ctx context.Context) error {
		epoch := r.hold.Lease().Epoch
		err := r.deps.Corpora.Update(ctx, r.cfg.Corpus, func(record *levels.Corpus) error {
			if record.Epoch > epoch {
				return levels.ErrFenced
			}
			if err := change(record); err != nil {
				return err
			}
			record.Epoch = epoch
			changed = *record
			return nil
		})
		if err != nil {
			return err
		}
		return r.deps.Plans.PutTree(ctx, &changed)
	})
}

// setLives gives every summary the life that the new generation means for it. A life is one span: where a summary comes back that
// readers of the kept tree see and those of now don't, the kept one is let go of first.
func (r *run) setLives(record *levels.Corpus, keep map[tree.ID]bool) error {
	next := r.state.Generation
	type life struct{ born, died int }
	changes := make(map[life][]tree.ID)
	kept, torn := record.Kept(), false
	err := r.deps.Store.Each(r.ctx, r.cfg.Corpus, store.Summaries(), store.Fields{}, func(n *tree.Node) error {
		switch {
		case keep[n.ID] && n.Died != tree.Alive: // dropped before, and back
			born := next
			if n.VisibleAt(record.Generation) {
				born = n.Born // readers of the generation before still need it
			}
			after := tree.Node{Born: born, Died: tree.Alive}
			torn = torn || kept != nil && n.VisibleAt(kept.Generation) != after.VisibleAt(kept.Generation)
			changes[life{born, tree.Alive}] = append(changes[life{born, tree.Alive}], n.ID)
		case !keep[n.ID] && n.Died > next:
			changes[life{n.Born, next}] = append(changes[life{n.Born, next}], n.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("coordinator: publishing generation %d: %w", next, err)
	}
	if torn {
		err := r.changeRecord(func(record *levels.Corpus) error { record.GiveUp(); return nil })
		if err != nil {
			return fmt.Errorf("coordinator: publishing generation %d: %w", next, err)
		}
	}
	for life, ids := range changes { // in any order: the sets are disjoint
		for chunk := range slices.Chunk(ids, page) {
			if err := r.nodes.SetLife(r.ctx, r.cfg.Corpus, chunk, life.born, life.died); err != nil {
				return fmt.Errorf("coordinator: publishing generation %d: %w", next, err)
			}
		}
	}
	return nil
}
