package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Corpora reads what stands in the stores about corpora, builds and levels.
type Corpora struct {
	Telemetry *Telemetry
	Store     store.Store
	Corpora   levels.Corpora
	Builds    levels.Builds
	Barrier   levels.Barrier
	// Names are the corpora to read; nil is all that there are.
	Names []string
	// Rule says at which growth a build is due.
	Rule levels.Rule
	// Price is that of the summaries' model, and nil when nobody knows it.
	Price *llm.Price
	// MaxTokens and MaxCost are the budget of a build; 0 is none.
	MaxTokens int
	MaxCost   float64
	// Every is the time between two readings; 0 is 5 s.
	Every time.Duration
}

// Run reads until ctx ends. What can't be read stays as it was for a minute, and is exported no longer after that:
// [CorpusReadTimestamp] tells its age.
func (c *Corpora) Run(ctx context.Context) {
	every := c.Every
	if every == 0 {
		every = 5 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		limit, cancel := context.WithTimeout(ctx, max(10*time.Second, every))
		if err := c.Read(limit); err != nil && ctx.Err() == nil {
			c.Telemetry.cfg.Log.Debug("metrics of corpora were not read", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Read reads once. What could be read is exported, whatever the error.
func (c *Corpora) Read(ctx context.Context) error {
	names := c.Names
	if names == nil {
		var err error
		if names, err = c.Corpora.List(ctx); err != nil {
			return fmt.Errorf("telemetry: corpora: %w", err)
		}
		c.Telemetry.read.keep(names)
	}
	var errs []error
	for _, name := range names {
		if err := c.readOne(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("telemetry: corpus %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// corpusReading is what was read of one corpus.
type corpusReading struct {
	at                            time.Time
	leaves, summaries, generation int
	growth                        *float64
	threshold, unseen             float64
	build                         *buildReading // nil when there was none
}

// buildReading is what was read of the newest build.
type buildReading struct {
	build    string
	running  bool
	started  time.Time
	usage    tree.Usage
	cost     *float64
	budget   *float64
	levels   []levelReading
	settled  int
	progress time.Time // of the last change
}

type levelReading struct {
	level                                   int
	expected, done, queued, running, buried int
	oldest                                  time.Time // zero when nothing is unfinished
	largest                                 int
	made, carried, kept                     int // summaries
}

func (c *Corpora) readOne(ctx context.Context, name string) error {
	record, err := c.Corpora.Load(ctx, name)
	if errors.Is(err, levels.ErrNotFound) {
		c.Telemetry.read.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	r := corpusReading{at: time.Now(), generation: record.Generation, threshold: c.Rule.Threshold, unseen: record.Unseen}
	if r.leaves, err = c.Store.Count(ctx, name, store.Leaves().VisibleAt(record.Generation)); err != nil {
		return err
	}
	if r.summaries, err = c.Store.Count(ctx, name, store.Summaries().VisibleAt(record.Generation)); err != nil {
		return err
	}
	r.growth = c.Rule.Decide(record, r.leaves).Growth
	if r.build, err = c.readBuild(ctx, name); err != nil {
		return err
	}
	c.Telemetry.read.put(name, r)
	c.Telemetry.add(Builds, 0, name, buildOutcomeOf[levels.Built], "")
	for _, stop := range levels.Causes() {
		c.Telemetry.add(Builds, 0, name, buildOutcomeOf[stop.Status], string(stop.Cause))
	}
	return nil
}

func (c *Corpora) readBuild(ctx context.Context, name string) (*buildReading, error) {
	state, err := c.Builds.Load(ctx, name)
	if errors.Is(err, levels.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := &buildReading{build: state.Build, running: !state.Resting(), started: state.Started, progress: state.Updated}
	var now levels.Progress
	if b.running {
		now, err = c.Builds.Progress(ctx, name)
		if err != nil && !errors.Is(err, levels.ErrNotFound) {
			return nil, err
		}
		const fresh = 10 * time.Second // processes report every second
		if now.Build != state.Build || time.Since(now.At) > fresh {
			now = levels.Progress{}
		}
	}
	for i := range state.Levels {
		level, usage, err := c.readLevel(ctx, state, &state.Levels[i], now)
		if err != nil {
			return nil, err
		}
		b.levels = append(b.levels, level)
		b.settled += level.done + level.buried
		b.usage = b.usage.Add(usage)
	}
	c.spent(b)
	return b, nil
}

// readLevel counts a level's tasks. The record is as old as the last transition; of an open level the barrier knows
// better.
func (c *Corpora) readLevel(ctx context.Context, state *levels.State, l *levels.Level, now levels.Progress) (levelReading, tree.Usage, error) {
	r := levelReading{level: l.Level, expected: l.Total, done: l.Done, buried: l.Dead, largest: l.Largest, made: l.Total - l.Carried - l.Kept, carried: l.Carried, kept: l.Kept}
	usage := l.Usage
	if l.Phase == levels.Publishing || l.Phase == levels.Open {
		count, err := c.Barrier.Count(ctx, tree.Level{Corpus: state.Corpus, Build: state.Build, Level: l.Level})
		switch {
		case errors.Is(err, levels.ErrNotOpen):
		case err != nil:
			return r, usage, err
		case count.Total == l.Total:
			r.done, r.buried, usage = count.Done, count.Dead, count.Usage
		}
	}
	left := max(0, r.expected-r.done-r.buried)
	if now.Level == l.Level {
		r.running = min(now.Running, left)
	}
	r.queued = left - r.running
	if left > 0 && !l.Started.IsZero() {
		r.oldest = l.Started // all tasks of a level are queued at its start
	}
	return r, usage, nil
}

// spent sets what the build has cost, and which share of its budget.
func (c *Corpora) spent(b *buildReading) {
	var shares []float64
	if c.MaxTokens > 0 {
		shares = append(shares, float64(b.usage.InputTokens+b.usage.OutputTokens)/float64(c.MaxTokens))
	}
	if c.Price != nil {
		cost := c.Price.Cost(b.usage.InputTokens, b.usage.OutputTokens)
		b.cost = &cost
		if c.MaxCost > 0 {
			shares = append(shares, cost/c.MaxCost)
		}
	}
	for _, share := range shares {
		if b.budget == nil || share > *b.budget {
			b.budget = &share
		}
	}
}

// reading holds what was read last of each corpus.
type reading struct {
	mu      sync.Mutex
	corpora map[string]corpusReading
}

func newReading() *reading { return &reading{corpora: map[string]corpusReading{}} }

// put takes a reading over. A build whose settled tasks have moved since the last one has come further now.
func (r *reading) put(name string, c corpusReading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.corpora[name].build; old != nil && c.build != nil && old.build == c.build.build {
		if c.build.settled != old.settled {
			c.build.progress = c.at
		} else if old.progress.After(c.build.progress) {
			c.build.progress = old.progress
		}
	}
	r.corpora[name] = c
}

func (r *reading) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.corpora, name)
}

// keep forgets every corpus but these.
func (r *reading) keep(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := setOf(names...)
	for name := range r.corpora {
		if !there[name] {
			delete(r.corpora, name)
		}
	}
}

// staleAfter is how old a reading may be and still be exported.
const staleAfter = time.Minute

// fill exports what was read.
func (r *reading) fill(to send) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for name, c := range r.corpora {
		if now.Sub(c.at) > staleAfter {
			to(CorpusReadTimestamp, unix(c.at), name)
			continue
		}
		c.fill(name, now, to)
	}
}

func (c *corpusReading) fill(name string, now time.Time, to send) {
	to(CorpusReadTimestamp, unix(c.at), name)
	to(CorpusLeaves, float64(c.leaves), name)
	to(CorpusSummaries, float64(c.summaries), name)
	to(CorpusGeneration, float64(c.generation), name)
	to(CorpusGrowthThreshold, c.threshold, name)
	to(CorpusUnseen, c.unseen, name)
	ifKnown(to, CorpusGrowth, c.growth, name)
	b := c.build
	if b == nil {
		to(BuildRunning, 0, name)
		return
	}
	running := 0.0
	if b.running {
		running = 1
	}
	to(BuildRunning, running, name)
	to(BuildProgressTimestamp, unix(b.progress), name)
	to(BuildStartTimestamp, unix(b.started), name)
	to(BuildCalls, float64(b.usage.Calls), name)
	to(BuildReused, float64(b.usage.Reused), name)
	to(BuildInputTokens, float64(b.usage.InputTokens), name)
	to(BuildOutputTokens, float64(b.usage.OutputTokens), name)
	ifKnown(to, BuildCost, b.cost, name)
	ifKnown(to, BuildBudget, b.budget, name)
	for _, l := range b.levels {
		level := strconv.Itoa(l.level)
		to(LevelExpected, float64(l.expected), name, level)
		to(LevelDone, float64(l.done), name, level)
		to(LevelQueued, float64(l.queued), name, level)
		to(LevelRunning, float64(l.running), name, level)
		to(LevelBuried, float64(l.buried), name, level)
		to(LevelLargest, float64(l.largest), name, level)
		to(LevelMade, float64(l.made), name, level)
		to(LevelCarried, float64(l.carried), name, level)
		to(LevelKept, float64(l.kept), name, level)
		age := 0.0
		if b.running && !l.oldest.IsZero() {
			age = now.Sub(l.oldest).Seconds()
		}
		to(LevelOldest, age, name, level)
	}
}

func ifKnown(to send, metric string, v *float64, labels ...string) {
	if v != nil {
		to(metric, *v, labels...)
	}
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
