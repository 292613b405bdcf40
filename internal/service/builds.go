package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
)

// run is one build that this process works on, or has worked on last.
type run struct {
	corpus string
	start  api.Start
	began  chan struct{} // closed once build is known
	build  string        // valid after began
	done   chan struct{} // closed at rest

	mu    sync.Mutex
	steps []string // guarded by mu

	// What follows is valid after done.
	report api.BuildReport
	err    error
}

// name is the id of the build, "" before it has begun.
func (r *run) name() string {
	if isClosed(r.began) {
		return r.build
	}
	return ""
}

// mostSteps is how many sentences of a build are kept.
const mostSteps = 1000

func (r *run) say(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) < mostSteps {
		r.steps = append(r.steps, step)
	}
}

func (r *run) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.steps...)
}

// keyOf is what a build keeps of the request that began it: the key, and what was asked.
func keyOf(start api.Start) string {
	if start.Key == "" {
		return ""
	}
	key := start.Key
	start.Key = ""
	body, err := json.Marshal(start)
	if err != nil {
		panic("numbers and texts always encode: " + err.Error())
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8]) + " " + key
}

// sameKey reports whether a kept key is that of a request. The same key with another request is an error.
func sameKey(kept string, start api.Start) (bool, error) {
	digest, key, _ := strings.Cut(kept, " ")
	if start.Key == "" || key != start.Key {
		return false, nil
	}
	if want, _, _ := strings.Cut(keyOf(start), " "); digest != want {
		return false, api.Usagef("use another key for another request", "Idempotency-Key %q was used for a request with another body", start.Key)
	}
	return true, nil
}

// running returns the build of a corpus that this process works on; nil if there is none.
func (s *Service) running(corpus string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[corpus]
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	default:
		return r
	}
}

// planning is the gate of plans, one after the other for all corpora. No corpus has this name.
const planning = "/plan"

// Plan says what a build would do and cost, or with full one in full.
func (s *Service) Plan(ctx context.Context, corpus string, full bool) (api.Estimate, error) {
	if _, err := s.Record(ctx, corpus); err != nil {
		return api.Estimate{}, err
	}
	coord, err := s.deps.Builder.Coordinator(ctx, corpus)
	if err != nil {
		return api.Estimate{}, err
	}
	leave, err := s.gate(ctx, planning) // each plans with all the memory that is there
	if err != nil {
		return api.Estimate{}, err
	}
	defer leave()
	return coord.Plan(ctx, full)
}

// heldFor is how long a start waits for another process, which has the corpus's lease, to say what it builds.
const heldFor = 15 * time.Second

// Start starts a build, or goes on with one. Where another process is at it, that is the build; where it has only just taken the
// lease, its build is waited for.
func (s *Service) Start(ctx context.Context, corpus string, start api.Start) (b api.Build, err error) {
	action := "start-build"
	if start.Retry {
		action = "retry-tasks"
	}
	defer func() { s.changed(ctx, api.Change{Action: action, Corpus: corpus, Objects: named(b.Build), Err: err}) }()
	if _, err := s.Record(ctx, corpus); err != nil {
		return api.Build{}, err
	}
	for began := time.Now(); ; {
		r, fresh, err := s.claim(ctx, corpus, start)
		if err != nil {
			return api.Build{}, err
		}
		if r == nil { // another process knows the key
			return s.Newest(ctx, corpus, true)
		}
		select {
		case <-r.began:
		case <-r.done:
		case <-ctx.Done():
			return api.Build{}, ctx.Err()
		}
		if !r.held() {
			if fresh {
				s.log(r)
			}
			return s.shown(ctx, r, !fresh)
		}
		var missing *api.Error
		b, err := s.Newest(ctx, corpus, true)
		switch {
		case err == nil && !b.Resting:
			return b, nil
		case err != nil && !(errors.As(err, &missing) && missing.Status == http.StatusNotFound):
			return api.Build{}, err
		case time.Since(began) > heldFor:
			return api.Build{}, api.Conflictf("try again in a while", "corpus %s is in the hands of another process, which builds nothing", corpus)
		}
		s.forget(r)
		select {
		case <-ctx.Done():
			return api.Build{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// held reports whether a run came to nothing because another process has the lease.
func (r *run) held() bool {
	return isClosed(r.done) && r.build == "" && errors.Is(r.err, levels.ErrHeld)
}

// forget makes room for another run.
func (s *Service) forget(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.corpus] == r {
		delete(s.runs, r.corpus)
	}
}

// claim returns the run that a request is for: a new one, or the one that is there.
func (s *Service) claim(ctx context.Context, corpus string, start api.Start) (r *run, fresh bool, err error) {
	state, err := s.deps.Builds.Load(ctx, corpus)
	if err != nil && !errors.Is(err, levels.ErrNotFound) {
		return nil, false, fmt.Errorf("corpus %s: %w", corpus, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.runs[corpus]; last != nil {
		same, err := sameKey(keyOf(last.start), start)
		if err != nil || same {
			return last, false, err
		}
		select {
		case <-last.done:
		default:
			if start.Retry {
				return nil, false, api.Conflictf("wait until it rests; aerie status looks at it", "corpus %s is being built (%s)", corpus, cmp.Or(last.name(), "about to begin"))
			}
			return last, false, nil
		}
	}
	if state != nil {
		if same, err := sameKey(state.Key, start); err != nil || same {
			return nil, false, err
		}
	}
	if s.ctx.Err() != nil {
		return nil, false, &api.Error{Err: errors.New("the coordinator is stopping"), Exit: api.ExitUnreachable, Status: http.StatusServiceUnavailable}
	}
	r = &run{corpus: corpus, start: start, began: make(chan struct{}), done: make(chan struct{})}
	s.runs[corpus] = r
	s.work.Go(func() { s.drive(r) })
	return r, true, nil
}

// drive runs a build to its rest.
func (s *Service) drive(r *run) {
	defer close(r.done)
	trigger := cmp.Or(r.start.Trigger, "command")
	if r.start.Retry {
		trigger = "retry"
	}
	began := false
	req := coordinator.Request{
		Force: r.start.Force, Full: r.start.Full, Restale: r.start.Settle, Trigger: trigger, Retry: r.start.Retry, RetryCause: r.start.Cause, Key: keyOf(r.start),
		MaxTokens: r.start.MaxTokens, MaxCost: r.start.MaxCost,
		Said: r.say,
		Began: func(build string) {
			if !began {
				began, r.build = true, build
				close(r.began)
			}
		},
	}
	r.report, r.err = s.deps.Builder.Run(s.ctx, r.corpus, req, r.start.BuildRequest)
	var unfinished *coordinator.SettingsError
	var built *coordinator.BuiltOtherwiseError
	switch {
	case errors.As(r.err, &unfinished):
		unfinished.Served = true
	case errors.As(r.err, &built):
		built.Served = true
	}
}

func (s *Service) log(r *run) {
	s.deps.Log.Info("a build was asked for", "corpus", r.corpus, "build", r.build, "force", r.start.Force, "retry", r.start.Retry)
}

// shown is a run as it is now.
func (s *Service) shown(ctx context.Context, r *run, attached bool) (api.Build, error) {
	select {
	case <-r.done:
	default:
		b, err := s.Newest(ctx, r.corpus, attached)
		if err != nil || b.Build != r.build || !b.Resting {
			b.Steps = r.said()
			return b, err
		}
		// The state rests a moment before its process has cleaned up.
		select {
		case <-r.done:
		case <-ctx.Done():
			return api.Build{}, ctx.Err()
		}
	}
	switch {
	case errors.Is(r.err, levels.ErrHeld): // another process builds
		return s.Newest(ctx, r.corpus, true)
	case r.err != nil && r.build == "":
		return api.Build{}, r.err
	case r.report.Build == "" && r.err == nil:
		return api.Build{Corpus: r.corpus, Attached: attached, Resting: true, Report: &r.report, Steps: []string{}, BuildStatus: emptyStatus()}, nil
	}
	b, err := s.Newest(ctx, r.corpus, attached)
	if err != nil || b.Build != r.build {
		return b, err
	}
	b.Steps = r.said()
	if r.err != nil && !b.Resting && !s.cfg.Exclusive {
		return b, nil // the lease was lost or handed over: another process goes on
	}
	b.Resting = true
	if r.err != nil {
		b.Problem, b.Report = api.ProblemOf(r.err), nil
		return b, nil
	}
	b.Report = &r.report
	return b, nil
}

// emptyStatus is that of no build: nothing was to do.
func emptyStatus() api.BuildStatus {
	return api.BuildStatus{WaitingFor: []string{}, Levels: []api.LevelStatus{}, Buried: []api.BuriedGroup{}}
}

// Newest is the newest build of a corpus as its durable state has it.
func (s *Service) Newest(ctx context.Context, corpus string, attached bool) (api.Build, error) {
	members, err := s.members(ctx)
	if err != nil {
		return api.Build{}, err
	}
	deps := s.statusDeps(members)
	for {
		status, err := coordinator.ReadBuild(ctx, deps, corpus, time.Now())
		if err != nil {
			return api.Build{}, err
		}
		if status == nil {
			return api.Build{}, api.Missingf("aerie status lists what there is", "corpus %s has no build", corpus)
		}
		b := api.Build{Corpus: corpus, BuildStatus: *status, Attached: attached, Steps: []string{}}
		if !(&levels.State{Status: status.State}).Resting() {
			return b, nil
		}
		state, err := s.deps.Builds.Load(ctx, corpus)
		if err != nil && !errors.Is(err, levels.ErrNotFound) {
			return api.Build{}, fmt.Errorf("corpus %s: %w", corpus, err)
		}
		if err != nil || state.Build != status.Build || state.Status != status.State {
			continue // it moved on in between
		}
		coord, err := s.deps.Builder.Coordinator(ctx, corpus)
		if err != nil {
			return api.Build{}, err
		}
		report := coord.ReportOf(state)
		b.Resting, b.Report = true, &report
		return b, nil
	}
}

// Build returns a build as it is now.
func (s *Service) Build(ctx context.Context, corpus, build string) (api.Build, error) {
	if _, err := s.Record(ctx, corpus); err != nil {
		return api.Build{}, err
	}
	s.mu.Lock()
	r := s.runs[corpus]
	s.mu.Unlock()
	var b api.Build
	var err error
	if r != nil && r.name() == build {
		b, err = s.shown(ctx, r, false)
	} else {
		b, err = s.Newest(ctx, corpus, false)
	}
	switch {
	case err != nil:
		return api.Build{}, err
	case b.Build != build:
		return api.Build{}, api.Missingf("aerie status shows it", "corpus %s has no build %q; its newest is %s, and older ones aren't kept",
			corpus, build, cmp.Or(b.Build, "none"))
	}
	return b, nil
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Stop asks a build to pause, or with cancel to end.
func (s *Service) Stop(ctx context.Context, corpus, build string, cancel bool) (b api.Build, err error) {
	action := "pause-build"
	if cancel {
		action = "cancel-build"
	}
	defer func() { s.changed(ctx, api.Change{Action: action, Corpus: corpus, Objects: named(build), Err: err}) }()
	if b, err = s.Build(ctx, corpus, build); err != nil {
		return api.Build{}, err
	}
	wish := levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked, Sentence: "asked for"}
	if cancel {
		wish.Status = levels.Cancelled
	}
	switch {
	case !b.Resting && (b.Alive || !cancel || s.running(corpus) != nil):
		err = s.deps.Builds.RequestStop(ctx, corpus, build, wish)
	case cancel: // also one whose process was killed, which nobody would tell
		var coord *coordinator.Coordinator
		if coord, err = s.changer(ctx, corpus); err == nil {
			err = coord.Cancel(ctx, build)
		}
		switch {
		case errors.Is(err, levels.ErrHeld) && !b.Resting:
			err = s.deps.Builds.RequestStop(ctx, corpus, build, wish)
		case errors.Is(err, coordinator.ErrMoved) || errors.Is(err, levels.ErrHeld):
			err = api.Conflictf("aerie status shows what is so now", "build %s was not cancelled: %w", build, err)
		}
	}
	if err != nil {
		return api.Build{}, fmt.Errorf("build %s: %w", build, err)
	}
	if !cancel || !b.Resting {
		return s.Build(ctx, corpus, build)
	}
	return s.Newest(ctx, corpus, false)
}

// checkRest refuses what must not happen beside a build.
func (s *Service) checkRest(ctx context.Context, corpus string) error {
	state, err := s.deps.Builds.Load(ctx, corpus)
	if err != nil && !errors.Is(err, levels.ErrNotFound) {
		return fmt.Errorf("corpus %s: %w", corpus, err)
	}
	r := s.running(corpus)
	if r == nil && (s.cfg.Exclusive || state == nil || err != nil || state.Resting()) {
		return nil
	}
	name := "about to begin"
	if r != nil {
		name = cmp.Or(r.name(), name)
	} else {
		name = state.Build
	}
	return api.Conflictf("aerie status looks at it; wait until it rests, or pause it", "corpus %s is being built (%s)", corpus, name)
}

// Rollback lets readers see the tree before the one that they see or, with forward, takes that back.
func (s *Service) Rollback(ctx context.Context, corpus string, forward bool) (rolled api.Rolled, err error) {
	defer func() {
		var counts map[string]int
		if err == nil {
			counts = map[string]int{"from_generation": rolled.From, "to_generation": rolled.Generation}
		}
		s.changed(ctx, api.Change{Action: "rollback", Corpus: corpus, Counts: counts, Err: err})
	}()
	if _, err := s.Record(ctx, corpus); err != nil {
		return rolled, err
	}
	if err := s.checkRest(ctx, corpus); err != nil {
		return rolled, err
	}
	coord, err := s.changer(ctx, corpus)
	if err != nil {
		return rolled, err
	}
	rolled, err = coord.Rollback(ctx, forward)
	if errors.Is(err, levels.ErrHeld) {
		err = api.Conflictf("aerie status looks at it; wait until it rests, or pause it", "corpus %s is being built", corpus)
	}
	return rolled, err
}

// Collect deletes what no reader can see any more.
func (s *Service) Collect(ctx context.Context, corpus string) (c api.Collected, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "collect-garbage", Corpus: corpus, Counts: map[string]int{"nodes_removed": c.Removed}, Err: err})
	}()
	record, err := s.Record(ctx, corpus)
	if err != nil {
		return api.Collected{}, err
	}
	if err := s.checkRest(ctx, corpus); err != nil {
		return api.Collected{}, err
	}
	coord, err := s.deps.Builder.Coordinator(ctx, corpus)
	if err != nil {
		return api.Collected{}, err
	}
	removed, err := coord.GC(ctx)
	if errors.Is(err, levels.ErrHeld) {
		err = api.Conflictf("aerie status looks at it; wait until it rests, or pause it", "corpus %s is being built", corpus)
	}
	return api.Collected{Corpus: record.Name, Removed: removed}, err
}
