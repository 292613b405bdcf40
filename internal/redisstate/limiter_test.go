//go:build stack

package redisstate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
)

const endpoint = "http://127.0.0.1:8000/v1"

// infiniflow/ragflow#6941: requests over the limit abort builds. No minute sees more than the limit, wherever it starts,
// and what the limit allows is used.
func TestRagflow6941NoMinuteSeesMoreThanTheLimit(t *testing.T) {
	for _, limit := range []int{1, 10, 60, 600} {
		l := connect(t, Config{URL: shared.url(), Prefix: fmt.Sprint(t.Name(), limit)}).Limiter(llm.LimiterConfig{RequestsPerMinute: limit})
		all := greedy(t, l, 3*time.Minute, func(int) llm.Need { return llm.Need{} })
		calls, _ := busiest(all)
		if calls > limit {
			t.Errorf("limit %d: a minute with %d calls", limit, calls)
		}
		if got := len(all); float64(got) < 3*float64(limit)*0.95 {
			t.Errorf("limit %d: %d calls in three minutes", limit, got)
		}
	}
}

// infiniflow/ragflow#6542: nine prompts of 100k tokens at once. With a limit on tokens per minute, no minute has more than the
// limit and one call.
func TestRagflow6542GiantPrompts(t *testing.T) {
	const limit, prompt = 200_000, 100_000
	l := sharedState(t).Limiter(llm.LimiterConfig{InputTokensPerMinute: limit, RequestsPerMinute: 1000})
	all := greedy(t, l, 4*time.Minute, func(int) llm.Need { return llm.Need{InputTokens: prompt} })
	if _, tokens := busiest(all); tokens > limit+prompt {
		t.Errorf("a minute with %d tokens, the limit is %d", tokens, limit)
	}
	if len(all) < 7 || len(all) > 9 { // 2 a minute, and the first at once
		t.Errorf("%d calls in four minutes", len(all))
	}
}

// All limits are checked at once, or nothing is taken.
func TestTakesAllOrNothing(t *testing.T) {
	s := sharedState(t)
	l := s.Limiter(llm.LimiterConfig{RequestsPerMinute: 6000, InputTokensPerMinute: 6000, OutputTokensPerMinute: 6000})
	if wait, _ := tryTake(t, l, "a", llm.Need{InputTokens: 10, OutputTokens: 1000}); wait != 0 {
		t.Fatalf("the first call waits %v", wait)
	}
	before, err := s.client.HGetAll(t.Context(), l.keys(endpoint, "")[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	wait, why := tryTake(t, l, "b", llm.Need{InputTokens: 10, OutputTokens: 10})
	// 1000 output tokens at 6000 in 61 s are 10.17 s; one second of that is the burst.
	if wait < 9*time.Second || wait > 9200*time.Millisecond || why != "limit" {
		t.Errorf("the second call waits %v for %q, want about 9.17 s for the limit", wait, why)
	}
	after, err := s.client.HGetAll(t.Context(), l.keys(endpoint, "")[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("a call that waits has changed the bucket from %v to %v", before, after)
	}
}

// microsoft/graphrag#1620, #1500: several replicas, each with a limiter of its own. Here four processes with sixteen slots
// each share one limit.
func TestGraphrag1620OneLimitForTheFleet(t *testing.T) {
	const perMinute = 6000 // 98 a second, and as many at once
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	for range 4 {
		l := sharedState(t).Limiter(llm.LimiterConfig{RequestsPerMinute: perMinute})
		for range 16 {
			wg.Go(func() {
				for {
					p, err := l.Acquire(ctx, endpoint, llm.Need{})
					if err != nil {
						return
					}
					mu.Lock()
					calls++
					mu.Unlock()
					p.Done(llm.Outcome{Used: llm.Need{InputTokens: 1}})
				}
			})
		}
	}
	wg.Wait()
	if calls > 205 || calls < 120 {
		t.Errorf("%d calls in a second, want at most 98 and 98 at once", calls)
	}
}

// infiniflow/ragflow#10598: 429 storms. One process is told to wait, and all wait; whoever asks is told until when.
func TestRagflow10598AllWaitWhenOneIsThrottled(t *testing.T) {
	a, b := sharedState(t).Limiter(llm.LimiterConfig{}), sharedState(t).Limiter(llm.LimiterConfig{})
	p, err := a.Acquire(t.Context(), endpoint, llm.Need{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p.Done(llm.Outcome{Throttled: true, RetryAfter: 400 * time.Millisecond})

	if p, err = b.Acquire(t.Context(), endpoint+"/another", llm.Need{}); err != nil {
		t.Fatal(err)
	}
	p.Done(llm.Outcome{})
	if took := time.Since(start); took > 300*time.Millisecond {
		t.Errorf("another endpoint was let through after %v, it should not wait", took)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	other := make(chan error)
	go func() {
		_, err := b.Acquire(ctx, endpoint, llm.Need{})
		other <- err
	}()
	var waiting []string
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(waiting) == 0 && ctx.Err() == nil {
		<-tick.C
		waiting = b.Waiting()
	}
	if want := "endpoint " + endpoint + ": 429 until " + start.Add(400*time.Millisecond).Format("15:04"); len(waiting) != 1 || !strings.HasPrefix(waiting[0], want) {
		t.Errorf("waiting for %q, want %s…", waiting, want)
	}
	if err := <-other; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other process was let through after 100 ms: %v", err)
	}
	if got := b.Waiting(); len(got) != 0 {
		t.Errorf("nobody waits, but %q", got)
	}
	if _, err := b.Acquire(t.Context(), endpoint, llm.Need{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 390*time.Millisecond {
		t.Errorf("the other process was let through after %v of 400 ms", took)
	}
}

// Without Retry-After the pause doubles with each 429 in a row, but calls that were under way at once count as one.
func TestPauseDoublesWith429sInARow(t *testing.T) {
	s := sharedState(t)
	l := s.Limiter(llm.LimiterConfig{})
	c := &clock{t: t, l: l}
	paused := func() time.Duration {
		wait, why := tryTake(t, l, "probe", llm.Need{})
		if why != "throttled" {
			t.Fatalf("the next call waits %v for %q", wait, why)
		}
		return wait.Round(100 * time.Millisecond)
	}
	var batch []*permit
	for i := range 5 {
		p := &permit{l: l, endpoint: endpoint, id: fmt.Sprint(i)}
		if wait, _ := tryTake(t, l, p.id, p.need); wait != 0 {
			t.Fatal(wait)
		}
		batch = append(batch, p)
	}
	for _, p := range batch {
		if err := p.done(t.Context(), llm.Outcome{Throttled: true}); err != nil {
			t.Fatal(err)
		}
	}
	if got := paused(); got != time.Second {
		t.Errorf("five calls at once came back with 429: the pause is %v, want 1 s", got)
	}
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		c.advance(2 * time.Minute)
		p := &permit{l: l, endpoint: endpoint, id: fmt.Sprint("next", i)}
		if wait, _ := tryTake(t, l, p.id, p.need); wait != 0 {
			t.Fatal(wait)
		}
		if err := p.done(t.Context(), llm.Outcome{Throttled: true}); err != nil {
			t.Fatal(err)
		}
		if got := paused(); got != want*time.Second {
			t.Errorf("429 number %d in a row: the pause is %v, want %v s", i+2, got, int(want))
		}
	}
	c.advance(2 * time.Minute)
	for i, o := range []llm.Outcome{{Used: llm.Need{InputTokens: 1}}, {Throttled: true}} {
		p := &permit{l: l, endpoint: endpoint, id: fmt.Sprint("last", i)}
		if wait, _ := tryTake(t, l, p.id, p.need); wait != 0 {
			t.Fatal(wait)
		}
		if err := p.done(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := paused(); got != time.Second {
		t.Errorf("the first 429 after a success: the pause is %v, want 1 s", got)
	}

	// An endpoint that always says "at once" is heard with 50, 100, 200 … ms; this is the sixth in a row.
	for i := range 5 {
		c.advance(2 * time.Minute)
		p := &permit{l: l, endpoint: endpoint, id: fmt.Sprint("at once", i)}
		if wait, _ := tryTake(t, l, p.id, p.need); wait != 0 {
			t.Fatal(wait)
		}
		if err := p.done(t.Context(), llm.Outcome{Throttled: true, RetryAfter: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	if got := paused(); got != 1600*time.Millisecond {
		t.Errorf("an endpoint that says \"at once\" for the sixth time: the pause is %v, want 1.6 s", got)
	}
}

// The estimate is corrected by what a call took, once, also when the reply to the correction is lost.
func TestEstimatesAreCorrectedOnce(t *testing.T) {
	proxy := startProxy(t, shared.addr())
	s := connect(t, Config{URL: proxy.url(), Prefix: t.Name()})
	l := s.Limiter(llm.LimiterConfig{RequestsPerMinute: 60, InputTokensPerMinute: 61_000, OutputTokensPerMinute: 61_000}) // 1 ms a token
	debt := func(field string) time.Duration {
		t.Helper()
		paid, err := s.client.HGet(t.Context(), l.keys(endpoint, "")[0], field).Int64()
		if err != nil {
			t.Fatal(err)
		}
		now, err := s.client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(paid-now.UnixMicro()) * time.Microsecond
	}
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if got > want+time.Millisecond || got < want-900*time.Millisecond { // time passes
			t.Errorf("%s: the debt is %v, want about %v", what, got, want)
		}
	}
	first, err := l.Acquire(t.Context(), endpoint, llm.Need{})
	if err != nil {
		t.Fatal(err)
	}
	first.Done(llm.Outcome{}) // now both scripts are known, and a reply that is lost is that of a script's run
	proxy.losing(oddScripts())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // one that is taken twice would wait longer
	defer cancel()
	p, err := l.Acquire(ctx, endpoint, llm.Need{InputTokens: 10_000, OutputTokens: 5_000})
	if err != nil {
		t.Fatal(err)
	}
	near("input taken", debt("input"), 10*time.Second)
	near("output taken", debt("output"), 5*time.Second)
	near("requests", debt("requests"), 2034*time.Millisecond)
	p.Done(llm.Outcome{Used: llm.Need{InputTokens: 4_000, OutputTokens: 9_000}})
	p.Done(llm.Outcome{Used: llm.Need{InputTokens: 1, OutputTokens: 1}})
	near("input corrected", debt("input"), 4*time.Second)
	near("output corrected", debt("output"), 9*time.Second)
	if proxy.count() < 2 {
		t.Errorf("%d replies were lost, want 2", proxy.count())
	}
	proxy.losing(nil)

	u := &permit{l: l, endpoint: endpoint, id: "unsent", need: llm.Need{InputTokens: 2000, OutputTokens: 3000}, own: nothing{}}
	(&clock{t: t, l: l}).advance(time.Hour)
	if wait, _ := tryTake(t, l, u.id, u.need); wait != 0 {
		t.Fatal(wait)
	}
	u.Done(llm.Outcome{Unsent: true})
	near("input of a call that was not made", debt("input"), 0)
	near("output of a call that was not made", debt("output"), 0)
	near("request of a call that was not made", debt("requests"), 0)
}

// oddScripts loses the reply to the first, third, fifth … call of a script.
func oddScripts() func([]byte) bool {
	each, n := everyScript(1), 0
	return func(request []byte) bool {
		if !each(request) {
			return false
		}
		n++
		return n%2 == 1
	}
}

type nothing struct{}

func (nothing) Done(llm.Outcome) {}

// While Redis is away no call is made and none fails: the error is one that gives the task back without counting.
func TestLimiterWithoutRedis(t *testing.T) {
	server := startServer(t)
	s := connect(t, Config{URL: server.url(), Patience: 100 * time.Millisecond, Timeout: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	l := s.Limiter(llm.LimiterConfig{RequestsPerMinute: 60})
	p, err := l.Acquire(t.Context(), endpoint, llm.Need{})
	if err != nil {
		t.Fatal(err)
	}
	server.kill()
	p.Done(llm.Outcome{Throttled: true}) // must not block for long, or panic
	_, err = l.Acquire(t.Context(), endpoint, llm.Need{})
	var call *llm.Error
	if !errors.Is(err, ErrUnavailable) || !errors.As(err, &call) || call.Kind != llm.Throttled {
		t.Errorf("Acquire: %v, want ErrUnavailable within an *llm.Error of kind throttled", err)
	}
	server.start()
	if _, err := l.Acquire(t.Context(), endpoint, llm.Need{}); err != nil {
		t.Errorf("Acquire after Redis came back: %v", err)
	}
}

// The calls under way in one process are bounded by its own part.
func TestMaxConcurrent(t *testing.T) {
	l := sharedState(t).Limiter(llm.LimiterConfig{MaxConcurrent: 2})
	var held []llm.Permit
	for range 2 {
		p, err := l.Acquire(t.Context(), endpoint, llm.Need{})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, endpoint, llm.Need{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third call: %v, want that it waits", err)
	}
	held[0].Done(llm.Outcome{})
	if _, err := l.Acquire(t.Context(), endpoint, llm.Need{}); err != nil {
		t.Error(err)
	}
}
