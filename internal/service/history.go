package service

import (
	"context"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
)

// History returns what is kept of all builds of a corpus.
func (s *Service) History(ctx context.Context, corpus string) (api.PastBuilds, error) {
	out := api.PastBuilds{Corpus: corpus, Builds: []api.PastBuild{}}
	if _, err := s.Record(ctx, corpus); err != nil {
		return out, err
	}
	history, err := s.deps.Builds.History(ctx, corpus)
	if err != nil || len(history) == 0 {
		return out, err
	}
	coord, err := s.deps.Builder.Coordinator(ctx, corpus)
	if err != nil {
		return out, err
	}
	for _, state := range history {
		r := coord.ReportOf(state)
		b := api.PastBuild{
			Build: state.Build, Generation: state.Generation, Outcome: r.Outcome, Why: r.Why, Trigger: state.Trigger, Started: state.Started,
			Seconds: r.Seconds, Carried: r.Carried, Usage: r.Usage, Cost: r.Cost,
		}
		if !state.Resting() {
			b.Outcome = api.Outcome(levels.Running)
		}
		out.Builds = append(out.Builds, b)
	}
	return out, nil
}
