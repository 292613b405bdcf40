package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check asks one dependency whether it is there and fit.
type Check struct {
	// Name is that of the dependency: "queue", "state", "store".
	Name string
	// Ask returns why it can't be used. Its context ends after Timeout.
	Ask func(ctx context.Context) error
	// Timeout is how long it may take; 0 is 2 s.
	Timeout time.Duration
}

const (
	checkTimeout = 2 * time.Second
	checkedFor   = time.Second // how long an answer is good
)

// Handler returns what answers /metrics, /healthz and /readyz, and 404 for all else.
//
// /healthz says whether the process is alive: 503 means that nothing but a restart helps. It asks no dependency, so that
// a fleet isn't restarted because a server is away. /readyz says whether the process can do its work: 503 names each
// dependency that keeps it from that. Both answer in JSON.
func (t *Telemetry) Handler(checks ...Check) http.Handler {
	mux := http.NewServeMux()
	ready := &readiness{t: t}
	for _, check := range checks {
		ready.checks = append(ready.checks, &asked{Check: check})
	}
	metrics := promhttp.InstrumentMetricHandler(t.registry, promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		Registry: t.registry, EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		ready.state() // where nobody probes, the gauge would say for ever that the process isn't ready
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", t.health)
	mux.HandleFunc("GET /readyz", ready.serve)
	return mux
}

// state is the body of a probe's answer.
type state struct {
	Status string            `json:"status"` // "ok" or "failing"
	Checks map[string]string `json:"checks"` // "ok", or what is wrong
}

func (s *state) note(name string, err error) {
	if s.Checks == nil {
		s.Status, s.Checks = "ok", map[string]string{}
	}
	s.Checks[name] = "ok"
	if err != nil {
		s.Status, s.Checks[name] = "failing", err.Error()
	}
}

func (s *state) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if s.Status != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s) // whoever asked has gone
}

func (t *Telemetry) health(w http.ResponseWriter, _ *http.Request) {
	var s state
	now := time.Now()
	s.note("tasks", t.tasks.alive(now))
	t.pulses.note(&s, now)
	s.write(w)
}

// readiness asks the dependencies, not more often than once in a while however many probes come.
type readiness struct {
	t      *Telemetry
	checks []*asked

	mu   sync.Mutex
	at   time.Time
	last state
}

func (r *readiness) serve(w http.ResponseWriter, _ *http.Request) {
	s := r.state()
	s.write(w)
}

// state returns an answer that is fresh enough. Probes that come while the dependencies are asked wait for the answer.
func (r *readiness) state() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < checkedFor {
		return r.last
	}
	errs := make([]error, len(r.checks))
	var asking sync.WaitGroup
	for i, check := range r.checks {
		asking.Go(func() { errs[i] = check.ask() })
	}
	asking.Wait()
	s := state{Status: "ok", Checks: map[string]string{}}
	for i, check := range r.checks {
		s.note(check.Name, errs[i])
	}
	r.at, r.last = time.Now(), s
	ready := 0.0
	if s.Status == "ok" {
		ready = 1
	}
	r.t.set(Ready, ready)
	return s
}

// asked is a check with the answer that is waited for.
type asked struct {
	Check
	answer chan error // nil when nothing was asked
}

// ask runs the check. It doesn't take the request's context: the answer is for all who ask. A check that outlasts its
// own context isn't started again while it goes on.
func (c *asked) ask() error {
	limit := c.Timeout
	if limit == 0 {
		limit = checkTimeout
	}
	if c.answer == nil {
		answer := make(chan error, 1)
		c.answer = answer
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			answer <- c.Ask(ctx)
		}()
	}
	late := time.NewTimer(limit + limit/4) // an answer to the end of the context tells more than ours
	defer late.Stop()
	select {
	case err := <-c.answer:
		c.answer = nil
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no answer within %v: %w", limit, err)
		}
		return err
	case <-late.C:
		return fmt.Errorf("no answer within %v", limit)
	}
}

// Pulse is the sign of life of one loop.
type Pulse struct {
	name   string
	within time.Duration

	mu      sync.Mutex
	last    time.Time
	stopped bool
}

// pulses are all those of a process.
type pulses struct {
	mu  sync.Mutex
	all []*Pulse
}

// Pulse returns the pulse of a loop that beats at least once within a time; if it doesn't, /healthz fails. The time
// must be longer than any wait for a dependency in the loop, whose outage is no reason for a restart. The first beat is
// now. The name is told in the answer.
func (t *Telemetry) Pulse(name string, within time.Duration) *Pulse {
	p := &Pulse{name: name, within: within, last: time.Now()}
	t.pulses.mu.Lock()
	defer t.pulses.mu.Unlock()
	t.pulses.all = append(t.pulses.all, p)
	return p
}

// Beat says that the loop is alive.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// Stop says that the loop has ended as it should.
func (p *Pulse) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

func (p *Pulse) alive(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if silent := now.Sub(p.last); !p.stopped && silent > p.within {
		return fmt.Errorf("its loop has given no sign for %v, and should within %v", silent.Round(time.Second), p.within)
	}
	return nil
}

func (p *pulses) note(s *state, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		s.note(one.name, one.alive(now))
	}
}
