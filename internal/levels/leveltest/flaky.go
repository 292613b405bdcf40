package leveltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// ErrInjected is what a call fails with that a flaky port was told to break.
var ErrInjected = errors.New("injected fault")

// Fault says how a call fails.
type Fault int

// The faults.
const (
	None   Fault = iota
	Before       // the call has no effect
	After        // the call takes effect, and the reply is lost
)

// Call is one call of a port's method. Number counts the calls under one schedule from 0.
type Call struct {
	Method string // such as "Mark"
	Corpus string
	Number int
}

// Schedule decides the fate of calls, of one port or of several.
type Schedule struct {
	mu     sync.Mutex
	number int
	decide func(Call) Fault
}

// NewSchedule returns a schedule that asks decide, one call at a time.
func NewSchedule(decide func(Call) Fault) *Schedule { return &Schedule{decide: decide} }

// Seeded returns a schedule that breaks calls at random: each with probability p, half of them before their
// effect and half after it. The same seed breaks the same calls when they come in the same order.
func Seeded(seed uint64, p float64) *Schedule {
	random := rand.New(rand.NewPCG(seed, 0x5eed))
	return NewSchedule(func(Call) Fault {
		switch x := random.Float64(); {
		case x >= p:
			return None
		case x < p/2:
			return Before
		}
		return After
	})
}

func (s *Schedule) fate(method, corpus string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Call{Method: method, Corpus: corpus, Number: s.number}
	s.number++
	return s.decide(c)
}

// around runs a call and breaks it as the schedule says. An error of the call itself comes first.
func (s *Schedule) around(method, corpus string, call func() error) error {
	fate := s.fate(method, corpus)
	if fate != Before {
		if err := call(); err != nil {
			return err
		}
	}
	if fate == None {
		return nil
	}
	return fmt.Errorf("leveltest: %s of corpus %s: %w", method, corpus, ErrInjected)
}

// result is around for a call that returns something; a lost reply is the zero value.
func result[T any](s *Schedule, method, corpus string, call func() (T, error)) (T, error) {
	var v T
	err := s.around(method, corpus, func() (err error) {
		v, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// FlakyBarrier is a barrier whose calls fail by a schedule.
type FlakyBarrier struct {
	Inner    levels.Barrier
	Schedule *Schedule
}

var _ levels.Barrier = (*FlakyBarrier)(nil)

// Open implements [levels.Barrier].
func (f *FlakyBarrier) Open(ctx context.Context, level tree.Level, digest string, total int) error {
	return f.Schedule.around("Open", level.Corpus, func() error { return f.Inner.Open(ctx, level, digest, total) })
}

// Mark implements [levels.Barrier].
func (f *FlakyBarrier) Mark(ctx context.Context, level tree.Level, digest string, marks ...levels.Mark) (levels.Count, error) {
	return result(f.Schedule, "Mark", level.Corpus, func() (levels.Count, error) { return f.Inner.Mark(ctx, level, digest, marks...) })
}

// Count implements [levels.Barrier].
func (f *FlakyBarrier) Count(ctx context.Context, level tree.Level) (levels.Count, error) {
	return result(f.Schedule, "Count", level.Corpus, func() (levels.Count, error) { return f.Inner.Count(ctx, level) })
}

// Positions implements [levels.Barrier].
func (f *FlakyBarrier) Positions(ctx context.Context, level tree.Level, outcome levels.Outcome) ([]int, error) {
	return result(f.Schedule, "Positions", level.Corpus, func() ([]int, error) { return f.Inner.Positions(ctx, level, outcome) })
}

// Clear implements [levels.Barrier].
func (f *FlakyBarrier) Clear(ctx context.Context, level tree.Level, positions []int) error {
	return f.Schedule.around("Clear", level.Corpus, func() error { return f.Inner.Clear(ctx, level, positions) })
}

// Drop implements [levels.Barrier].
func (f *FlakyBarrier) Drop(ctx context.Context, corpus, build string) error {
	return f.Schedule.around("Drop", corpus, func() error { return f.Inner.Drop(ctx, corpus, build) })
}

// FlakyBuilds is the state of builds whose calls fail by a schedule.
type FlakyBuilds struct {
	Inner    levels.Builds
	Schedule *Schedule
}

var _ levels.Builds = (*FlakyBuilds)(nil)

// Acquire implements [levels.Builds].
func (f *FlakyBuilds) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	return result(f.Schedule, "Acquire", corpus, func() (levels.Lease, error) { return f.Inner.Acquire(ctx, corpus, right, holder, ttl, floor) })
}

// Renew implements [levels.Builds].
func (f *FlakyBuilds) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	return result(f.Schedule, "Renew", lease.Corpus, func() (levels.Lease, error) { return f.Inner.Renew(ctx, lease, ttl) })
}

// Holder implements [levels.Builds].
func (f *FlakyBuilds) Holder(ctx context.Context, corpus string, right levels.Right) (string, error) {
	return result(f.Schedule, "Holder", corpus, func() (string, error) { return f.Inner.Holder(ctx, corpus, right) })
}

// Check implements [levels.Builds].
func (f *FlakyBuilds) Check(ctx context.Context, lease levels.Lease) error {
	return f.Schedule.around("Check", lease.Corpus, func() error { return f.Inner.Check(ctx, lease) })
}

// Release implements [levels.Builds].
func (f *FlakyBuilds) Release(ctx context.Context, lease levels.Lease) error {
	return f.Schedule.around("Release", lease.Corpus, func() error { return f.Inner.Release(ctx, lease) })
}

// Save implements [levels.Builds].
func (f *FlakyBuilds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	return f.Schedule.around("Save", lease.Corpus, func() error { return f.Inner.Save(ctx, lease, state) })
}

// History implements [levels.Builds].
func (f *FlakyBuilds) History(ctx context.Context, corpus string) ([]*levels.State, error) {
	return result(f.Schedule, "History", corpus, func() ([]*levels.State, error) { return f.Inner.History(ctx, corpus) })
}

// Load implements [levels.Builds].
func (f *FlakyBuilds) Load(ctx context.Context, corpus string) (*levels.State, error) {
	return result(f.Schedule, "Load", corpus, func() (*levels.State, error) { return f.Inner.Load(ctx, corpus) })
}

// Report implements [levels.Builds].
func (f *FlakyBuilds) Report(ctx context.Context, corpus string, p levels.Progress) error {
	return f.Schedule.around("Report", corpus, func() error { return f.Inner.Report(ctx, corpus, p) })
}

// Progress implements [levels.Builds].
func (f *FlakyBuilds) Progress(ctx context.Context, corpus string) (levels.Progress, error) {
	return result(f.Schedule, "Progress", corpus, func() (levels.Progress, error) { return f.Inner.Progress(ctx, corpus) })
}

// RequestStop implements [levels.Builds].
func (f *FlakyBuilds) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) error {
	return f.Schedule.around("RequestStop", corpus, func() error { return f.Inner.RequestStop(ctx, corpus, build, wish) })
}

// StopRequested implements [levels.Builds].
func (f *FlakyBuilds) StopRequested(ctx context.Context, corpus, build string) (levels.Stop, error) {
	return result(f.Schedule, "StopRequested", corpus, func() (levels.Stop, error) { return f.Inner.StopRequested(ctx, corpus, build) })
}

// FlakyCorpora is the records of corpora whose calls fail by a schedule.
type FlakyCorpora struct {
	Inner    levels.Corpora
	Schedule *Schedule
}

var _ levels.Corpora = (*FlakyCorpora)(nil)

// Load implements [levels.Corpora].
func (f *FlakyCorpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	return result(f.Schedule, "Load", name, func() (*levels.Corpus, error) { return f.Inner.Load(ctx, name) })
}

// Update implements [levels.Corpora].
func (f *FlakyCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	return f.Schedule.around("Update", name, func() error { return f.Inner.Update(ctx, name, change) })
}

// List implements [levels.Corpora].
func (f *FlakyCorpora) List(ctx context.Context) ([]string, error) {
	return result(f.Schedule, "List", "", func() ([]string, error) { return f.Inner.List(ctx) })
}

// Drop implements [levels.Corpora].
func (f *FlakyCorpora) Drop(ctx context.Context, name string) error {
	return f.Schedule.around("Drop", name, func() error { return f.Inner.Drop(ctx, name) })
}

// FlakyPlans is frozen plans whose calls fail by a schedule.
type FlakyPlans struct {
	Inner    levels.Plans
	Schedule *Schedule
}

var _ levels.Plans = (*FlakyPlans)(nil)

// PutPlan implements [levels.Plans].
func (f *FlakyPlans) PutPlan(ctx context.Context, p *levels.Plan) error {
	return f.Schedule.around("PutPlan", p.Corpus, func() error { return f.Inner.PutPlan(ctx, p) })
}

// Plan implements [levels.Plans].
func (f *FlakyPlans) Plan(ctx context.Context, level tree.Level) (*levels.Plan, error) {
	return result(f.Schedule, "Plan", level.Corpus, func() (*levels.Plan, error) { return f.Inner.Plan(ctx, level) })
}

// DropPlans implements [levels.Plans].
func (f *FlakyPlans) DropPlans(ctx context.Context, corpus, build string) error {
	return f.Schedule.around("DropPlans", corpus, func() error { return f.Inner.DropPlans(ctx, corpus, build) })
}

// PutTree implements [levels.Plans].
func (f *FlakyPlans) PutTree(ctx context.Context, c *levels.Corpus) error {
	return f.Schedule.around("PutTree", c.Name, func() error { return f.Inner.PutTree(ctx, c) })
}

// Tree implements [levels.Plans].
func (f *FlakyPlans) Tree(ctx context.Context, corpus string) (*levels.Corpus, error) {
	return result(f.Schedule, "Tree", corpus, func() (*levels.Corpus, error) { return f.Inner.Tree(ctx, corpus) })
}

// Trees implements [levels.Plans].
func (f *FlakyPlans) Trees(ctx context.Context) ([]string, error) {
	return result(f.Schedule, "Trees", "", func() ([]string, error) { return f.Inner.Trees(ctx) })
}

// PutState implements [levels.Plans].
func (f *FlakyPlans) PutState(ctx context.Context, s *levels.State) error {
	return f.Schedule.around("PutState", s.Corpus, func() error { return f.Inner.PutState(ctx, s) })
}

// State implements [levels.Plans].
func (f *FlakyPlans) State(ctx context.Context, corpus string) (*levels.State, error) {
	return result(f.Schedule, "State", corpus, func() (*levels.State, error) { return f.Inner.State(ctx, corpus) })
}

// DropTree implements [levels.Plans].
func (f *FlakyPlans) DropTree(ctx context.Context, corpus string) error {
	return f.Schedule.around("DropTree", corpus, func() error { return f.Inner.DropTree(ctx, corpus) })
}
