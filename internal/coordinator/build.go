package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TriggerSchedule is the trigger of a build that a schedule asks for: whoever asks has seen that the corpus has changed, and
// the growth rule isn't asked.
const TriggerSchedule = "schedule"

// TriggerResumed is the trigger of whoever goes on with what another process left unfinished. Should that not be possible
// any more, because the configuration is another, and nothing else be due, the build is cancelled; what it paid for stays.
const TriggerResumed = "resumed"

// Request asks for a build.
type Request struct {
	// Force builds whatever the growth rule says.
	Force bool
	// Full builds in full, whatever the configuration says, and Restale makes every carried summary that has not seen all of its
	// leaves. Either takes the place of an unfinished build that doesn't, and starts one as Force does.
	Full, Restale bool
	// Trigger says why, for the record: "growth", "command", "schedule".
	Trigger string
	// Retry takes buried tasks back; with RetryCause only those of one cause. Without any, nothing is built.
	Retry      bool
	RetryCause string
	// MaxTokens and MaxCost are the budget of the build, input and output together; nil: as it is configured. With TriggerResumed the
	// build keeps the one that it has.
	MaxTokens *int
	MaxCost   *float64
	// Key, if not empty, is kept in the state of the build that this request begins or goes on with, so that whoever asks again with
	// the same key can be told of that build.
	Key string
	// Said, if not nil, is told what Deps.Events is told. It must be fast.
	Said func(string)
	// Began, if not nil, is told the build's id once it is durable that the build goes on. Nothing to do, no call.
	Began func(build string)
	// Settle, if not nil, is called before a stop is recorded: workers of this process finish or give back
	// what they have in hand.
	Settle func()
	// HandOver leaves a build running when ctx ends, for another coordinator to go on with, where it would be paused.
	HandOver bool
	// Detach returns as soon as the build has begun. Another coordinator goes on with it.
	Detach bool
}

// Build brings the corpus's tree up to date: it resumes a build that was interrupted, starts one if the growth rule or
// Force says so, and returns when the build rests. When ctx ends it pauses the build, which the next call resumes. The
// error is levels.ErrHeld if another process is building; a build that ends badly is no error but an outcome.
func (c *Coordinator) Build(ctx context.Context, req Request) (api.BuildReport, error) {
	run, err := c.acquire(ctx)
	if err != nil {
		return api.BuildReport{}, err
	}
	defer run.release()
	report, err := run.build(req)
	if err != nil && run.ctx.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, context.Cause(run.ctx))
	}
	return report, err
}

// build decides what to do, does it, and reports.
func (r *run) build(req Request) (api.BuildReport, error) {
	r.req = req
	record, leaves, err := r.corpus(r.ctx)
	if err != nil {
		return api.BuildReport{}, err
	}
	state, err := r.deps.Builds.Load(r.ctx, r.cfg.Corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return api.BuildReport{}, fmt.Errorf("coordinator: corpus %s: %w", r.cfg.Corpus, err)
	default:
		r.state = state
	}
	decision := r.cfg.Rule.Decide(record, leaves)
	switch {
	case req.Retry:
		return r.retry(record, decision)
	case r.continues(record, decision, req):
		return r.resume()
	}
	start := req.Force || req.Full || req.Restale || decision.Due || (decision.Differs && req.Trigger == "command") || req.Trigger == TriggerSchedule
	if record.Generation == 0 && leaves == 0 {
		start = false // nothing to build from, and nothing to take away
	}
	if !start && req.Trigger == TriggerResumed && r.state != nil && !r.state.Resting() {
		if err := r.abandon(levels.CauseSettings, "the configuration has changed since it began, and no other build is due"); err != nil {
			return api.BuildReport{}, err
		}
	}
	if !start && req.Trigger == "command" && r.unfinishedOtherwise(record) {
		return api.BuildReport{}, r.otherSettings()
	}
	if !start {
		return r.nothingToDo(record, withSettings(decision.Why, record, r.cfg.Settings)), nil
	}
	if err := r.abandon(levels.CauseReplaced, "another build takes its place"); err != nil {
		return api.BuildReport{}, err
	}
	return r.start(record, req, decision)
}

// continues reports whether the newest build goes on, or still stands as it is, instead of a new one.
func (r *run) continues(record *levels.Corpus, d levels.Decision, req Request) bool {
	if r.state == nil || !r.state.Resumable() || r.state.Config != r.configDigest() {
		return false
	}
	// A kill between the switch of the generation and the save after it leaves the two equal.
	switched := r.state.Status == levels.PublishingTree && r.state.Generation == record.Generation
	if r.state.Generation != record.Next() && !switched {
		return false
	}
	if grows := r.state.From > 0; grows && (req.Full || !r.cfg.Incremental) || req.Restale && grows && r.state.Stale > 0 {
		return false
	}
	if r.state.Status == levels.Degraded {
		// Starting again would bury the same tasks again; only a changed corpus or a person's wish does.
		return !req.Force && (!d.Due || record.Changes == r.state.Baseline.Changes)
	}
	return true
}

func (r *run) start(record *levels.Corpus, req Request, d levels.Decision) (api.BuildReport, error) {
	now := time.Now()
	why := req.Trigger
	if d.Due {
		why += ": " + d.Why
	}
	var version int64
	if r.state != nil {
		version = r.state.Version
	}
	stale := r.cfg.Stale
	if req.Restale {
		stale = 0
	}
	r.state = &levels.State{
		Version: version,
		Corpus:  r.cfg.Corpus, Build: newBuildID(now), Generation: record.Next(), Before: record.Generation, Recipe: r.cfg.Recipe,
		Config: r.configDigest(), Settings: r.cfg.Settings, Trigger: why, MaxDepth: r.cfg.MaxDepth, Status: levels.Running, Started: now,
		From: r.from(record, req), Stale: stale, Key: r.req.Key, MaxTokens: r.req.MaxTokens, MaxCost: r.req.MaxCost,
	}
	if err := r.save(r.ctx); err != nil {
		return api.BuildReport{}, err
	}
	r.say("build %s starts toward generation %d", r.state.Build, r.state.Generation)
	return r.drive()
}

// books tells whoever keeps the budget what the build has spent.
func (r *run) books() error {
	if r.deps.Books == nil {
		return nil
	}
	spent, err := r.spent()
	if err == nil {
		err = r.deps.Books(r.ctx, r.state, spent)
	}
	if err != nil {
		return fmt.Errorf("coordinator: build %s: the budget: %w", r.state.Build, err)
	}
	return nil
}

// spent sums the usage of all levels. Barriers know better than the record, which is written at transitions only.
func (r *run) spent() (tree.Usage, error) {
	var spent tree.Usage
	for _, l := range r.state.Levels {
		usage := l.Usage
		count, err := r.deps.Barrier.Count(r.ctx, r.of(l.Level))
		switch {
		case err == nil && count.Usage.Calls > usage.Calls:
			usage = count.Usage
		case err != nil && !errors.Is(err, levels.ErrNotOpen):
			return spent, err
		}
		spent = spent.Add(usage)
	}
	return spent, nil
}

func (r *run) resume() (api.BuildReport, error) {
	if r.state.Status == levels.Degraded {
		return r.resumeDegraded()
	}
	if err := r.deps.Builds.RequestStop(r.ctx, r.cfg.Corpus, r.state.Build, levels.Stop{}); err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	r.say("build %s goes on", r.state.Build)
	if _, err := r.step(levels.Resumed{}); err != nil {
		return api.BuildReport{}, err
	}
	return r.drive()
}

// resumeDegraded goes on with a build that has more buried tasks than it was allowed, if it is allowed them now.
func (r *run) resumeDegraded() (api.BuildReport, error) {
	top := r.state.Levels[len(r.state.Levels)-1]
	if top.Dead > r.allowed(top.Total) {
		return r.report(), nil
	}
	if err := r.deps.Builds.RequestStop(r.ctx, r.cfg.Corpus, r.state.Build, levels.Stop{}); err != nil {
		return api.BuildReport{}, fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	r.say("build %s goes on without %d buried tasks", r.state.Build, top.Dead)
	if _, err := r.step(levels.Reopened{Level: top.Level}); err != nil {
		return api.BuildReport{}, err
	}
	return r.drive()
}

// drive does what the state says until the build rests.
func (r *run) drive() (api.BuildReport, error) {
	r.deps.Full.Clear() // whoever asks for a build says that there is room, or tries
	// A resume by itself keeps the budget that somebody asked for.
	asked := levels.Requested{Key: r.req.Key, Budget: r.req.Trigger != TriggerResumed, MaxTokens: r.req.MaxTokens, MaxCost: r.req.MaxCost}
	if _, err := r.step(asked); err != nil {
		return api.BuildReport{}, err
	}
	if r.req.Began != nil {
		r.req.Began(r.state.Build)
	}
	if r.req.Detach {
		return r.report(), nil
	}
	if err := errors.Join(r.books(), r.makeWay(r.ctx)); err != nil {
		if r.ctx.Err() == nil {
			return api.BuildReport{}, err
		}
		if err = r.stopOn(err); err != nil {
			return api.BuildReport{}, err
		}
		return r.report(), nil
	}
	ready := r.state.Next()
	if ready.Do == levels.AwaitLevel {
		// Whatever happened while nobody watched: compare with the facts before waiting on them.
		ready = levels.Ready{Do: levels.PublishLevel, Level: ready.Level}
	}
	for ready.Do != levels.Rest {
		event, err := r.patiently(ready)
		if err == nil {
			ready, err = r.step(event)
		}
		if err != nil {
			if err = r.stopOn(err); err != nil {
				return api.BuildReport{}, err
			}
			break
		}
	}
	if r.state.Status == levels.Built {
		if err := r.collect(r.ctx); err != nil {
			r.deps.Log.Warn("what the new generation dropped is still there; gc removes it", "corpus", r.cfg.Corpus, "error", err)
		}
	}
	return r.report(), nil
}

// patiently does what the state says, and again while a server that it needs is away: nothing of it is lost by waiting,
// and everything may be repeated. It ends with the lease, which can't be renewed while its own place is away.
func (r *run) patiently(ready levels.Ready) (levels.Event, error) {
	const most = 10 * time.Second
	for pause := r.cfg.Poll; ; pause = min(2*pause, most) {
		event, err := r.do(ready)
		if err == nil || !Away(err) || r.ctx.Err() != nil {
			return event, err
		}
		r.deps.Log.Warn("a server is away, trying again", "corpus", r.cfg.Corpus, "build", r.state.Build, "error", err)
		r.setDoing("waiting for a server: " + err.Error())
		select {
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		case <-time.After(pause):
		}
		r.setDoing("")
	}
}

// Away reports whether an error says that a server can't be reached.
func Away(err error) bool {
	if space.Is(err) {
		return false // it answers, and waiting makes no room
	}
	return errors.Is(err, queue.ErrUnavailable) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, levels.ErrUnavailable)
}

func (r *run) do(ready levels.Ready) (levels.Event, error) {
	switch ready.Do {
	case levels.PlanLevel:
		return r.planLevel(ready.Level)
	case levels.PublishLevel:
		return r.publishLevel(ready.Level)
	case levels.AwaitLevel:
		return r.awaitLevel(ready.Level)
	case levels.PublishTree:
		return r.publishTree()
	}
	panic("coordinator: unknown action " + string(ready.Do))
}

// step applies an event, and makes the new state durable before it is acted upon.
func (r *run) step(e levels.Event) (levels.Ready, error) {
	ready, err := r.state.Step(e)
	if err != nil {
		return ready, err
	}
	if ready.Save {
		if err := r.save(r.ctx); err != nil {
			return ready, err
		}
	}
	if ready.Announce != "" {
		r.say("%s", ready.Announce)
	}
	return ready, nil
}

// save makes the state durable, stamped with who saves it and when: bookkeeping that no decision of Step reads. All else of the
// state is changed by Step alone.
func (r *run) save(ctx context.Context) error {
	lease := r.hold.Lease()
	r.state.Epoch, r.state.Updated = lease.Epoch, time.Now()
	r.state.Version++
	if err := r.deps.Builds.Save(ctx, lease, r.state); err != nil {
		return fmt.Errorf("coordinator: build %s: %w", r.state.Build, err)
	}
	r.deps.Observer.Saved(r.state)
	return nil
}

func (r *run) say(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	r.deps.Log.Info(message, "corpus", r.cfg.Corpus, "build", r.state.Build)
	r.deps.Events(message)
	if r.req.Said != nil {
		r.req.Said(message)
	}
}

// configDigest hashes everything that shapes a build's plans. A build is resumed only under the same.
func (c *Coordinator) configDigest() string {
	cl := c.cfg.Clustering
	return tree.Recipe(c.cfg.Recipe, string(c.cfg.Rule.Scope), fmt.Sprint(c.cfg.Rule.KeepLeaves),
		fmt.Sprint(c.cfg.MinChunks, c.cfg.MaxDepth),
		fmt.Sprint(cl.Mode, cl.Seed, cl.Threshold, cl.Dim, cl.MaxClusterTokens, cl.TargetClusterSize, cl.MaxClusters))
}
