package llm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const where = "http://127.0.0.1:8000/v1"

// exact returns a limiter that adds nothing to its waits.
func exact(cfg LimiterConfig) *LocalLimiter {
	cfg.Jitter = func() float64 { return 0 }
	return NewLimiter(cfg)
}

func acquire(t *testing.T, l Limiter, need Need) Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), where, need)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// However the minute is laid, it sees no more than the limit and one second's worth.
func TestLimiterPacesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{RequestsPerMinute: 120})
		var at []time.Time
		for range 400 {
			acquire(t, l, Need{}).Done(Outcome{})
			at = append(at, time.Now())
		}
		for i := range at {
			n := 0
			for _, u := range at[i:] {
				if u.Sub(at[i]) < time.Minute {
					n++
				}
			}
			if n > 120+2+1 {
				t.Fatalf("%d requests in the minute after the %dth", n, i)
			}
		}
		if total := at[399].Sub(at[0]); total > 400*500*time.Millisecond {
			t.Errorf("400 requests took %s at 120 a minute", total)
		}
	})
}

func TestLimiterCountsTokensOfAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{InputTokensPerMinute: 60_000, OutputTokensPerMinute: 6_000})
		start := time.Now()
		// 10 calls of 6,000 in, 60 a second: 1,000 in a second pass, 100 out a second. The input is what counts.
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { acquire(t, l, Need{6000, 60}).Done(Outcome{}) })
		}
		wg.Wait()
		// Nine calls have to be paid off, but for the burst, before the tenth starts.
		if took := time.Since(start).Round(time.Second); took < 53*time.Second || took > 54*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestLimiterSettlesEstimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{OutputTokensPerMinute: 600})
		start := time.Now()
		for range 5 {
			acquire(t, l, Need{0, 200}).Done(Outcome{Used: Need{100, 10}}) // estimated at 20 s, used 1 s
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("took %s; the estimates were not corrected", took)
		}
		acquire(t, l, Need{0, 6000}).Done(Outcome{Unsent: true})
		acquire(t, l, Need{0, 1}).Done(Outcome{})
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("took %s; what was not sent was not given back", took)
		}
	})
}

func TestLimiterObeys429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{})
		p, q := acquire(t, l, Need{}), acquire(t, l, Need{})
		p.Done(Outcome{Throttled: true, RetryAfter: 30 * time.Second})
		start := time.Now()
		got := make(chan time.Duration, 1)
		go func() {
			acquire(t, l, Need{}).Done(Outcome{})
			got <- time.Since(start)
		}()
		synctest.Wait()
		until := start.Add(30 * time.Second).Format(time.TimeOnly)
		if diff := cmp.Diff([]string{"endpoint " + where + ": 429 until " + until}, l.Waiting()); diff != "" {
			t.Error(diff)
		}
		// A shorter request to wait doesn't lift the longer one, nor does the end of a call that succeeds.
		q.Done(Outcome{Throttled: true, RetryAfter: time.Second})
		if d := <-got; d != 30*time.Second {
			t.Errorf("the next call came after %s", d)
		}
		if w := l.Waiting(); len(w) > 0 {
			t.Errorf("nothing waits, but %q", w)
		}
	})
}

// A 429 that doesn't say how long doubles the pause each time, up to a minute, and a success ends that.
func TestLimiterBacksOffByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{})
		var pauses []time.Duration
		for range 9 {
			before := time.Now()
			p := acquire(t, l, Need{})
			pauses = append(pauses, time.Since(before))
			p.Done(Outcome{Throttled: true})
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, pauses); diff != "" {
			t.Error(diff)
		}
		acquire(t, l, Need{}).Done(Outcome{Used: Need{1, 1}})
		acquire(t, l, Need{}).Done(Outcome{Throttled: true})
		before := time.Now()
		acquire(t, l, Need{}).Done(Outcome{})
		if d := time.Since(before); d != s {
			t.Errorf("after a success the pause was %s", d)
		}
	})
}

// "Retry-After: 0", again and again, must not become a loop of requests.
func TestLimiterDistrustsRetryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{})
		start := time.Now()
		for range 12 {
			acquire(t, l, Need{}).Done(Outcome{Throttled: true, RetryAfter: time.Millisecond})
		}
		// 50 ms, doubling: 50 * (2^11 - 1) ms less what is over a minute.
		if took := time.Since(start); took < 90*time.Second {
			t.Errorf("12 requests within %s", took)
		}
	})
}

// An endpoint that takes four calls at a time and throttles more: concurrency settles near four.
func TestLimiterAdaptsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{})
		var mu sync.Mutex
		inFlight, throttled, done := 0, 0, 0
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 20 {
					p := acquire(t, l, Need{})
					mu.Lock()
					inFlight++
					over := inFlight > 4
					mu.Unlock()
					if !over {
						<-time.After(time.Second)
					}
					mu.Lock()
					inFlight--
					if over {
						throttled++
					} else {
						done++
					}
					mu.Unlock()
					p.Done(Outcome{Throttled: over, RetryAfter: 100 * time.Millisecond, Used: Need{1, 1}})
				}
			})
		}
		wg.Wait()
		if throttled > done/2 {
			t.Errorf("%d calls throttled, %d done", throttled, done)
		}
	})
}

func TestLimiterMaxConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{MaxConcurrent: 2})
		first := acquire(t, l, Need{})
		acquire(t, l, Need{})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, where, Need{})
			errs <- err
		}()
		synctest.Wait()
		if w := l.Waiting(); len(w) != 1 || !strings.Contains(w[0], "2 calls are under way, 1 wait") {
			t.Errorf("waiting: %q", w)
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		go func() { first.Done(Outcome{}); first.Done(Outcome{}) }() // the second is ignored
		acquire(t, l, Need{})
	})
}

// Endpoints have limits of their own.
func TestLimiterKeepsEndpointsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exact(LimiterConfig{RequestsPerMinute: 1})
		start := time.Now()
		for _, name := range []string{"a", "b", "c"} {
			p, err := l.Acquire(t.Context(), name, Need{})
			if err != nil {
				t.Fatal(err)
			}
			p.Done(Outcome{Throttled: name == "a", RetryAfter: time.Hour})
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}
