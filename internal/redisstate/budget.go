package redisstate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	// reservationLife is how long a call that was never settled holds a part of the budget: longer than any call with
	// its wait for limits should take. The process that made it is gone then.
	reservationLife = 30 * time.Minute
	// settlementLife is how long a settled call is known. It is longer than the life of a reservation.
	settlementLife = time.Hour
	// firstLook and longestLook bound the pause of a call that waits for others to be settled.
	firstLook, longestLook = 50 * time.Millisecond, time.Second
	// nano is the unit of cost here: whole numbers, so that sums are exact in any order.
	nano = 1e9
)

// Budget is an [llm.Budget] for a fleet: all processes reserve from one account for each build. What a build has spent
// is kept here for speed only; the barriers' usage and the journal are the books, from which [Budget.Resume] restores
// it.
type Budget struct {
	s   *State
	cfg llm.BudgetConfig
}

var _ llm.Budget = (*Budget)(nil)

// Budget returns the fleet's budget. The bounds of cfg are those of builds that have none of their own; see [Budget.Bound].
func (s *State) Budget(cfg llm.BudgetConfig) *Budget { return &Budget{s: s, cfg: cfg} }

// keys names a build's account and reservations, and a call's settlement.
func (b *Budget) keys(build, id string) []string {
	group := "budget:" + escape(build)
	return []string{b.s.sharedKey(group, "account"), b.s.sharedKey(group, "reserved"), b.s.sharedKey(group, "settled:"+id)}
}

// Bound sets the bounds of one build for all processes, in the place of those that each is configured with; 0 is no bound.
func (b *Budget) Bound(ctx context.Context, build string, maxTokens int, maxCost float64) error {
	account := b.keys(build, "")[0]
	err := b.s.try(ctx, func(ctx context.Context) error {
		pipe := b.s.client.TxPipeline()
		pipe.HSet(ctx, account, "max_tokens", max(maxTokens, 0), "max_cost", nanos(maxCost))
		pipe.PExpire(ctx, account, b.s.cfg.BarrierTTL)
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("redisstate: budget of build %s: set its bounds: %w", build, err)
	}
	return nil
}

// amount returns a charge's tokens, and its cost in nanos.
func (b *Budget) amount(c llm.Charge) (tokens, cost int64, err error) {
	price, ok := b.cfg.Prices[c.Model]
	if b.cfg.MaxCost > 0 && !ok {
		return 0, 0, fmt.Errorf("build.max_cost is %v, but prices has no price for %s: it needs input and output per million tokens", b.cfg.MaxCost, c.Model)
	}
	return int64(max(c.InputTokens, 0) + max(c.OutputTokens, 0)), nanos(price.Cost(c.InputTokens, c.OutputTokens)), nil
}

// nanos rounds up.
func nanos(cost float64) int64 { return int64(math.Ceil(max(cost, 0) * nano)) }

// Reserve implements [llm.Budget]. While Redis is away its error is an *llm.Error of kind Throttled, which wraps
// ErrUnavailable: no call may be made, and nothing has failed.
func (b *Budget) Reserve(ctx context.Context, id string, most llm.Charge) error {
	err := b.reserve(ctx, id, most)
	switch {
	case err == nil || errors.Is(err, llm.ErrBudget):
		return err
	case errors.Is(err, ErrUnavailable):
		return &llm.Error{Kind: llm.Throttled, Message: "the fleet's budget can't be read: " + err.Error(), Err: err}
	}
	return fmt.Errorf("redisstate: budget of build %s: %w", most.Build, err)
}

func (b *Budget) reserve(ctx context.Context, id string, most llm.Charge) error {
	tokens, cost, err := b.amount(most)
	if err != nil {
		return err
	}
	args := []any{
		id, tokens, cost, max(b.cfg.MaxTokens, 0), nanos(b.cfg.MaxCost), reservationLife.Milliseconds(), b.s.cfg.BarrierTTL.Milliseconds(),
	}
	for look := firstLook; ; look = min(2*look, longestLook) {
		out, err := b.s.run(ctx, b.s.scripts.reserve, b.keys(most.Build, id), args...)
		if err != nil {
			return err
		}
		switch out.word() {
		case "ok":
			return nil
		case "over":
			n, err := out.numbers(1, 4)
			if err != nil {
				return err
			}
			return over(n[0], n[1], n[2], n[3], tokens, cost)
		}
		// Calls under way hold what is left.
		if err := b.s.hold(ctx, look); err != nil {
			return err
		}
	}
}

// over says which bound a call would break.
func over(spentTokens, spentCost, mostTokens, mostCost, tokens, cost int64) error {
	if mostTokens > 0 && spentTokens+tokens > mostTokens {
		return fmt.Errorf("%w: %d tokens are spent, and the next call may take %d of the %d that build.max_tokens allows",
			llm.ErrBudget, spentTokens, tokens, mostTokens)
	}
	return fmt.Errorf("%w: %.4f is spent, and the next call may cost %.4f; build.max_cost allows %.4f",
		llm.ErrBudget, float64(spentCost)/nano, float64(cost)/nano, float64(mostCost)/nano)
}

// Settle implements [llm.Budget].
func (b *Budget) Settle(ctx context.Context, id string, cost llm.Charge) error {
	tokens, spent, err := b.amount(cost)
	if err == nil {
		_, err = b.s.run(ctx, b.s.scripts.settle, b.keys(cost.Build, id), id, tokens, spent, settlementLife.Milliseconds(), b.s.cfg.BarrierTTL.Milliseconds())
	}
	if err != nil {
		return fmt.Errorf("redisstate: budget of build %s: settle call %s: %w", cost.Build, id, err)
	}
	return nil
}

// Resume raises what a build has spent on a model to what its books say. A coordinator does so whenever it starts a
// build or goes on with one, since Redis may have lost the account, or have gone back to an older one.
func (b *Budget) Resume(ctx context.Context, build, model string, usage tree.Usage) error {
	tokens, cost, err := b.amount(llm.Charge{Build: build, Model: model, InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens})
	if err == nil {
		_, err = b.s.run(ctx, b.s.scripts.resume, b.keys(build, "")[:1], tokens, cost, b.s.cfg.BarrierTTL.Milliseconds())
	}
	if err != nil {
		return fmt.Errorf("redisstate: budget of build %s: resume: %w", build, err)
	}
	return nil
}

// Spent returns what a build has spent so far.
func (b *Budget) Spent(ctx context.Context, build string) (tokens int, cost float64, err error) {
	var account []any
	err = b.s.try(ctx, func(ctx context.Context) error {
		var err error
		account, err = b.s.client.HMGet(ctx, b.keys(build, "")[0], "tokens", "cost").Result()
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("redisstate: budget of build %s: %w", build, err)
	}
	n := [2]int64{}
	for i, v := range account {
		if v == nil {
			continue
		}
		one, err := reply(account).numbers(i, 1)
		if err != nil {
			return 0, 0, fmt.Errorf("redisstate: budget of build %s: %w", build, err)
		}
		n[i] = one[0]
	}
	return int(n[0]), float64(n[1]) / nano, nil
}
