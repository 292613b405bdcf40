package coordinator

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
)

// from returns the generation that a new build grows from, 0 if it must be in full.
func (c *Coordinator) from(record *levels.Corpus, req Request) int {
	if req.Full || c.inFull(record) != "" {
		return 0
	}
	return record.Generation
}

// inFull says why the next build is in full; "" if it grows.
func (c *Coordinator) inFull(record *levels.Corpus) string {
	s := record.Settings
	switch {
	case !c.cfg.Incremental:
		return "build.growth is full"
	case record.Generation == 0:
		return "there is no tree yet"
	case s == nil:
		return "what the tree was built with is unknown"
	case s.Recipe != c.cfg.Recipe:
		return "summaries are made otherwise now"
	case s.Scope != c.cfg.Rule.Scope:
		return fmt.Sprintf("the tree has scope %s", s.Scope)
	}
	mode := s.Mode
	if mode == "" {
		mode = s.All["clustering.mode"]
	}
	if mode != string(c.cfg.Clustering.Mode) {
		return fmt.Sprintf("the tree was clustered in mode %q", mode)
	}
	return ""
}

// fullBuild is the newest build in full once this one is published.
func (r *run) fullBuild(record *levels.Corpus) *levels.FullBuild {
	switch {
	case r.state.From == 0:
		return &levels.FullBuild{Baseline: r.state.Baseline, Generation: r.state.Generation, Coherence: r.state.Coherence}
	case record.Full != nil || record.Baseline == nil:
		return record.Full
	}
	// An older aerie built it, in full.
	return &levels.FullBuild{Baseline: *record.Baseline, Generation: record.Generation, Coherence: record.Coherence}
}
