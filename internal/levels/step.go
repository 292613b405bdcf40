package levels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// Event is something that has become true and, where it leaves a trace, durable.
type Event interface{ event() }

// The events.
type (
	// LevelPlanned: the plan of a level is durable.
	LevelPlanned struct {
		Level, NodesIn, Total int
		Largest, Tokens       int
		Members, Widest       int
		Kept, Carried         int
		Digest                string
		Baseline              Baseline // with level 1
		Coherence             float64  // with level 1
	}
	// NoLevel: clustering found that the level should not be built.
	NoLevel struct {
		Level    int
		Why      string
		Baseline Baseline // with level 1
	}
	// LevelPublished: every task of the level is queued, done or dead. Began is when that was begun; the first time counts.
	LevelPublished struct {
		Level int
		Began time.Time
	}
	// LevelCounted: the barrier was read, At some time. Allowed is how many buried tasks the level may be sealed with.
	LevelCounted struct {
		Level   int
		At      time.Time
		Count   Count
		Allowed int
		Causes  map[string]int // of the dead, for people
	}
	// PlanLost: the plan of a level can't be read any more; it and all above it are made again.
	PlanLost struct{ Level int }
	// TreePublished: readers see the new generation.
	TreePublished struct{}
	// Stopped: the build comes to rest as Paused, Failed or Cancelled.
	Stopped struct{ Stop Stop }
	// Resumed: a resting build goes on.
	Resumed struct{}
	// TasksMissing: so many tasks of a level were found nowhere, and are queued again.
	TasksMissing struct{ Level, Tasks int }
	// BuriedListed: the buried tasks of the build were read. Tasks are some of them, ByCause counts all.
	BuriedListed struct {
		Tasks   []Burial
		ByCause map[string]int
	}
	// Requested: somebody asked for the build under a key, "" for none, and with Budget set under a budget; see State.
	Requested struct {
		Key       string
		Budget    bool
		MaxTokens *int
		MaxCost   *float64
	}
	// Reopened: buried tasks of the level were taken back, to run again.
	Reopened struct{ Level int }
)

func (LevelPlanned) event()   {}
func (NoLevel) event()        {}
func (LevelPublished) event() {}
func (LevelCounted) event()   {}
func (PlanLost) event()       {}
func (TreePublished) event()  {}
func (Stopped) event()        {}
func (Resumed) event()        {}
func (Reopened) event()       {}
func (BuriedListed) event()   {}
func (TasksMissing) event()   {}
func (Requested) event()      {}

// Action is the one thing to do next.
type Action string

// The actions.
const (
	PlanLevel    Action = "plan level"    // cluster the level below, make the plan durable: LevelPlanned or NoLevel
	PublishLevel Action = "publish level" // queue what is neither done nor dead: LevelPublished
	AwaitLevel   Action = "await level"   // read the barrier: LevelCounted
	PublishTree  Action = "publish tree"  // switch the generation: TreePublished
	Rest         Action = "rest"          // nothing
)

// Ready says what the caller must do, in this order.
type Ready struct {
	// Save: the state changed, and must be durable before anything else happens.
	Save bool
	// Do is what comes next, at Level where that applies.
	Do    Action
	Level int
	// Announce is a sentence for people about what changed; it may be empty.
	Announce string
}

// Step applies an event. An event that was applied before, or that speaks of a level long sealed, changes nothing. An
// event that contradicts the state is an error and changes nothing either.
func (s *State) Step(e Event) (Ready, error) {
	before := s.clone()
	announce, err := s.apply(e)
	if err != nil {
		*s = *before
		return Ready{}, fmt.Errorf("levels: build %s: %w", s.Build, err)
	}
	ready := s.Next()
	ready.Save = !s.same(before)
	if ready.Save {
		ready.Announce = announce
	}
	return ready, nil
}

// Next returns what there is to do when nothing new has happened: the way on after a restart.
func (s *State) Next() Ready {
	switch {
	case s.Resting():
		return Ready{Do: Rest}
	case s.Status == PublishingTree:
		return Ready{Do: PublishTree}
	case len(s.Levels) == 0:
		return Ready{Do: PlanLevel, Level: 1}
	}
	top := s.top()
	switch top.Phase {
	case Planning:
		return Ready{Do: PlanLevel, Level: top.Level}
	case Publishing:
		return Ready{Do: PublishLevel, Level: top.Level}
	case Open:
		return Ready{Do: AwaitLevel, Level: top.Level}
	default:
		return Ready{Do: PlanLevel, Level: top.Level + 1}
	}
}

// Deepest returns the highest level that has nodes, or 0.
func (s *State) Deepest() int {
	for i := len(s.Levels) - 1; i >= 0; i-- {
		if s.Levels[i].Phase == Sealed {
			return s.Levels[i].Level
		}
	}
	return 0
}

// At returns a copy of the record of a level, or nil.
func (s *State) At(level int) *Level {
	l := s.at(level)
	if l == nil {
		return nil
	}
	c := *l
	return &c
}

func (s *State) at(level int) *Level {
	if level < 1 || level > len(s.Levels) {
		return nil
	}
	return &s.Levels[level-1]
}

func (s *State) top() *Level { return &s.Levels[len(s.Levels)-1] }

func (s *State) clone() *State {
	c := *s
	c.Levels = slices.Clone(s.Levels)
	return &c
}

// same compares what Step may change.
func (s *State) same(t *State) bool {
	return s.Status == t.Status && s.Cause == t.Cause && s.Why == t.Why && s.StoppedBecause == t.StoppedBecause &&
		s.Baseline == t.Baseline && s.Coherence == t.Coherence && slices.Equal(s.Levels, t.Levels) &&
		slices.Equal(s.Buried, t.Buried) && maps.Equal(s.BuriedCount, t.BuriedCount) &&
		s.Key == t.Key && alike(s.MaxTokens, t.MaxTokens) && alike(s.MaxCost, t.MaxCost)
}

func alike[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func (s *State) apply(e Event) (string, error) {
	switch e := e.(type) {
	case LevelPlanned:
		return s.planned(e)
	case NoLevel:
		return s.noLevel(e)
	case LevelPublished:
		return s.published(e)
	case LevelCounted:
		return s.counted(e)
	case PlanLost:
		return s.planLost(e)
	case TreePublished:
		return s.treePublished()
	case Stopped:
		return s.stopped(e)
	case Resumed:
		return s.resumed()
	case Reopened:
		return s.reopened(e)
	case TasksMissing:
		return s.missing(e)
	case BuriedListed:
		s.Buried, s.BuriedCount = e.Tasks, e.ByCause
		return "", nil
	case Requested:
		s.requested(e)
		return "", nil
	}
	panic(fmt.Sprintf("levels: unknown event %T", e))
}

func (s *State) planned(e LevelPlanned) (string, error) {
	if l := s.at(e.Level); l != nil && l.Phase != Planning {
		if l.Digest != e.Digest {
			return "", fmt.Errorf("level %d is planned with digest %.12s, not %.12s", e.Level, l.Digest, e.Digest)
		}
		return "", nil // again
	}
	if err := s.expectPlanning(e.Level); err != nil {
		return "", err
	}
	if e.Total < 1 || e.Digest == "" {
		return "", fmt.Errorf("level %d: a plan has clusters and a digest", e.Level)
	}
	l := Level{
		Level: e.Level, Phase: Publishing, Digest: e.Digest, NodesIn: e.NodesIn, Total: e.Total,
		Largest: e.Largest, Tokens: e.Tokens, Members: e.Members, Widest: e.Widest, Kept: e.Kept, Carried: e.Carried,
	}
	s.Levels = append(s.Levels[:e.Level-1], l)
	if e.Level == 1 {
		s.Baseline, s.Coherence = e.Baseline, e.Coherence
	}
	grown := ""
	if s.From > 0 {
		grown = fmt.Sprintf(": %d kept, %d carried, %d to make", e.Kept, e.Carried, e.Total-e.Kept-e.Carried)
	}
	return fmt.Sprintf("level %d: %d nodes in %d clusters%s", e.Level, e.NodesIn, e.Total, grown), nil
}

func (s *State) noLevel(e NoLevel) (string, error) {
	if s.StoppedBecause != "" {
		return "", nil // again
	}
	if err := s.expectPlanning(e.Level); err != nil {
		return "", err
	}
	s.Levels = s.Levels[:e.Level-1]
	if e.Level == 1 {
		s.Baseline = e.Baseline
	}
	s.StoppedBecause = e.Why
	s.Status = PublishingTree
	return fmt.Sprintf("no level %d: %s", e.Level, e.Why), nil
}

// expectPlanning reports an error unless the level is the one that is to be planned now.
func (s *State) expectPlanning(level int) error {
	next := s.Next()
	if next.Do != PlanLevel || next.Level != level {
		return fmt.Errorf("level %d can't be planned now: next is to %s %d", level, next.Do, next.Level)
	}
	return nil
}

func (s *State) published(e LevelPublished) (string, error) {
	l := s.at(e.Level)
	switch {
	case l == nil || l.Phase == Planning:
		return "", fmt.Errorf("level %d is published before it is planned", e.Level)
	case l.Phase == Publishing && s.Status == Running:
		l.Phase = Open
	}
	if l.Started.IsZero() {
		l.Started = e.Began
	}
	return "", nil
}

func (s *State) missing(e TasksMissing) (string, error) {
	l := s.at(e.Level)
	if l == nil {
		return "", fmt.Errorf("level %d has no tasks", e.Level)
	}
	l.Missing += e.Tasks
	return fmt.Sprintf("%d tasks of level %d were neither done, queued nor buried, and are queued again", e.Tasks, e.Level), nil
}

// requested keeps the key and the budget of who asked last; a request without a key leaves the one that is there.
func (s *State) requested(e Requested) {
	if e.Key != "" {
		s.Key = e.Key
	}
	if e.Budget {
		s.MaxTokens, s.MaxCost = e.MaxTokens, e.MaxCost
	}
}

func (s *State) counted(e LevelCounted) (string, error) {
	l := s.at(e.Level)
	switch {
	case l == nil || l.Phase == Planning || l.Phase == Publishing:
		return "", fmt.Errorf("level %d is counted before it is open", e.Level)
	case l.Phase == Sealed:
		return "", nil // late
	case e.Count.Total != l.Total:
		return "", fmt.Errorf("level %d: the barrier counts %d tasks, the plan has %d", e.Level, e.Count.Total, l.Total)
	}
	// The counts never fall, so a late reading doesn't take anything back; but Dead falls when Done rises.
	if e.Count.Done >= l.Done {
		l.Done, l.Dead, l.Usage = e.Count.Done, e.Count.Dead, e.Count.Usage
	}
	if s.Status != Running || l.Done+l.Dead < l.Total {
		return "", nil
	}
	if !l.Started.IsZero() && e.At.After(l.Started) {
		l.Took = e.At.Sub(l.Started)
	}
	if l.Dead > e.Allowed {
		s.rest(Stop{Degraded, CauseBuried, fmt.Sprintf("%d of %d tasks of level %d are buried: %s", l.Dead, l.Total, l.Level, grouped(e.Causes))})
		return s.Why, nil
	}
	l.Phase = Sealed
	if s.MaxDepth > 0 && l.Level >= s.MaxDepth {
		s.StoppedBecause = fmt.Sprintf("build.max_depth %d is reached", s.MaxDepth)
		s.Status = PublishingTree
	}
	return fmt.Sprintf("level %d is complete: %d nodes", l.Level, l.Done), nil
}

func (s *State) planLost(e PlanLost) (string, error) {
	if s.at(e.Level) == nil || s.Status == Built || s.Status == Cancelled { // a build that is over needs no plans
		return "", nil
	}
	s.Levels = slices.Clone(s.Levels[:e.Level-1])
	s.StoppedBecause = ""
	if s.Status == PublishingTree {
		s.Status = Running
	}
	return fmt.Sprintf("the plan of level %d is lost and made again", e.Level), nil
}

func (s *State) treePublished() (string, error) {
	switch s.Status {
	case Built:
		return "", nil
	case PublishingTree:
		s.rest(Stop{Status: Built})
		return fmt.Sprintf("generation %d is published", s.Generation), nil
	}
	return "", fmt.Errorf("the tree is published while the build is %s", s.Status)
}

func (s *State) stopped(e Stopped) (string, error) {
	if err := e.Stop.Validate(); err != nil {
		return "", err
	}
	if e.Stop.Status == Degraded {
		return "", errors.New("only a level that is counted degrades a build")
	}
	if s.Status == Built || s.Status == Cancelled {
		return "", nil // too late
	}
	s.rest(e.Stop)
	return fmt.Sprintf("%s: %s", s.Status, s.Why), nil
}

// rest brings the build to rest, or with a Stop of nothing but Running or PublishingTree takes that back.
func (s *State) rest(stop Stop) { s.Status, s.Cause, s.Why = stop.Status, stop.Cause, stop.Sentence }

func (s *State) resumed() (string, error) {
	if !s.Resumable() {
		return "", fmt.Errorf("a build that is %s can't go on", s.Status)
	}
	if !s.Resting() || s.Status == Degraded { // degraded goes on by Reopened
		return "", nil
	}
	s.rest(Stop{Status: Running})
	if s.StoppedBecause != "" {
		s.Status = PublishingTree
	}
	return "resumed", nil
}

func (s *State) reopened(e Reopened) (string, error) {
	l := s.at(e.Level)
	if l == nil || l.Phase == Planning || l.Phase == Publishing {
		return "", fmt.Errorf("level %d has no buried tasks", e.Level)
	}
	if l.Phase == Sealed && e.Level < len(s.Levels) {
		return "", fmt.Errorf("level %d is sealed and built upon", e.Level)
	}
	if l.Phase != Open || (s.Status != Degraded && s.Status != Paused && s.Status != Failed && s.Status != Running) {
		return "", fmt.Errorf("level %d can't be reopened: it is %s, the build %s", e.Level, l.Phase, s.Status)
	}
	l.Phase, l.Dead = Publishing, 0
	s.rest(Stop{Status: Running})
	return fmt.Sprintf("level %d is open again", e.Level), nil
}

// grouped lists the causes of burials by number, most first, then by name.
func grouped(m map[string]int) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, m[name])
	}
	if len(names) == 0 {
		return "for reasons not known"
	}
	return strings.Join(names, ", ")
}
