package service

import (
	"context"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
)

// members returns what all processes have told of themselves.
func (s *Service) members(ctx context.Context) ([]levels.Member, error) {
	if s.deps.Members == nil {
		return nil, nil
	}
	all, err := s.deps.Members.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading who works: %w", err)
	}
	return all, nil
}

// Workers tells who works now.
func (s *Service) Workers(ctx context.Context) (api.Workers, error) {
	all, err := within(ctx, s, []Server{ServerState}, s.members)
	workers := api.WorkersOf(all, time.Now())
	if err == nil {
		workers.Away = s.away(ctx)
	}
	return workers, err
}

// Dead tells which tasks of a corpus's newest build are buried.
func (s *Service) Dead(ctx context.Context, corpus string) (api.Dead, error) {
	result := api.Dead{Corpus: corpus, Causes: []api.DeadCause{}}
	if _, err := s.Record(ctx, corpus); err != nil {
		return result, err
	}
	build, err := coordinator.ReadBuild(ctx, s.statusDeps(nil), corpus, time.Now())
	if err != nil || build == nil {
		return result, err
	}
	result.Build = build.Build
	for _, g := range build.Buried {
		result.Causes = append(result.Causes, api.DeadCause{Cause: g.Cause, Tasks: g.Count, Example: g.Example})
	}
	return result, nil
}
