package leveltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Acquire implements [levels.Builds].
func (m *Memory) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	if err := ctx.Err(); err != nil {
		return levels.Lease{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	of := leaseOf{corpus, right}
	old := m.leases[of]
	if old.Holder != "" && old.Holder != holder && old.Until.After(now) {
		return levels.Lease{}, fmt.Errorf("leveltest: corpus %s: %w, %s", corpus, levels.ErrHeld, old.Holder)
	}
	lease := levels.Lease{Corpus: corpus, Right: right, Holder: holder, Epoch: max(old.Epoch, floor) + 1, Until: now.Add(ttl)}
	m.leases[of] = lease
	return lease, nil
}

// Renew implements [levels.Builds].
func (m *Memory) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	if err := ctx.Err(); err != nil {
		return levels.Lease{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fence(lease); err != nil {
		return levels.Lease{}, err
	}
	lease.Until = m.now().Add(ttl)
	m.leases[leaseOf{lease.Corpus, lease.Right}] = lease
	return lease, nil
}

// Check implements [levels.Builds].
func (m *Memory) Check(ctx context.Context, lease levels.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fence(lease); err != nil {
		return err
	}
	if !m.leases[leaseOf{lease.Corpus, lease.Right}].Until.After(m.now()) {
		return fmt.Errorf("leveltest: corpus %s: %w: its time has run out", lease.Corpus, levels.ErrFenced)
	}
	return nil
}

// Release implements [levels.Builds].
func (m *Memory) Release(ctx context.Context, lease levels.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fence(lease) == nil {
		// The epoch stays, so that the next one is greater.
		m.leases[leaseOf{lease.Corpus, lease.Right}] = levels.Lease{Corpus: lease.Corpus, Right: lease.Right, Epoch: lease.Epoch}
	}
	return nil
}

// Holder implements [levels.Builds].
func (m *Memory) Holder(ctx context.Context, corpus string, right levels.Right) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leases[leaseOf{corpus, right}]; l.Until.After(m.now()) {
		return l.Holder, nil
	}
	return "", nil
}

// Save implements [levels.Builds].
func (m *Memory) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fence(lease); err != nil {
		return err
	}
	m.states[lease.Corpus] = encode(state)
	m.history[[2]string{lease.Corpus, state.Build}] = encode(state.Past())
	return nil
}

// Load implements [levels.Builds].
func (m *Memory) Load(ctx context.Context, corpus string) (*levels.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode[levels.State](m.states[corpus], "build of corpus "+corpus)
}

// History implements [levels.Builds].
func (m *Memory) History(ctx context.Context, corpus string) ([]*levels.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var builds []*levels.State
	for key, record := range m.history {
		if key[0] == corpus {
			past, err := decode[levels.State](record, "build "+key[1])
			if err != nil {
				return nil, err
			}
			builds = append(builds, past)
		}
	}
	levels.InOrder(builds)
	return builds, nil
}

// Report implements [levels.Builds].
func (m *Memory) Report(ctx context.Context, corpus string, p levels.Progress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress[corpus] = m.progress[corpus].With(p)
	return nil
}

// Progress implements [levels.Builds].
func (m *Memory) Progress(ctx context.Context, corpus string) (levels.Progress, error) {
	if err := ctx.Err(); err != nil {
		return levels.Progress{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.progress[corpus].Merged()
}

// RequestStop implements [levels.Builds].
func (m *Memory) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wishes[[2]string{corpus, build}] = wish
	return nil
}

// StopRequested implements [levels.Builds].
func (m *Memory) StopRequested(ctx context.Context, corpus, build string) (levels.Stop, error) {
	if err := ctx.Err(); err != nil {
		return levels.Stop{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wishes[[2]string{corpus, build}], nil
}

func (m *Memory) fence(lease levels.Lease) error {
	if now := m.leases[leaseOf{lease.Corpus, lease.Right}]; now.Epoch != lease.Epoch || now.Holder != lease.Holder {
		return fmt.Errorf("leveltest: corpus %s: epoch %d of %s: %w, epoch %d", lease.Corpus, lease.Epoch, lease.Holder, levels.ErrFenced, now.Epoch)
	}
	return nil
}

// PutPlan implements [levels.Plans].
func (m *Memory) PutPlan(ctx context.Context, p *levels.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plans[p.Of()] = encode(p)
	return nil
}

// Plan implements [levels.Plans].
func (m *Memory) Plan(ctx context.Context, level tree.Level) (*levels.Plan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := decode[levels.Plan](m.plans[level], fmt.Sprintf("plan of %v", level))
	if err != nil {
		return nil, err
	}
	if err := p.Verify(); err != nil {
		return nil, err
	}
	return p, nil
}

// DropPlans implements [levels.Plans].
func (m *Memory) DropPlans(ctx context.Context, corpus, build string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.plans, func(l tree.Level, _ []byte) bool { return l.Corpus == corpus && l.Build == build })
	return nil
}

// PutTree implements [levels.Plans].
func (m *Memory) PutTree(ctx context.Context, c *levels.Corpus) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if there, err := decode[levels.Corpus](m.trees[c.Name], "tree"); err == nil && there.Version > c.Version {
		return nil
	}
	m.trees[c.Name] = encode(c)
	return nil
}

// Tree implements [levels.Plans].
func (m *Memory) Tree(ctx context.Context, corpus string) (*levels.Corpus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode[levels.Corpus](m.trees[corpus], "tree of corpus "+corpus)
}

// Trees implements [levels.Plans].
func (m *Memory) Trees(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.trees)), nil
}

// PutState implements [levels.Plans].
func (m *Memory) PutState(ctx context.Context, s *levels.State) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if there, err := decode[levels.State](m.copies[s.Corpus], "copy"); err == nil && there.Newer(s) {
		return nil
	}
	m.copies[s.Corpus] = encode(s)
	return nil
}

// State implements [levels.Plans].
func (m *Memory) State(ctx context.Context, corpus string) (*levels.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode[levels.State](m.copies[corpus], "copy of the state of corpus "+corpus)
}

// DropTree implements [levels.Plans].
func (m *Memory) DropTree(ctx context.Context, corpus string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.trees, corpus)
	delete(m.copies, corpus)
	return nil
}

// memoryCorpora implements [levels.Corpora] on the same memory.
type memoryCorpora Memory

// Load implements [levels.Corpora].
func (m *memoryCorpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode[levels.Corpus](m.corpora[name], "corpus "+name)
}

// Update implements [levels.Corpora].
func (m *memoryCorpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &levels.Corpus{}
	if b := m.corpora[name]; b != nil {
		var err error
		if c, err = decode[levels.Corpus](b, "corpus "+name); err != nil {
			return err
		}
	}
	c.Name = name
	if err := change(c); err != nil {
		return err
	}
	c.Name = name
	m.corpora[name] = encode(c)
	return nil
}

// List implements [levels.Corpora].
func (m *memoryCorpora) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.corpora)), nil
}

// Drop implements [levels.Corpora]. The lease stays, so that no epoch is given out twice.
func (m *memoryCorpora) Drop(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.corpora, name)
	delete(m.states, name)
	maps.DeleteFunc(m.history, func(k [2]string, _ []byte) bool { return k[0] == name })
	delete(m.progress, name)
	maps.DeleteFunc(m.wishes, func(k [2]string, _ levels.Stop) bool { return k[0] == name })
	maps.DeleteFunc(m.barriers, func(l tree.Level, _ *memoryBarrier) bool { return l.Corpus == name })
	return nil
}
