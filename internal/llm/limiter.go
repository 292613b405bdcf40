package llm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Need is what a call takes from the limits.
type Need struct{ InputTokens, OutputTokens int }

// Outcome is what became of a call that a Permit was given for.
type Outcome struct {
	// Used is what the call took in truth; the estimate is corrected by it. Zero leaves the estimate.
	Used Need
	// Throttled says that the endpoint asked for patience, for RetryAfter if it said how long.
	Throttled  bool
	RetryAfter time.Duration
	// TimedOut says that no answer came in time.
	TimedOut bool
	// Unsent says that no request was made: the estimate is given back.
	Unsent bool
}

// Permit is the right to make one call. Done is called once, when the call has ended.
type Permit interface{ Done(Outcome) }

// Limiter keeps calls within the limits of an endpoint, for everything that shares it: one process, or a fleet.
type Limiter interface {
	// Acquire waits until a call to an endpoint may be made, and takes its need from every limit at once. The only
	// errors are those of ctx, ErrLeaving where it would have to wait, and those of a limiter that keeps its state elsewhere.
	Acquire(ctx context.Context, endpoint string, need Need) (Permit, error)
	// Waiting says what calls are waiting for, for people: "endpoint http://127.0.0.1:8000/v1: 429 until 02:14:05".
	Waiting() []string
}

// LimiterConfig sets the limits of each endpoint.
type LimiterConfig struct {
	// RequestsPerMinute, InputTokensPerMinute and OutputTokensPerMinute; 0 is no limit.
	RequestsPerMinute, InputTokensPerMinute, OutputTokensPerMinute int
	// MaxConcurrent bounds the calls under way at a time; 0 is no bound but the one learned from 429s.
	MaxConcurrent int
	// Jitter returns a random number in [0, 1), by which those that wait for the same moment are spread; nil means that
	// of math/rand/v2.
	Jitter func() float64
}

// Parameters of adaptation.
const (
	firstPause   = time.Second           // after a 429 that doesn't say how long; doubles with each in a row
	leastPause   = 50 * time.Millisecond // after one that does, whatever it says; doubles likewise
	longestPause = time.Minute
	backOff      = 0.7 // concurrency after a 429 or a time-out
)

// LocalLimiter is a Limiter for one process.
//
// Each limit is a bucket that refills continuously (the generic cell rate algorithm: what is kept is the time at which
// the bucket will be empty of debt). A bucket holds one second's worth, so that no minute, wherever it starts, sees
// noticeably more than the limit; a call larger than that is let through and paid off afterwards. Concurrency
// adapts: it shrinks by a third when the endpoint throttles and grows by one with each window of calls that succeed.
type LocalLimiter struct {
	cfg LimiterConfig

	mu    sync.Mutex
	gates map[string]*gate
}

// gate is the state of one endpoint.
type gate struct {
	requests, input, output bucket

	notBefore time.Time // the endpoint asked for that
	throttles int       // in a row
	window    float64   // of concurrency; 0: no 429 yet
	inFlight  int
	cutAt     time.Time // the last time the window shrank
	waiting   int
	changed   chan struct{} // closed when a call ends
}

// bucket holds the time at which its debt is paid; per is the time that one unit takes to refill, 0 if not limited.
type bucket struct {
	per  time.Duration
	paid time.Time
}

func newBucket(perMinute int) bucket {
	if perMinute <= 0 {
		return bucket{}
	}
	return bucket{per: max(1, time.Minute/time.Duration(perMinute))}
}

// burst is how much may be used before it has refilled.
const burst = time.Second

// ready returns the time from which the bucket allows a call.
func (b *bucket) ready() time.Time { return b.paid.Add(-burst) }

func (b *bucket) take(now time.Time, n int) {
	if b.per == 0 {
		return
	}
	if b.paid.Before(now) {
		b.paid = now
	}
	b.paid = b.paid.Add(clampDuration(float64(b.per) * float64(n)))
}

// NewLimiter returns a limiter for one process.
func NewLimiter(cfg LimiterConfig) *LocalLimiter {
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	return &LocalLimiter{cfg: cfg, gates: map[string]*gate{}}
}

func (l *LocalLimiter) gate(endpoint string) *gate {
	g := l.gates[endpoint]
	if g == nil {
		g = &gate{
			requests: newBucket(l.cfg.RequestsPerMinute), input: newBucket(l.cfg.InputTokensPerMinute), output: newBucket(l.cfg.OutputTokensPerMinute),
			changed: make(chan struct{}),
		}
		l.gates[endpoint] = g
	}
	return g
}

// Acquire waits for a permit.
func (l *LocalLimiter) Acquire(ctx context.Context, endpoint string, need Need) (Permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gate(endpoint)
	g.waiting++
	defer func() { g.waiting-- }()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		now := time.Now()
		at := g.readyAt()
		if !at.After(now) && l.admits(g) {
			g.requests.take(now, 1)
			g.input.take(now, need.InputTokens)
			g.output.take(now, need.OutputTokens)
			g.inFlight++
			return &permit{l: l, g: g, need: need, start: now}, nil
		}
		if err := WaitErr(ctx); err != nil {
			return nil, err
		}
		wait := at.Sub(now)
		if wait > 0 {
			wait += l.spread(wait)
		}
		changed := g.changed
		l.mu.Unlock()
		sleep(ctx, wait, changed)
		l.mu.Lock()
	}
}

// spread keeps those that wait for the same moment from calling at the same moment.
func (l *LocalLimiter) spread(wait time.Duration) time.Duration {
	return time.Duration(l.cfg.Jitter() * float64(min(wait/10, time.Second)))
}

// sleep waits for a time, or for a change: whichever is given and comes first. It ends with ctx, and when who waits is leaving.
func sleep(ctx context.Context, wait time.Duration, changed <-chan struct{}) {
	if wait <= 0 && changed == nil {
		return
	}
	var timer <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case <-Leaving(ctx):
	case <-timer:
	case <-changed:
	}
}

func (g *gate) readyAt() time.Time {
	at := g.notBefore
	for _, b := range []*bucket{&g.requests, &g.input, &g.output} {
		if b.per > 0 && b.ready().After(at) {
			at = b.ready()
		}
	}
	return at
}

func (l *LocalLimiter) admits(g *gate) bool {
	if l.cfg.MaxConcurrent > 0 && g.inFlight >= l.cfg.MaxConcurrent {
		return false
	}
	return g.window == 0 || g.inFlight < max(1, int(g.window))
}

// Concurrency returns how many calls to an endpoint may be under way at a time, as configured or as learned from 429s;
// 0 while nothing bounds them.
func (l *LocalLimiter) Concurrency(endpoint string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.cfg.MaxConcurrent
	if g := l.gates[endpoint]; g != nil && g.window > 0 {
		if learned := max(1, int(g.window)); most == 0 || learned < most {
			most = learned
		}
	}
	return most
}

// permit is one call under way.
type permit struct {
	l     *LocalLimiter
	g     *gate
	need  Need
	start time.Time
	once  sync.Once
}

// Done settles the call.
func (p *permit) Done(o Outcome) {
	p.once.Do(func() {
		p.l.mu.Lock()
		defer p.l.mu.Unlock()
		p.settle(o)
		close(p.g.changed)
		p.g.changed = make(chan struct{})
	})
}

func (p *permit) settle(o Outcome) {
	g, now := p.g, time.Now()
	running := g.inFlight
	g.inFlight--
	switch {
	case o.Unsent:
		g.requests.refund(1)
		g.input.refund(p.need.InputTokens)
		g.output.refund(p.need.OutputTokens)
		return
	case o.Used != Need{}:
		g.input.refund(p.need.InputTokens - o.Used.InputTokens)
		g.output.refund(p.need.OutputTokens - o.Used.OutputTokens)
	}
	if o.Throttled || o.TimedOut {
		if p.start.After(g.cutAt) { // calls that were under way at the last cut say nothing new
			if g.window == 0 {
				g.window = float64(running)
			}
			g.window = max(1, g.window*backOff)
			g.cutAt = now
		}
	} else if g.window > 0 {
		g.window += 1 / g.window
	}
	if !o.Throttled {
		g.throttles = 0
		return
	}
	pause := o.RetryAfter
	if pause <= 0 {
		pause = min(firstPause<<min(g.throttles, 10), longestPause)
	}
	pause = max(pause, min(leastPause<<min(g.throttles, 20), longestPause)) // an endpoint that always says "now" is not to be trusted
	g.throttles++
	if until := now.Add(pause); until.After(g.notBefore) {
		g.notBefore = until
	}
}

func (b *bucket) refund(n int) {
	if b.per > 0 {
		b.paid = b.paid.Add(-clampDuration(float64(b.per) * float64(n)))
	}
}

// Waiting says what calls wait for, by endpoint.
func (l *LocalLimiter) Waiting() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(l.gates)) {
		g := l.gates[name]
		if g.waiting == 0 {
			continue
		}
		at := g.readyAt()
		switch {
		case g.notBefore.After(now) && !at.After(g.notBefore):
			out = append(out, fmt.Sprintf("endpoint %s: 429 until %s", name, g.notBefore.Format(time.TimeOnly)))
		case at.After(now):
			out = append(out, fmt.Sprintf("endpoint %s: its limit until %s (%d calls wait)", name, at.Format(time.TimeOnly), g.waiting))
		case !l.admits(g):
			out = append(out, fmt.Sprintf("endpoint %s: %d calls are under way, %d wait", name, g.inFlight, g.waiting))
		}
	}
	return out
}

var _ Limiter = (*LocalLimiter)(nil)
