//go:build stack

package redisstate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

func charge(in, out int) llm.Charge {
	return llm.Charge{Build: "b", Model: "m", InputTokens: in, OutputTokens: out}
}

func spent(t *testing.T, b *Budget, wantTokens int, wantCost float64) {
	t.Helper()
	tokens, cost, err := b.Spent(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if tokens != wantTokens || cost != wantCost {
		t.Errorf("spent %d tokens, %v; want %d, %v", tokens, cost, wantTokens, wantCost)
	}
}

// microsoft/graphrag#385, infiniflow/ragflow#11990: a hard budget. Fifty callers in four processes spend all of it and
// never a token more.
func TestGraphrag385BudgetIsExact(t *testing.T) {
	const most, each, actual = 10_000, 100, 80
	var budgets []*Budget
	for range 4 {
		budgets = append(budgets, sharedState(t).Budget(llm.BudgetConfig{MaxTokens: most}))
	}
	var wg sync.WaitGroup
	var calls atomic.Int64
	for i := range 50 {
		b := budgets[i%4]
		wg.Go(func() {
			for k := 0; ; k++ {
				id := fmt.Sprint(i, "-", k)
				err := b.Reserve(context.Background(), id, charge(each-20, 20))
				if errors.Is(err, llm.ErrBudget) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
				if err := b.Settle(context.Background(), id, charge(actual-20, 20)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// The 124th call is made when 9,840 tokens are spent. After it 9,920 are, and 100 more don't fit.
	const want = 124
	if calls.Load() != want {
		t.Errorf("%d calls were made, want %d", calls.Load(), want)
	}
	spent(t, budgets[0], want*actual, 0)
}

// BerriAI/litellm#30460: spend counters inflate when replies are lost. A settlement counts once.
func TestLitellm30460SettlementsCountOnce(t *testing.T) {
	proxy := startProxy(t, shared.addr())
	b := connect(t, Config{URL: proxy.url(), Prefix: t.Name()}).Budget(llm.BudgetConfig{MaxTokens: 1_000_000})
	proxy.losing(everyScript(2))
	for i := range 20 {
		id := fmt.Sprint(i)
		if err := b.Reserve(t.Context(), id, charge(500, 500)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.Settle(t.Context(), id, charge(100, 10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	proxy.losing(nil)
	spent(t, b, 20*110, 0)
	if n := proxy.count(); n < 15 {
		t.Errorf("%d replies were lost, which is too few to show anything", n)
	}
	if n, err := b.s.client.HLen(t.Context(), b.keys("b", "")[1]).Result(); err != nil || n != 0 {
		t.Errorf("%d reservations are left: %v", n, err)
	}
}

// BerriAI/litellm#27639: reservations of processes that died block the budget. They run out.
func TestLitellm27639LeakedReservationsRunOut(t *testing.T) {
	b := sharedState(t).Budget(llm.BudgetConfig{MaxTokens: 100})
	if err := b.Reserve(t.Context(), "leaked", charge(80, 0)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
	defer cancel()
	if err := b.Reserve(ctx, "next", charge(50, 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reserve while the rest is reserved: %v, want that it waits", err)
	}
	// Thirty minutes later:
	reserved := b.keys("b", "")[1]
	if err := b.s.client.HSet(t.Context(), reserved, "leaked", fmt.Sprintf("80 0 %d", time.Now().UnixMilli()-1)).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := b.Reserve(ctx, "next", charge(50, 0)); err != nil {
		t.Errorf("Reserve after the reservation has run out: %v", err)
	}
	// The process wasn't dead after all: what it has spent counts.
	if err := b.Settle(t.Context(), "leaked", charge(70, 0)); err != nil {
		t.Fatal(err)
	}
	spent(t, b, 70, 0)
}

// A call waits while others hold what is left, and goes on when they cost less.
func TestReserveWaitsForSettlements(t *testing.T) {
	b := sharedState(t).Budget(llm.BudgetConfig{MaxTokens: 100})
	for _, id := range []string{"a", "a", "b"} { // a repeat reserves nothing
		if err := b.Reserve(t.Context(), id, charge(40, 0)); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan error)
	go func() { got <- b.Reserve(t.Context(), "c", charge(40, 0)) }()
	select {
	case err := <-got:
		t.Errorf("Reserve: %v, want that it waits", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := b.Settle(t.Context(), "a", charge(0, 0)); err != nil { // not made
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	for _, id := range []string{"b", "c"} {
		if err := b.Settle(t.Context(), id, charge(40, 0)); err != nil {
			t.Fatal(err)
		}
	}
	err := b.Reserve(t.Context(), "d", charge(21, 0))
	if want := "80 tokens are spent, and the next call may take 21 of the 100 that build.max_tokens allows"; !errors.Is(err, llm.ErrBudget) || !strings.Contains(err.Error(), want) {
		t.Errorf("Reserve over the budget: %v, want ErrBudget: %s", err, want)
	}
}

// Costs are exact sums of whole nanos: ten times 0.1 is 1.
func TestCostIsExact(t *testing.T) {
	b := sharedState(t).Budget(llm.BudgetConfig{MaxCost: 1, Prices: map[string]llm.Price{"m": {Input: 0.1, Output: 0.3}}})
	for i := range 10 {
		id := fmt.Sprint(i)
		if err := b.Reserve(t.Context(), id, charge(1_000_000, 0)); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if err := b.Settle(t.Context(), id, charge(1_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	spent(t, b, 10_000_000, 1)
	err := b.Reserve(t.Context(), "over", charge(0, 100))
	if want := "1.0000 is spent, and the next call may cost 0.0000; build.max_cost allows 1.0000"; !errors.Is(err, llm.ErrBudget) || !strings.Contains(err.Error(), want) {
		t.Errorf("Reserve over the budget: %v, want ErrBudget: %s", err, want)
	}
	other := charge(1, 1)
	other.Model = "of no price"
	if err := b.Reserve(t.Context(), "x", other); err == nil || !strings.Contains(err.Error(), "prices has no price for of no price") {
		t.Errorf("Reserve for a model without a price: %v", err)
	}
}

// BerriAI/litellm#30684: a Redis that was restored from an old copy counts too little. The books raise it, and never lower it.
func TestLitellm30684ResumeRaisesWhatIsSpent(t *testing.T) {
	b := sharedState(t).Budget(llm.BudgetConfig{MaxTokens: 1000, Prices: map[string]llm.Price{"m": {Input: 1, Output: 2}}})
	resume := func(in, out int) {
		t.Helper()
		if err := b.Resume(t.Context(), "b", "m", tree.Usage{InputTokens: in, OutputTokens: out}); err != nil {
			t.Fatal(err)
		}
	}
	resume(300, 100)
	spent(t, b, 400, 0.0005)
	resume(100, 0)
	spent(t, b, 400, 0.0005)
	if err := b.Settle(t.Context(), "x", charge(10, 0)); err != nil {
		t.Fatal(err)
	}
	resume(400, 100)
	spent(t, b, 500, 0.0006)
	if err := b.Reserve(t.Context(), "y", charge(501, 0)); !errors.Is(err, llm.ErrBudget) {
		t.Errorf("Reserve: %v, want ErrBudget", err)
	}
	if err := b.Reserve(t.Context(), "y", charge(500, 0)); err != nil {
		t.Errorf("Reserve: %v", err)
	}
}

func TestBudgetWithoutRedis(t *testing.T) {
	server := startServer(t)
	s := connect(t, Config{URL: server.url(), Patience: 50 * time.Millisecond})
	server.kill()
	bound := s.Budget(llm.BudgetConfig{MaxTokens: 1})
	err := bound.Reserve(t.Context(), "a", charge(1, 0))
	var call *llm.Error
	if !errors.Is(err, ErrUnavailable) || !errors.As(err, &call) || call.Kind != llm.Throttled {
		t.Errorf("Reserve: %v, want ErrUnavailable within an *llm.Error of kind throttled", err)
	}
	if err := bound.Settle(t.Context(), "a", charge(1, 0)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Settle: %v, want ErrUnavailable", err)
	}
}

// Bounds that a coordinator sets for a build hold in every process, however that is configured; a resume may raise them.
func TestBoundsOfABuildHoldForAll(t *testing.T) {
	ctx := t.Context()
	s := connect(t, Config{URL: startServer(t).url()})
	const build = "b"
	lead, free, narrow := s.Budget(llm.BudgetConfig{}), s.Budget(llm.BudgetConfig{}), s.Budget(llm.BudgetConfig{MaxTokens: 1})
	call := func(tokens int) llm.Charge { return charge(tokens, 0) }
	if err := free.Reserve(ctx, "before", call(1_000_000)); err != nil {
		t.Fatalf("without bounds: %v", err)
	}
	if err := lead.Bound(ctx, build, 100, 0); err != nil {
		t.Fatal(err)
	}
	for i, b := range []*Budget{free, narrow} {
		if err := b.Reserve(ctx, fmt.Sprint("within", i), call(40)); err != nil {
			t.Errorf("40 of 100 tokens, process %d: %v", i, err)
		}
		if err := b.Reserve(ctx, fmt.Sprint("over", i), call(101)); !errors.Is(err, llm.ErrBudget) {
			t.Errorf("101 of 100 tokens, process %d: %v, want ErrBudget", i, err)
		}
	}
	if err := lead.Bound(ctx, build, 1000, 0); err != nil {
		t.Fatal(err)
	}
	if err := free.Reserve(ctx, "raised", call(101)); err != nil {
		t.Errorf("101 of 1000 tokens: %v", err)
	}
}
