package llm

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aerie-rag/aerie/internal/tree"
)

func charge(in, out int) Charge {
	return Charge{Build: "b", Model: "m", InputTokens: in, OutputTokens: out}
}

func TestBudgetInTokens(t *testing.T) {
	ctx := t.Context()
	b := NewBudget(BudgetConfig{MaxTokens: 1000})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Reserve(ctx, "1", charge(300, 100)))
	must(b.Settle(ctx, "1", charge(300, 50)))
	must(b.Settle(ctx, "1", charge(300, 50))) // a lost reply is repeated
	if tokens, _ := b.Spent("b"); tokens != 350 {
		t.Errorf("%d tokens are spent", tokens)
	}
	must(b.Reserve(ctx, "2", charge(600, 50)))
	must(b.Settle(ctx, "2", charge(0, 0))) // the call failed
	must(b.Reserve(ctx, "2", charge(600, 50)))
	must(b.Settle(ctx, "2", charge(600, 10)))
	err := b.Reserve(ctx, "3", charge(40, 1))
	if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "960 tokens are spent") || !strings.Contains(err.Error(), "build.max_tokens") {
		t.Errorf("got %v", err)
	}
	must(b.Reserve(ctx, "4", charge(30, 10))) // exactly what is left
	must(b.Reserve(ctx, "5", Charge{Build: "another", Model: "m", InputTokens: 900}))
}

func TestBudgetInMoney(t *testing.T) {
	b := NewBudget(BudgetConfig{MaxCost: 0.01, Prices: map[string]Price{"m": {Input: 2, Output: 10}}})
	if err := b.Reserve(t.Context(), "1", charge(1000, 500)); err != nil { // 0.002 + 0.005
		t.Fatal(err)
	}
	if err := b.Settle(t.Context(), "1", charge(1000, 500)); err != nil {
		t.Fatal(err)
	}
	if _, cost := b.Spent("b"); math.Abs(cost-0.007) > 1e-12 {
		t.Errorf("%v is spent", cost)
	}
	if err := b.Reserve(t.Context(), "2", charge(1000, 200)); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "build.max_cost allows 0.0100") {
		t.Errorf("got %v", err)
	}
	if err := b.validate("other"); err == nil || !strings.Contains(err.Error(), "prices has no price") {
		t.Errorf("got %v", err)
	}
}

// A build that goes on after a restart has spent what it has spent.
func TestBudgetResumes(t *testing.T) {
	b := NewBudget(BudgetConfig{MaxTokens: 1000})
	b.Resume("b", "m", tree.Usage{Calls: 3, InputTokens: 900, OutputTokens: 50})
	if err := b.Reserve(t.Context(), "1", charge(60, 0)); !errors.Is(err, ErrBudget) {
		t.Errorf("got %v", err)
	}
}

// Calls under way may cost less than was reserved: the next one waits for them before the build is stopped.
func TestBudgetWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetConfig{MaxTokens: 1000})
		if err := b.Reserve(t.Context(), "1", charge(100, 800)); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- b.Reserve(t.Context(), "2", charge(100, 400)) }()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("it didn't wait: %v", err)
		default:
		}
		if err := b.Settle(t.Context(), "1", charge(100, 50)); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { got <- b.Reserve(ctx, "3", charge(400, 10)) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBudgetWithoutBounds(t *testing.T) {
	b := NewBudget(BudgetConfig{})
	if err := b.Reserve(t.Context(), "1", charge(math.MaxInt32, 1)); err != nil {
		t.Error(err)
	}
	if err := b.Settle(t.Context(), "1", charge(7, 1)); err != nil {
		t.Error(err)
	}
	if tokens, _ := b.Spent("b"); tokens != 8 {
		t.Errorf("%d tokens are spent", tokens)
	}
}
