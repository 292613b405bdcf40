//go:build stack

package redisstate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// words counts words, which is enough for what these tests ask.
type words struct{}

func (words) Count(text string) int { return len(strings.Fields(text)) }

// infiniflow/ragflow#5867 and microsoft/graphrag#1500: four processes with eight slots each, against an endpoint that
// answers 429 above its limit. The fleet stays under it, no call fails, and what all have spent is in one account.
func TestRagflow5867FleetStaysUnderTheEndpointsLimit(t *testing.T) {
	const perMinute, calls = 2400, 100 // 40 at once, then 40 a second
	server := llmtest.New(llmtest.Config{RequestsPerMinute: perMinute})
	defer server.Close()
	cfg := llm.DefaultSummaries()
	cfg.Provider, cfg.BaseURL, cfg.Model = llm.ProviderOpenAI, server.URL(), "m"
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	todo := make(chan int, calls)
	for i := range calls {
		todo <- i
	}
	close(todo)
	var budget *Budget
	for range 4 {
		s := sharedState(t)
		budget = s.Budget(llm.BudgetConfig{MaxTokens: 10_000_000})
		summarizer, err := llm.NewSummarizer(cfg, llm.Deps{
			Counter: words{}, Budget: budget, Limiter: s.Limiter(llm.LimiterConfig{RequestsPerMinute: perMinute, InputTokensPerMinute: 10_000_000}),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			wg.Go(func() {
				for i := range todo {
					answer, err := summarizer.Summarize(context.Background(), mapreduce.Call{
						Prompt: "Summarize: {chunks}", Texts: []string{fmt.Sprintf("Sentence number %d is here. It has a friend.", i)},
						MaxOutputTokens: 100, Build: "b",
					})
					if err != nil {
						t.Errorf("call %d: %v", i, err)
					}
					mu.Lock()
					total += answer.Usage.InputTokens + answer.Usage.OutputTokens
					mu.Unlock()
				}
			})
		}
	}
	start := time.Now()
	wg.Wait()
	counts := server.Counts()
	if counts.ChatOK != calls || counts.Limited > calls/20 {
		t.Errorf("%d calls were answered and %d refused, want %d and hardly any", counts.ChatOK, counts.Limited, calls)
	}
	if took := time.Since(start); took < 1300*time.Millisecond {
		t.Errorf("the calls took %v, less than the limit allows", took)
	}
	spent(t, budget, total, 0)
}

// BenchmarkCall is what one call to a model costs in calls of Redis: a reservation, a permit, and both settled.
func BenchmarkCall(b *testing.B) {
	s, err := Connect(b.Context(), Config{URL: shared.url(), Prefix: fmt.Sprint(b.Name(), b.N)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	budget, limiter := s.Budget(llm.BudgetConfig{MaxTokens: 1 << 50}), s.Limiter(llm.LimiterConfig{RequestsPerMinute: 1 << 40, InputTokensPerMinute: 1 << 40})
	for i := range 1000 { // as many calls are under way
		if err := budget.Reserve(b.Context(), fmt.Sprint("under way ", i), charge(100, 10)); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		id := fmt.Sprint(i)
		if err := budget.Reserve(b.Context(), id, charge(100, 10)); err != nil {
			b.Fatal(err)
		}
		p, err := limiter.Acquire(b.Context(), endpoint, llm.Need{InputTokens: 100})
		if err != nil {
			b.Fatal(err)
		}
		p.Done(llm.Outcome{Used: llm.Need{InputTokens: 90}})
		if err := budget.Settle(b.Context(), id, charge(90, 8)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
