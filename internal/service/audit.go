package service

import (
	"context"

	"github.com/aerie-rag/aerie/internal/api"
)

// changed tells the audit log.
func (s *Service) changed(ctx context.Context, c api.Change) {
	if s.deps.Audit != nil {
		s.deps.Audit.Changed(ctx, c)
	}
}

// counts says how much an ingest or a deletion changed; nil if that was nothing.
func counts(r api.IngestReport) map[string]int {
	all := map[string]int{}
	for name, n := range map[string]int{
		"documents_added": r.Documents.Added, "documents_changed": r.Documents.Changed, "documents_removed": r.Documents.Removed,
		"documents_failed": r.Documents.Failed, "leaves_added": r.Leaves.Added, "leaves_removed": r.Leaves.Removed,
	} {
		if n > 0 {
			all[name] = n
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// named is a list of one build, if it has a name.
func named(build string) []string {
	if build == "" {
		return nil
	}
	return []string{build}
}
