package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// turnOfAChange is how long a change of documents waits for its turn.
const turnOfAChange = 30 * time.Second

// gate lets one change of a corpus's documents through at a time: the next waits, for a while.
func (s *Service) gate(ctx context.Context, corpus string) (leave func(), err error) {
	s.mu.Lock()
	g := s.gates[corpus]
	if g == nil {
		g = make(chan struct{}, 1)
		s.gates[corpus] = g
	}
	s.mu.Unlock()
	patience := time.NewTimer(s.cfg.Turn)
	defer patience.Stop()
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, api.Conflictf("ask again when it has ended", "documents of %s are being changed by somebody else, and were still after %s", corpus, s.cfg.Turn)
	}
}

func (s *Service) ingester() (*ingest.Ingester, error) {
	cfg := s.cfg.Ingest
	cfg.BuildOpen = s.buildOpen
	return ingest.New(cfg, s.deps.Store, s.deps.Corpora, s.deps.Embedder)
}

// buildOpen reports whether a build has begun that still reads the leaves it was planned with.
func (s *Service) buildOpen(ctx context.Context, corpus string) (bool, error) {
	state, err := s.deps.Builds.Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return state.Resumable(), nil
}

// Ingest brings the corpus in line with the documents of the request.
func (s *Service) Ingest(ctx context.Context, req ingest.Request) (report ingest.Report, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "ingest-documents", Corpus: req.Corpus, Counts: counts(report), Err: err})
	}()
	if err := checkName(req.Corpus); err != nil {
		return ingest.Report{}, err
	}
	if n := req.ChunkTokens; n != 0 && (n < 8 || n > 8192) {
		return ingest.Report{}, api.Usagef("", "chunk_tokens is %d; it must be from 8 to 8192", n)
	}
	in, err := s.ingester()
	if err != nil {
		return ingest.Report{}, err
	}
	leave, err := s.gate(ctx, req.Corpus)
	if err != nil {
		return ingest.Report{}, err
	}
	defer leave()
	return in.Ingest(ctx, req)
}

// Delete removes documents.
func (s *Service) Delete(ctx context.Context, corpus string, ids []string) (report ingest.Report, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "delete-documents", Corpus: corpus, Objects: ids, Counts: counts(report), Err: err})
	}()
	if _, err := s.Record(ctx, corpus); err != nil {
		return ingest.Report{}, err
	}
	in, err := s.ingester()
	if err != nil {
		return ingest.Report{}, err
	}
	leave, err := s.gate(ctx, corpus)
	if err != nil {
		return ingest.Report{}, err
	}
	defer leave()
	return in.Delete(ctx, corpus, ids)
}

// DeleteCorpus removes a corpus: first the work of its newest build, so that nothing is left that would write into it.
func (s *Service) DeleteCorpus(ctx context.Context, corpus string) (report ingest.Report, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "delete-corpus", Corpus: corpus, Counts: counts(report), Err: err})
	}()
	if _, err := s.Record(ctx, corpus); err != nil {
		return ingest.Report{}, err
	}
	in, err := s.ingester()
	if err != nil {
		return ingest.Report{}, err
	}
	leave, err := s.gate(ctx, corpus)
	if err != nil {
		return ingest.Report{}, err
	}
	defer leave()
	if err := s.checkRest(ctx, corpus); err != nil {
		return ingest.Report{}, err
	}
	state, err := s.deps.Builds.Load(ctx, corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return ingest.Report{}, err
	default:
		if err := s.deps.Builder.Purge(ctx, corpus, state.Build); err != nil {
			return ingest.Report{}, err
		}
	}
	return in.DeleteAll(ctx, corpus)
}

// errEnough ends a listing.
var errEnough = errors.New("enough")

// Documents lists documents by id.
func (s *Service) Documents(ctx context.Context, req api.DocumentsRequest) (api.DocumentPage, error) {
	page := api.DocumentPage{Corpus: req.Corpus, Documents: []api.Document{}}
	if _, err := s.Record(ctx, req.Corpus); err != nil {
		return page, err
	}
	err := s.deps.Store.Documents(ctx, req.Corpus, req.Prefix, func(d store.Document) error {
		switch {
		case d.ID <= req.After && req.After != "":
			return nil
		case len(page.Documents) == req.Limit:
			page.More = true
			return errEnough
		}
		page.Documents = append(page.Documents, api.Document{ID: d.ID, Leaves: d.Leaves})
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return page, fmt.Errorf("corpus %s: %w", req.Corpus, err)
	}
	return page, nil
}
