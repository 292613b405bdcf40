package redisstate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
)

const (
	// burst is how far an endpoint's bucket may run into debt before a call waits. Each limit is spread over a minute
	// and a burst, so that no minute sees more requests than the limit, wherever it starts. Tokens may exceed
	// theirs by one call: one that is larger than the burst is let through and paid off afterwards.
	burst = time.Second
	// firstThrottle is the pause after a 429 that doesn't say how long, leastThrottle that after one that does, whatever
	// it says. Both double with each 429 in a row, up to longestThrottle.
	firstThrottle, leastThrottle, longestThrottle = time.Second, 50 * time.Millisecond, time.Minute
	// longestPoll is how long a call waits before it looks again: tokens may have been given back.
	longestPoll = 5 * time.Second
	// callLife is how long a call that was never returned is remembered.
	callLife = time.Hour
)

// Limiter is an [llm.Limiter] for a fleet: every process takes from the same buckets, one for each limit of each
// endpoint, in one step. When one of them is told to wait by the endpoint, all wait. While Redis is away no call is
// made: the fleet's limit can't be kept then, and no other is right.
//
// How many calls a process has under way at a time adapts in the process, as in [llm.LocalLimiter].
type Limiter struct {
	s    *State
	cfg  llm.LimiterConfig
	pers []any // the time in µs that one request, input token and output token takes to refill; 0: no limit
	own  *llm.LocalLimiter

	mu    sync.Mutex
	lanes map[string]*lane
}

var _ llm.Limiter = (*Limiter)(nil)

// lane is this process's side of one endpoint.
type lane struct {
	// turn is held by the one call that asks Redis; the others wait for it in the order in which they came. So the
	// fleet asks as often as it has processes and not as it has slots.
	turn chan struct{}

	waiting int
	until   time.Time // what the one that asks was told
	why     string
}

// Limiter returns the fleet's limits. Processes that share an endpoint should be configured with the same.
func (s *State) Limiter(cfg llm.LimiterConfig) *Limiter {
	if cfg.Jitter == nil {
		cfg.Jitter = mrand.Float64
	}
	l := &Limiter{
		s: s, cfg: cfg, lanes: map[string]*lane{},
		own: llm.NewLimiter(llm.LimiterConfig{MaxConcurrent: cfg.MaxConcurrent, Jitter: cfg.Jitter}),
	}
	for _, perMinute := range []int{cfg.RequestsPerMinute, cfg.InputTokensPerMinute, cfg.OutputTokensPerMinute} {
		l.pers = append(l.pers, per(perMinute))
	}
	return l
}

// Concurrency is that of [llm.LocalLimiter.Concurrency], for this process.
func (l *Limiter) Concurrency(endpoint string) int { return l.own.Concurrency(endpoint) }

// per returns the time in µs that one unit takes to refill, as text.
func per(perMinute int) string {
	if perMinute <= 0 {
		return "0"
	}
	return strconv.FormatFloat(float64((time.Minute+burst).Microseconds())/float64(perMinute), 'f', 6, 64)
}

func (l *Limiter) lane(endpoint string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lanes[endpoint]
	if n == nil {
		n = &lane{turn: make(chan struct{}, 1)}
		l.lanes[endpoint] = n
	}
	return n
}

// keys names an endpoint's bucket, and a call's key beside it.
func (l *Limiter) keys(endpoint, id string) []string {
	group := "limit:" + escape(endpoint)
	return []string{l.s.sharedKey(group, "bucket"), l.s.sharedKey(group, "call:"+id)}
}

// Acquire implements [llm.Limiter]. While Redis is away its error is an *llm.Error of kind Throttled, which wraps
// ErrUnavailable: the call may be made later, and nothing has failed.
func (l *Limiter) Acquire(ctx context.Context, endpoint string, need llm.Need) (llm.Permit, error) {
	n := l.lane(endpoint)
	l.note(func() { n.waiting++ })
	defer l.note(func() { n.waiting-- })
	if err := n.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer func() { <-n.turn }()

	own, err := l.own.Acquire(ctx, endpoint, llm.Need{})
	if err != nil {
		return nil, err
	}
	p := &permit{l: l, endpoint: endpoint, id: rand.Text(), need: need, own: own}
	if err := l.take(ctx, n, p); err != nil {
		own.Done(llm.Outcome{Unsent: true})
		if errors.Is(err, ErrUnavailable) {
			return nil, &llm.Error{Kind: llm.Throttled, Endpoint: endpoint, Message: "the fleet's limits can't be read: " + err.Error(), Err: err}
		}
		return nil, err
	}
	return p, nil
}

// takeTurn waits until no other call of this process waits before this one.
func (n *lane) takeTurn(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-llm.Leaving(ctx):
	}
	return llm.WaitErr(ctx)
}

// take asks Redis until the call is let through.
func (l *Limiter) take(ctx context.Context, n *lane, p *permit) error {
	defer l.note(func() { n.until = time.Time{} })
	args := append(slices.Clone(l.pers), p.need.InputTokens, p.need.OutputTokens, burst.Microseconds(), callLife.Milliseconds())
	for {
		out, err := l.s.run(ctx, l.s.scripts.take, l.keys(p.endpoint, p.id), args...)
		if err != nil {
			return fmt.Errorf("redisstate: limits of endpoint %s: %w", p.endpoint, err)
		}
		if out.word() == "ok" {
			return nil
		}
		us, err := out.numbers(1, 1)
		if err != nil {
			return fmt.Errorf("redisstate: limits of endpoint %s: %w", p.endpoint, err)
		}
		wait := time.Duration(us[0]) * time.Microsecond
		l.note(func() { n.until, n.why = time.Now().Add(wait), out.text(2) })
		// Processes that were told the same moment come back spread over a part of the wait.
		wait += time.Duration(l.cfg.Jitter() * float64(min(wait/10, time.Second)))
		if err := l.s.hold(ctx, min(wait, longestPoll)); err != nil {
			return err
		}
	}
}

func (l *Limiter) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// Waiting implements [llm.Limiter]: what the calls of this process wait for.
func (l *Limiter) Waiting() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	now := time.Now()
	for _, endpoint := range slices.Sorted(maps.Keys(l.lanes)) {
		n := l.lanes[endpoint]
		if n.waiting == 0 || !n.until.After(now) {
			continue
		}
		at := n.until.Format(time.TimeOnly)
		if n.why == "throttled" {
			out = append(out, fmt.Sprintf("endpoint %s: 429 until %s (%d calls wait)", endpoint, at, n.waiting))
		} else {
			out = append(out, fmt.Sprintf("endpoint %s: the fleet's limit until %s (%d calls wait)", endpoint, at, n.waiting))
		}
	}
	return append(out, l.own.Waiting()...)
}

// permit is one call under way.
type permit struct {
	l        *Limiter
	endpoint string
	id       string
	need     llm.Need
	own      llm.Permit
	once     sync.Once
}

// Done implements [llm.Permit]. It waits for Redis for Config.Timeout at most; what couldn't be given back stays taken,
// so that the fleet is slower than its limit and never faster.
func (p *permit) Done(o llm.Outcome) {
	p.once.Do(func() {
		p.own.Done(o)
		ctx, cancel := context.WithTimeout(context.Background(), p.l.s.cfg.Timeout)
		defer cancel()
		if err := p.done(ctx, o); err != nil {
			p.l.s.cfg.Log.Warn("the outcome of a call was not told to the fleet", "endpoint", p.endpoint, "error", err)
		}
	})
}

func (p *permit) done(ctx context.Context, o llm.Outcome) error {
	back := []any{0, 0, 0}
	switch {
	case o.Unsent:
		back = []any{"", "", ""}
	case o.Used != llm.Need{}:
		back = []any{0, p.need.InputTokens - o.Used.InputTokens, p.need.OutputTokens - o.Used.OutputTokens}
	}
	how := "ok"
	switch {
	case o.Throttled:
		how = "throttled"
	case o.Unsent || o.TimedOut:
		how = "other"
	}
	retry, least := min(max(o.RetryAfter, 0), math.MaxInt32*time.Second), leastThrottle
	if retry == 0 {
		least = firstThrottle
	}
	args := slices.Concat(p.l.pers, back, []any{
		how, retry.Microseconds(), least.Microseconds(), longestThrottle.Microseconds(), callLife.Milliseconds(),
	})
	_, err := p.l.s.run(ctx, p.l.s.scripts.give, p.l.keys(p.endpoint, p.id), args...)
	return err
}
