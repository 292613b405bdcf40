package service

import (
	"context"
	"errors"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// Forget removes documents and what is left of them.
func (s *Service) Forget(ctx context.Context, corpus string, ids []string) (out api.Forgotten, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "forget-documents", Corpus: corpus, Objects: ids, Counts: forgotten(out), Err: err})
	}()
	out = api.Forgotten{Corpus: corpus, Unknown: []string{}}
	if _, err := s.Record(ctx, corpus); err != nil {
		return out, err
	}
	t, err := s.turn(ctx, corpus)
	if err != nil {
		return out, err
	}
	defer t.end(s.deps.Log)
	if err := s.checkRest(ctx, corpus); err != nil {
		return out, err
	}
	for _, id := range ids {
		n, err := s.deps.Store.Count(ctx, corpus, store.Leaves().VisibleAt(0).OfDocument(id))
		if err != nil {
			return out, err
		}
		if n == 0 {
			out.Unknown = append(out.Unknown, id)
		}
	}
	coord, err := s.changer(ctx, corpus)
	if err != nil {
		return out, err
	}
	done, err := coord.Forget(t.Context(), t.Store, func(ctx context.Context, nodes store.Store) error {
		in, err := ingest.New(s.cfg.Ingest, nodes, t.Corpora(s.deps.Corpora), s.deps.Embedder)
		if err != nil {
			return err
		}
		report, err := in.Delete(ctx, corpus, ids)
		out.Documents, out.Leaves = report.Documents.Removed, report.Leaves.Removed
		if errors.Is(err, api.ErrUnknown) {
			err = nil
		}
		return err
	})
	out.Summaries, out.Answers, out.Cancelled = done.Summaries, done.Answers, done.Cancelled
	if errors.Is(err, levels.ErrHeld) {
		err = api.Conflictf("aerie status looks at it; wait until it rests, or pause it", "corpus %s is being built", corpus)
	}
	if err == nil && s.deps.Scrub != nil {
		err = s.deps.Scrub(t.Context(), corpus)
	}
	return out, t.outcome(err)
}

// changer returns a coordinator that may change trees.
func (s *Service) changer(ctx context.Context, corpus string) (*coordinator.Coordinator, error) {
	if s.deps.Ready != nil {
		if err := s.deps.Ready(ctx); err != nil {
			return nil, err
		}
	}
	return s.deps.Builder.Coordinator(ctx, corpus)
}

// forgotten says how much was forgotten; nil if nothing was.
func forgotten(f api.Forgotten) map[string]int {
	all := map[string]int{}
	for name, n := range map[string]int{
		"documents_removed": f.Documents, "leaves_removed": f.Leaves, "summaries_emptied": f.Summaries, "answers_erased": f.Answers,
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
