//go:build stack

package redisstate

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
)

// clock is the time of a limiter's test. It moves by moving what is kept in Redis back, which to a bucket is the same.
type clock struct {
	t     *testing.T
	l     *Limiter
	moved time.Duration
}

func (c *clock) advance(d time.Duration) {
	c.t.Helper()
	c.moved += d
	key := c.l.keys(endpoint, "")[0]
	fields, err := c.l.s.client.HGetAll(c.t.Context(), key).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range fields {
		at, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		if name != "throttles" {
			if err := c.l.s.client.HSet(c.t.Context(), key, name, at-d.Microseconds()).Err(); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// now is the time since the start of the test, as the buckets see it.
func (c *clock) now(start time.Time) time.Duration { return time.Since(start) + c.moved }

// tryTake asks once; wait is 0 if the call was let through.
func tryTake(t *testing.T, l *Limiter, id string, need llm.Need) (wait time.Duration, why string) {
	t.Helper()
	args := append(append([]any{}, l.pers...), need.InputTokens, need.OutputTokens, burst.Microseconds(), callLife.Milliseconds())
	out, err := l.s.run(t.Context(), l.s.scripts.take, l.keys(endpoint, id), args...)
	if err != nil {
		t.Fatal(err)
	}
	if out.word() == "ok" {
		return 0, ""
	}
	us, err := out.numbers(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(us[0]) * time.Microsecond, out.text(2)
}

// admission is a call that was let through.
type admission struct {
	at     time.Duration
	tokens int
}

// greedy calls as soon as it may, until so much time has passed on the clock.
func greedy(t *testing.T, l *Limiter, span time.Duration, need func(i int) llm.Need) []admission {
	t.Helper()
	c, start := &clock{t: t, l: l}, time.Now()
	var all []admission
	for i := 0; c.now(start) < span; {
		n := need(i)
		wait, _ := tryTake(t, l, fmt.Sprint(i), n)
		if wait > 0 {
			c.advance(wait)
			continue
		}
		all = append(all, admission{c.now(start), n.InputTokens})
		i++
	}
	return all
}

// busiest returns the most calls and tokens of any minute, wherever it starts.
func busiest(all []admission) (calls, tokens int) {
	for i := range all {
		n, sum := 0, 0
		// A call is timed after its script: the script's own time is a little earlier.
		for j := i; j < len(all) && all[j].at < all[i].at+time.Minute-20*time.Millisecond; j++ {
			n++
			sum += all[j].tokens
		}
		calls, tokens = max(calls, n), max(tokens, sum)
	}
	return calls, tokens
}
