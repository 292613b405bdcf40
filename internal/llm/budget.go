package llm

import (
	"context"
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Charge is what a call costs, or may cost at most.
type Charge struct {
	Build        string
	Model        string
	InputTokens  int
	OutputTokens int
}

// Budget bounds what a build spends. A call's charge is reserved before it and settled after it, under an id that is the
// call's own, so that either may be repeated.
type Budget interface {
	// Reserve sets the most that a call may cost aside. It returns ErrBudget, wrapped with the figures, if that is
	// more than is left, and waits while it is less than what is left but calls under way may take it.
	Reserve(ctx context.Context, id string, most Charge) error
	// Settle replaces a reservation by what the call has cost; a charge without tokens gives it back. Only the first
	// settlement with tokens of an id counts.
	Settle(ctx context.Context, id string, cost Charge) error
}

// Price is that of a model, per million tokens.
type Price struct {
	Input, Output float64
	Currency      string // of all models the same; empty means USD
}

// Cost returns what so many tokens cost.
func (p Price) Cost(inputTokens, outputTokens int) float64 {
	return (p.Input*float64(inputTokens) + p.Output*float64(outputTokens)) / 1e6
}

// BudgetConfig bounds each build.
type BudgetConfig struct {
	// MaxTokens counts input and output together; 0 is no bound.
	MaxTokens int
	// MaxCost is in the currency of Prices; 0 is no bound.
	MaxCost float64
	// Prices are by model. With MaxCost, the model in use must have one.
	Prices map[string]Price
}

// LocalBudget is a Budget for one process. A build that is resumed starts with what it has spent already:
// [LocalBudget.Resume].
type LocalBudget struct {
	cfg BudgetConfig

	mu     sync.Mutex
	builds map[string]*account
}

// account is one build's.
type account struct {
	spent    amount
	reserved map[string]amount
	settled  map[string]bool // ids; a build has as many as calls
	changed  chan struct{}
}

type amount struct {
	tokens int
	cost   float64
}

func (a amount) plus(b amount) amount { return amount{a.tokens + b.tokens, a.cost + b.cost} }

// NewBudget returns a budget for one process.
func NewBudget(cfg BudgetConfig) *LocalBudget {
	return &LocalBudget{cfg: cfg, builds: map[string]*account{}}
}

// Resume sets what a build has spent before this process, on a model. It replaces what was set before.
func (b *LocalBudget) Resume(build, model string, usage tree.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(build).spent = b.amount(Charge{Model: model, InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens})
}

// Spent returns a build's tokens and cost so far.
func (b *LocalBudget) Spent(build string) (tokens int, cost float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(build)
	return a.spent.tokens, a.spent.cost
}

func (b *LocalBudget) account(build string) *account {
	a := b.builds[build]
	if a == nil {
		a = &account{reserved: map[string]amount{}, settled: map[string]bool{}, changed: make(chan struct{})}
		b.builds[build] = a
	}
	return a
}

func (b *LocalBudget) amount(c Charge) amount {
	return amount{c.InputTokens + c.OutputTokens, b.cfg.Prices[c.Model].Cost(c.InputTokens, c.OutputTokens)}
}

// Reserve sets a charge aside.
func (b *LocalBudget) Reserve(ctx context.Context, id string, most Charge) error {
	if b.cfg.MaxTokens == 0 && b.cfg.MaxCost == 0 {
		return nil
	}
	want := b.amount(most)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(most.Build)
	for {
		if _, ok := a.reserved[id]; ok || a.settled[id] {
			return nil
		}
		if err := b.over(a.spent.plus(want), a.spent); err != nil {
			return err
		}
		total := a.spent.plus(want)
		for _, r := range a.reserved { // a float sum whose order doesn't matter: it is compared, not kept
			total = total.plus(r)
		}
		if b.over(total, a.spent) == nil {
			a.reserved[id] = want
			return nil
		}
		changed := a.changed
		b.mu.Unlock()
		sleep(ctx, 0, changed)
		b.mu.Lock()
		if err := WaitErr(ctx); err != nil {
			return err
		}
	}
}

// over returns an error if a total is over a bound.
func (b *LocalBudget) over(total, spent amount) error {
	if b.cfg.MaxTokens > 0 && total.tokens > b.cfg.MaxTokens {
		return fmt.Errorf("%w: %d tokens are spent, and the next call may take %d of the %d that build.max_tokens allows",
			ErrBudget, spent.tokens, total.tokens-spent.tokens, b.cfg.MaxTokens)
	}
	if b.cfg.MaxCost > 0 && total.cost > b.cfg.MaxCost {
		return fmt.Errorf("%w: %.4f is spent, and the next call may cost %.4f; build.max_cost allows %.4f",
			ErrBudget, spent.cost, total.cost-spent.cost, b.cfg.MaxCost)
	}
	return nil
}

// Settle books what a call has cost.
func (b *LocalBudget) Settle(_ context.Context, id string, cost Charge) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cost.Build)
	if a.settled[id] {
		return nil
	}
	delete(a.reserved, id)
	if cost.InputTokens+cost.OutputTokens > 0 {
		a.settled[id] = true
		a.spent = a.spent.plus(b.amount(cost))
	}
	close(a.changed)
	a.changed = make(chan struct{})
	return nil
}

// validate reports a model without a price that a bound on cost would need.
func (b *LocalBudget) validate(model string) error {
	if _, ok := b.cfg.Prices[model]; b.cfg.MaxCost > 0 && !ok {
		return fmt.Errorf("build.max_cost is %v, but prices has no price for %s: it needs input and output per million tokens", b.cfg.MaxCost, model)
	}
	return nil
}

var _ Budget = (*LocalBudget)(nil)
