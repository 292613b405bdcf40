package telemetry

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// expectedErrors are answers, and no failures of whoever gives them.
var expectedErrors = []error{
	levels.ErrNotFound, levels.ErrNotOpen, levels.ErrHeld, levels.ErrFenced, journal.ErrNotFound, queue.ErrSettled, queue.ErrLost, queue.ErrTooLarge,
}

// Barrier returns a barrier that counts and times its calls.
func (t *Telemetry) Barrier(b levels.Barrier) levels.Barrier { return &watchedBarrier{b, t} }

type watchedBarrier struct {
	levels.Barrier
	t *Telemetry
}

func (b *watchedBarrier) timed(err *error) func() {
	return b.t.timed(StateCalls, StateCallSeconds, err)
}

func (b *watchedBarrier) Open(ctx context.Context, level tree.Level, digest string, total int) (err error) {
	defer b.timed(&err)()
	return b.Barrier.Open(ctx, level, digest, total)
}

func (b *watchedBarrier) Mark(ctx context.Context, level tree.Level, digest string, marks ...levels.Mark) (count levels.Count, err error) {
	defer b.timed(&err)()
	return b.Barrier.Mark(ctx, level, digest, marks...)
}

func (b *watchedBarrier) Count(ctx context.Context, level tree.Level) (count levels.Count, err error) {
	defer b.timed(&err)()
	return b.Barrier.Count(ctx, level)
}

func (b *watchedBarrier) Positions(ctx context.Context, level tree.Level, outcome levels.Outcome) (positions []int, err error) {
	defer b.timed(&err)()
	return b.Barrier.Positions(ctx, level, outcome)
}

func (b *watchedBarrier) Clear(ctx context.Context, level tree.Level, positions []int) (err error) {
	defer b.timed(&err)()
	return b.Barrier.Clear(ctx, level, positions)
}

func (b *watchedBarrier) Drop(ctx context.Context, corpus, build string) (err error) {
	defer b.timed(&err)()
	return b.Barrier.Drop(ctx, corpus, build)
}

// Builds returns states of builds that count and time their calls.
func (t *Telemetry) Builds(b levels.Builds) levels.Builds { return &watchedBuilds{b, t} }

type watchedBuilds struct {
	levels.Builds
	t *Telemetry
}

func (b *watchedBuilds) timed(err *error) func() { return b.t.timed(StateCalls, StateCallSeconds, err) }

func (b *watchedBuilds) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (lease levels.Lease, err error) {
	defer b.timed(&err)()
	return b.Builds.Acquire(ctx, corpus, right, holder, ttl, floor)
}

func (b *watchedBuilds) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (renewed levels.Lease, err error) {
	defer b.timed(&err)()
	return b.Builds.Renew(ctx, lease, ttl)
}

func (b *watchedBuilds) Check(ctx context.Context, lease levels.Lease) (err error) {
	defer b.timed(&err)()
	return b.Builds.Check(ctx, lease)
}

func (b *watchedBuilds) Release(ctx context.Context, lease levels.Lease) (err error) {
	defer b.timed(&err)()
	return b.Builds.Release(ctx, lease)
}

func (b *watchedBuilds) Holder(ctx context.Context, corpus string, right levels.Right) (holder string, err error) {
	defer b.timed(&err)()
	return b.Builds.Holder(ctx, corpus, right)
}

func (b *watchedBuilds) Save(ctx context.Context, lease levels.Lease, state *levels.State) (err error) {
	defer b.timed(&err)()
	return b.Builds.Save(ctx, lease, state)
}

func (b *watchedBuilds) History(ctx context.Context, corpus string) (builds []*levels.State, err error) {
	defer b.timed(&err)()
	return b.Builds.History(ctx, corpus)
}

func (b *watchedBuilds) Load(ctx context.Context, corpus string) (state *levels.State, err error) {
	defer b.timed(&err)()
	return b.Builds.Load(ctx, corpus)
}

func (b *watchedBuilds) Report(ctx context.Context, corpus string, p levels.Progress) (err error) {
	defer b.timed(&err)()
	return b.Builds.Report(ctx, corpus, p)
}

func (b *watchedBuilds) Progress(ctx context.Context, corpus string) (p levels.Progress, err error) {
	defer b.timed(&err)()
	return b.Builds.Progress(ctx, corpus)
}

func (b *watchedBuilds) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) (err error) {
	defer b.timed(&err)()
	return b.Builds.RequestStop(ctx, corpus, build, wish)
}

func (b *watchedBuilds) StopRequested(ctx context.Context, corpus, build string) (wish levels.Stop, err error) {
	defer b.timed(&err)()
	return b.Builds.StopRequested(ctx, corpus, build)
}

// Corpora returns records of corpora that count and time their calls.
func (t *Telemetry) Corpora(c levels.Corpora) levels.Corpora { return &watchedCorpora{c, t} }

type watchedCorpora struct {
	levels.Corpora
	t *Telemetry
}

func (c *watchedCorpora) timed(err *error) func() {
	return c.t.timed(StateCalls, StateCallSeconds, err)
}

func (c *watchedCorpora) Load(ctx context.Context, name string) (record *levels.Corpus, err error) {
	defer c.timed(&err)()
	return c.Corpora.Load(ctx, name)
}

// Update doesn't count an error of change's.
func (c *watchedCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	began := time.Now()
	var own error
	err := c.Corpora.Update(ctx, name, func(record *levels.Corpus) error {
		own = change(record)
		return own
	})
	if own != nil {
		c.t.did(StateCalls, StateCallSeconds, began, nil)
	} else {
		c.t.did(StateCalls, StateCallSeconds, began, err)
	}
	return err
}

func (c *watchedCorpora) List(ctx context.Context) (names []string, err error) {
	defer c.timed(&err)()
	return c.Corpora.List(ctx)
}

func (c *watchedCorpora) Drop(ctx context.Context, name string) (err error) {
	defer c.timed(&err)()
	return c.Corpora.Drop(ctx, name)
}
