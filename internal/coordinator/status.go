package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// StatusDeps are what a status is read from; nothing is written, and no queue is needed.
type StatusDeps struct {
	Store   store.Store
	Corpora levels.Corpora
	Builds  levels.Builds
	Barrier levels.Barrier
	// Members is what processes have told of themselves, as it was read; nil where nobody tells.
	Members []levels.Member
	// Settings are those of now by key, and Served says that they are a coordinator's.
	Settings map[string]string
	Served   bool
}

// reportedWithin is how fresh a progress report must be for its process to count as alive; reports come every second.
const reportedWithin = 10 * time.Second

// ReadStatus reads the status of one corpus.
func ReadStatus(ctx context.Context, deps StatusDeps, corpus string, rule levels.Rule, now time.Time) (api.CorpusStatus, error) {
	record, err := deps.Corpora.Load(ctx, corpus)
	if err != nil {
		return api.CorpusStatus{}, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
	}
	s := api.CorpusStatus{
		Corpus: corpus, Generation: record.Generation, Threshold: rule.Threshold, Embedder: record.Embedder, Width: record.Width,
		StoppedBecause: record.StoppedBecause, Unseen: record.Unseen, Advice: levels.Advice(record),
	}
	if s.Leaves, err = deps.Store.Count(ctx, corpus, store.Leaves().VisibleAt(record.Generation)); err != nil {
		return api.CorpusStatus{}, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
	}
	if s.Summaries = record.Summaries; s.Summaries == 0 { // of an older aerie, or none
		if s.Summaries, err = deps.Store.Count(ctx, corpus, store.Summaries().VisibleAt(record.Generation)); err != nil {
			return api.CorpusStatus{}, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
		}
	}
	if s.Documents, err = deps.Store.CountDocuments(ctx, corpus); err != nil {
		return api.CorpusStatus{}, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
	}
	if record.Baseline != nil {
		s.BaselineLeaves = &record.Baseline.Leaves
	}
	decision := rule.Decide(record, s.Leaves)
	s.Growth, s.NextBuild = decision.Growth, decision.Why
	if decision.Due {
		s.NextBuild = "due: " + decision.Why
	}
	if rule.Manual {
		s.NextBuild += "; build.auto is false, so aerie build starts it"
	}
	s.Build, err = readBuild(ctx, deps, corpus, now)
	if err == nil {
		err = compareSettings(ctx, &s, deps, record)
	}
	return s, err
}

// compareSettings tells which settings differ from those of the unfinished build or, if there is none, of the tree.
func compareSettings(ctx context.Context, s *api.CorpusStatus, deps StatusDeps, record *levels.Corpus) error {
	s.SettingsChanged = []string{}
	state, err := deps.Builds.Load(ctx, s.Corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return fmt.Errorf("coordinator: corpus %s: %w", s.Corpus, err)
	case state.Resumable():
		if e := differs(state, deps); e != nil {
			s.SettingsChanged, s.SettingsAdvice = keys(e.Changes), e.Error()+"; "+e.Hint()
		}
		return nil
	}
	if record.Settings == nil {
		return nil
	}
	if changes := Changes(record.Settings.All, deps.Settings); len(changes) > 0 {
		s.SettingsChanged = keys(changes)
		s.SettingsAdvice = fmt.Sprintf("generation %d was built with other settings: %s; aerie build --force builds with those of now", s.Generation, said(changes))
	}
	return nil
}

// differs returns why a build can't go on with the settings of now; nil if it can, as far as its record tells.
func differs(state *levels.State, deps StatusDeps) *SettingsError {
	changes := Changes(state.Settings, deps.Settings)
	if len(changes) == 0 {
		return nil
	}
	return &SettingsError{Corpus: state.Corpus, Build: state.Build, Changes: changes, Served: deps.Served}
}

// ReadBuild reads the status of the newest build of a corpus; nil if there was none.
func ReadBuild(ctx context.Context, deps StatusDeps, corpus string, now time.Time) (*api.BuildStatus, error) {
	return readBuild(ctx, deps, corpus, now)
}

func readBuild(ctx context.Context, deps StatusDeps, corpus string, now time.Time) (*api.BuildStatus, error) {
	state, err := deps.Builds.Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
	}
	b := &api.BuildStatus{
		Build: state.Build, State: state.Status, Why: state.Why, WaitingFor: []string{}, Levels: []api.LevelStatus{},
		Started: state.Started, Updated: state.Updated, Buried: groupBuried(state),
	}
	progress, err := deps.Builds.Progress(ctx, corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
	case progress.Build == state.Build && !state.Resting():
		b.Alive = now.Sub(progress.At) < reportedWithin
		if b.Alive {
			b.Doing, b.WaitingFor = progress.Doing, append(b.WaitingFor, progress.Waiting...)
		}
		if progress.At.After(b.Updated) {
			b.Updated = progress.At
		}
	}
	if !state.Resting() && !b.Alive {
		advice := "aerie build goes on where it stopped"
		if e := differs(state, deps); e != nil {
			advice = e.Hint()
		}
		b.WaitingFor = append(b.WaitingFor, "no process is working on it; "+advice)
	}
	for _, l := range state.Levels {
		level := api.LevelStatus{Level: l.Level, Expected: l.Total, Done: l.Done, Buried: l.Dead, Missing: l.Missing}
		usage := l.Usage
		if l.Phase == levels.Open || l.Phase == levels.Publishing {
			// The record is as old as the last transition; the barrier knows better.
			count, err := deps.Barrier.Count(ctx, tree.Level{Corpus: corpus, Build: state.Build, Level: l.Level})
			switch {
			case errors.Is(err, levels.ErrNotOpen):
			case err != nil:
				return nil, fmt.Errorf("coordinator: corpus %s: %w", corpus, err)
			case count.Total == l.Total:
				level.Done, level.Buried, usage = count.Done, count.Dead, count.Usage
			}
		}
		left := level.Expected - level.Done - level.Buried
		if b.Alive && progress.Level == l.Level {
			level.Running = min(progress.Running, left)
		}
		level.Queued = left - level.Running
		b.Levels = append(b.Levels, level)
		b.Calls += usage.Calls
		b.Reused += usage.Reused
		b.InputTokens += usage.InputTokens
		b.OutputTokens += usage.OutputTokens
		b.Refused, b.Trimmed = b.Refused+usage.Refused, b.Trimmed+usage.Trimmed
		b.CutPrompts, b.OtherLanguage = b.CutPrompts+usage.CutPrompts, b.OtherLanguage+usage.OtherLanguage
	}
	if why := unattended(state, b, deps.Members, now); why != "" {
		b.WaitingFor = append(b.WaitingFor, why)
	}
	return b, nil
}

func groupBuried(state *levels.State) []api.BuriedGroup {
	groups := []api.BuriedGroup{}
	at := make(map[string]int)
	for _, burial := range state.Buried {
		if _, ok := at[burial.Cause]; !ok {
			at[burial.Cause] = len(groups)
			groups = append(groups, api.BuriedGroup{Cause: burial.Cause, Count: state.BuriedCount[burial.Cause], Example: burial})
		}
	}
	sort.SliceStable(groups, func(i, j int) bool { return groups[i].Count > groups[j].Count })
	return groups
}

// unattended says that nobody takes the tasks of a build, and since when; "" if somebody does, or may at any moment.
func unattended(state *levels.State, b *api.BuildStatus, members []levels.Member, now time.Time) string {
	if !b.Alive || len(b.Levels) == 0 || state.Levels[len(state.Levels)-1].Phase != levels.Open {
		return ""
	}
	top := b.Levels[len(b.Levels)-1]
	if top.Queued == 0 || top.Running > 0 {
		return ""
	}
	since, others := state.Levels[len(state.Levels)-1].Started, 0
	if since.IsZero() {
		since = state.Updated
	}
	for i := range members {
		m := &members[i]
		fits := m.Recipe == "" || m.Recipe == state.Recipe
		switch {
		case m.Role != levels.RoleWorker:
		case m.Alive(now) && fits:
			return ""
		case m.Alive(now):
			others++
		case fits && m.At.After(since):
			since = m.At
		}
	}
	at := since.Local().Format("15:04")
	if now.Sub(since) > 12*time.Hour {
		at = since.Local().Format("2006-01-02 15:04")
	}
	if others > 0 {
		return fmt.Sprintf("no worker takes its tasks since %s: those that work (%d) have other settings for summaries or embeddings", at, others)
	}
	return fmt.Sprintf("no worker takes tasks since %s; start one: worker --config FILE", at)
}
