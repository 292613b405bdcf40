package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// Parameters of patience.
const (
	// clientTries is how often a call is made that fails in a way that trying again may help. It is small: the worker
	// tries again, later and perhaps elsewhere, and counts.
	clientTries = 3
	// firstWait and longestWait bound the pause before another try: full jitter over a doubling span.
	firstWait   = 500 * time.Millisecond
	longestWait = 20 * time.Second
	// longestThrottle is how long a call is held back by an endpoint that throttles, before the task is given back.
	longestThrottle = 10 * time.Minute
)

// Patient is a Model that waits: for the limits, for the budget, and out what another moment may cure. A call that the
// endpoint throttles is made again when the endpoint allows; one that failed is made again a few times, but not one
// that ran into its time-out, which would be paid for twice.
type Patient struct {
	model    Model
	endpoint string
	name     string // of the model, for prices
	deps     Deps
	nonce    uint64 // keeps the ids of two processes apart
	calls    atomic.Uint64
	answered atomic.Bool // the endpoint has answered a call
}

func newPatient(model Model, endpoint, name string, deps Deps) *Patient {
	return &Patient{model: model, endpoint: endpoint, name: name, deps: deps, nonce: rand.Uint64()}
}

// Complete makes one call, and again as described.
func (p *Patient) Complete(ctx context.Context, req Request) (Reply, error) {
	if req.PromptTokens == 0 {
		req.PromptTokens = p.deps.Counter.Count(req.Prompt)
	}
	var throttled time.Time // since when
	for tries := 1; ; {
		reply, err := p.once(ctx, req)
		var e *Error
		if !errors.As(err, &e) {
			return reply, err
		}
		switch e.Kind {
		case Throttled:
			p.deps.Stats.Throttled.Add(1)
			if throttled.IsZero() {
				throttled = time.Now()
			}
			if time.Since(throttled)+e.RetryAfter > longestThrottle {
				return Reply{}, e.until(time.Now())
			}
			if err := WaitErr(ctx); err != nil {
				return Reply{}, err
			}
			continue // the limiter holds the next one back
		case Auth: // after answers it may be a gateway's moment of weakness
			if !p.answered.Load() || tries == clientTries {
				return Reply{}, err
			}
			p.deps.Stats.Failed.Add(1)
		case Transient, Unreachable:
			p.deps.Stats.Failed.Add(1)
			if e.Sent {
				p.deps.Stats.MaybePaid.Add(1)
			}
			if tries == clientTries || e.TimedOut {
				return Reply{}, err
			}
		default:
			return Reply{}, err
		}
		throttled = time.Time{}
		p.deps.Log.Debug("a call failed and is made again", "endpoint", p.endpoint, "try", tries, "error", err)
		sleep(ctx, backoff(tries, p.deps.Jitter), nil)
		if err := WaitErr(ctx); err != nil {
			return Reply{}, err
		}
		tries++
	}
}

// backoff is a random part of a span that doubles with each try.
func backoff(tries int, jitter func() float64) time.Duration {
	span := min(firstWait<<min(tries-1, 10), longestWait)
	return time.Duration(jitter() * float64(span))
}

// once makes one call under a reservation and a permit.
func (p *Patient) once(ctx context.Context, req Request) (Reply, error) {
	settle, err := p.reserve(ctx, req)
	if err != nil {
		return Reply{}, err
	}
	permit, err := p.deps.Limiter.Acquire(ctx, p.endpoint, Need{req.PromptTokens, req.MaxOutputTokens})
	if err != nil {
		settle(Reply{})
		return Reply{}, err
	}
	p.deps.Stats.Calls.Add(1)
	under, called := p.deps.Observer.Calling(ctx)
	reply, err := p.model.Complete(under, req)
	called(Need{reply.InputTokens, reply.OutputTokens}, err)
	permit.Done(outcome(err, Need{reply.InputTokens, reply.OutputTokens}))
	settle(reply)
	if err == nil {
		p.answered.Store(true)
		p.deps.Stats.Succeeded.Add(1)
		p.deps.Stats.InputTokens.Add(int64(reply.InputTokens))
		p.deps.Stats.OutputTokens.Add(int64(reply.OutputTokens))
	}
	return reply, err
}

// outcome tells the limiter how a call went.
func outcome(err error, used Need) Outcome {
	var e *Error
	if !errors.As(err, &e) {
		return Outcome{Used: used}
	}
	switch e.Kind {
	case Throttled:
		return Outcome{Throttled: true, RetryAfter: min(e.RetryAfter, longestThrottle)} // who waits longer gives the task back
	case Unreachable:
		return Outcome{Unsent: true}
	default:
		return Outcome{TimedOut: e.TimedOut}
	}
}

// reserve sets the most that the call may cost aside, and returns how to settle it.
func (p *Patient) reserve(ctx context.Context, req Request) (settle func(Reply), err error) {
	if p.deps.Budget == nil {
		return func(Reply) {}, nil
	}
	id := fmt.Sprintf("%016x-%d", p.nonce, p.calls.Add(1))
	most := Charge{Build: req.Build, Model: p.name, InputTokens: req.PromptTokens + mapreduce.MessageTokens, OutputTokens: req.MaxOutputTokens}
	if err := p.deps.Budget.Reserve(ctx, id, most); err != nil {
		return nil, err
	}
	return func(r Reply) {
		cost := Charge{Build: req.Build, Model: p.name, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens}
		// The books must be right even when the build is being stopped.
		if err := p.deps.Budget.Settle(context.WithoutCancel(ctx), id, cost); err != nil {
			p.deps.Log.Warn("a call's cost was not booked", "build", req.Build, "error", err)
		}
	}, nil
}

var _ Model = (*Patient)(nil)
