package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/fence"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// turnOfAChange is how long a change of documents waits for its turn.
const turnOfAChange = 30 * time.Second

// gate lets one caller through at a time; the next waits.
func (s *Service) gate(ctx context.Context, corpus string) (leave func(), err error) {
	s.mu.Lock()
	g := s.gates[corpus]
	if g == nil {
		g = make(chan struct{}, 1)
		s.gates[corpus] = g
	}
	s.mu.Unlock()
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// turn takes the right to a corpus's documents, after those who have it now: of this process, of the machine, of the fleet. It waits
// for a while only, since nobody knows how long another one takes.
func (s *Service) turn(ctx context.Context, corpus string) (*turn, error) {
	wait := s.cfg.Turn
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	leave, err := s.gate(waiting, corpus)
	if err != nil {
		return nil, s.late(ctx, corpus, wait, err)
	}
	t := &turn{leave: leave}
	if s.cfg.Lock != nil {
		unlock, err := s.cfg.Lock(waiting, corpus)
		if err != nil {
			leave()
			return nil, s.late(ctx, corpus, wait, err)
		}
		t.leave = func() { unlock(); leave() }
	}
	left := wait
	if deadline, ok := waiting.Deadline(); ok {
		left = time.Until(deadline)
	}
	t.Hold, err = fence.TakeWithin(ctx, left, s.deps.Builds, fence.Config{
		Corpus: corpus, Right: levels.RightDocuments, Holder: s.cfg.Holder, TTL: s.cfg.LeaseTTL, Log: s.deps.Log,
	})
	if err != nil {
		t.leave()
		return nil, s.late(ctx, corpus, wait, err)
	}
	return t, nil
}

// late is the error of a turn that did not come.
func (s *Service) late(ctx context.Context, corpus string, wait time.Duration, err error) error {
	if ctx.Err() != nil || !errors.Is(err, levels.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return api.Conflictf("ask again when it has ended", "documents of %s are being changed by somebody else, and were still after %s", corpus, wait)
}

// turn is the right to a corpus's documents.
type turn struct {
	*fence.Hold
	leave func()
}

func (t *turn) end(log *slog.Logger) {
	if err := t.Release(); err != nil && !space.Is(err) { // that is told by what was being done
		log.Warn("the right to a corpus's documents was not given up and will run out", "error", err)
	}
	t.leave()
}

// outcome is err, or what took the right away from whoever met it.
func (t *turn) outcome(err error) error {
	if err == nil {
		return nil
	}
	if lost := t.Lost(); lost != nil {
		return &api.Error{Err: lost, Hint: "the same again goes on from there", Exit: api.ExitUnreachable, Status: http.StatusServiceUnavailable}
	}
	return err
}

// ingester returns what changes documents, with writes only while the turn lasts.
func (s *Service) ingester(t *turn) (*ingest.Ingester, error) {
	cfg := s.cfg.Ingest
	cfg.Erase = func(ctx context.Context, corpus string, ids []tree.ID, away ingest.Away) error {
		return s.erase(ctx, t, corpus, ids, away)
	}
	return ingest.New(cfg, t.Store(s.deps.Store), t.Corpora(s.deps.Corpora), s.deps.Embedder)
}

// erase does away with leaves that no reader sees any more, unless a build may read those that it was planned with. While one runs it can't
// be told what that has read: then whoever builds deletes them at the end.
func (s *Service) erase(ctx context.Context, t *turn, corpus string, ids []tree.ID, away ingest.Away) error {
	hold, err := fence.Take(ctx, s.deps.Builds, fence.Config{
		Corpus: corpus, Right: levels.RightBuild, Holder: s.cfg.Holder + "/erase", TTL: s.cfg.LeaseTTL, Log: s.deps.Log,
	})
	if errors.Is(err, levels.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	open, err := s.buildOpen(ctx, corpus)
	if err == nil && !open {
		err = away(ctx, hold.Store(t.Store(s.deps.Store)), ids)
	}
	return errors.Join(err, hold.Release())
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

// Ingest brings the corpus in line with the documents of a stream.
func (s *Service) Ingest(ctx context.Context, req api.IngestRequest) (api.IngestReport, error) {
	return s.IngestFiles(ctx, ingest.Request{Corpus: req.Corpus, Stream: req.Stream, ChunkTokens: req.ChunkTokens, Context: req.Context})
}

// IngestFiles brings the corpus in line with files of this machine.
func (s *Service) IngestFiles(ctx context.Context, req ingest.Request) (report api.IngestReport, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "ingest-documents", Corpus: req.Corpus, Counts: counts(report), Err: err})
	}()
	if err := checkName(req.Corpus); err != nil {
		return api.IngestReport{}, err
	}
	if n := req.ChunkTokens; n != 0 && (n < 8 || n > 8192) {
		return api.IngestReport{}, api.Usagef("", "chunk_tokens is %d; it must be from 8 to 8192", n)
	}
	return s.change(ctx, req.Corpus, func(ctx context.Context, in *ingest.Ingester) (api.IngestReport, error) { return in.Ingest(ctx, req) })
}

// Delete removes documents.
func (s *Service) Delete(ctx context.Context, corpus string, ids []string) (report api.IngestReport, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "delete-documents", Corpus: corpus, Objects: ids, Counts: counts(report), Err: err})
	}()
	if _, err := s.Record(ctx, corpus); err != nil {
		return api.IngestReport{}, err
	}
	return s.change(ctx, corpus, func(ctx context.Context, in *ingest.Ingester) (api.IngestReport, error) {
		return in.Delete(ctx, corpus, ids)
	})
}

// change changes documents when their turn has come.
func (s *Service) change(ctx context.Context, corpus string, do func(context.Context, *ingest.Ingester) (api.IngestReport, error)) (api.IngestReport, error) {
	t, err := s.turn(ctx, corpus)
	if err != nil {
		return api.IngestReport{}, err
	}
	defer t.end(s.deps.Log)
	in, err := s.ingester(t)
	if err != nil {
		return api.IngestReport{}, err
	}
	report, err := do(t.Context(), in)
	return report, t.outcome(err)
}

// DeleteCorpus removes a corpus: first the work of its newest build, so that nothing is left that would write into it. Neither an
// ingest nor a build can begin meanwhile.
func (s *Service) DeleteCorpus(ctx context.Context, corpus string) (report api.IngestReport, err error) {
	defer func() {
		s.changed(ctx, api.Change{Action: "delete-corpus", Corpus: corpus, Counts: counts(report), Err: err})
	}()
	if _, err := s.Record(ctx, corpus); err != nil {
		return api.IngestReport{}, err
	}
	t, err := s.turn(ctx, corpus)
	if err != nil {
		return api.IngestReport{}, err
	}
	defer t.end(s.deps.Log)
	if err := s.checkRest(ctx, corpus); err != nil {
		return api.IngestReport{}, err
	}
	state, err := s.deps.Builds.Load(ctx, corpus)
	if err != nil && !errors.Is(err, levels.ErrNotFound) {
		return api.IngestReport{}, err
	}
	if state == nil { // no build has ever been, and the builder's places may not be there
		in, err := s.ingester(t)
		if err != nil {
			return api.IngestReport{}, err
		}
		report, err = in.DeleteAll(t.Context(), corpus)
		return report, t.outcome(err)
	}
	if err := s.deps.Builder.Purge(ctx, corpus, state.Build); err != nil {
		return api.IngestReport{}, err
	}
	coord, err := s.deps.Builder.Coordinator(ctx, corpus)
	if err != nil {
		return api.IngestReport{}, err
	}
	err = coord.Alone(t.Context(), func(ctx context.Context, nodes store.Store) error {
		in, err := ingest.New(s.cfg.Ingest, t.Store(nodes), t.Corpora(s.deps.Corpora), s.deps.Embedder)
		if err == nil {
			report, err = in.DeleteAll(ctx, corpus)
		}
		return err
	})
	if errors.Is(err, levels.ErrHeld) {
		err = api.Conflictf("aerie status looks at it; wait until it rests, or pause it", "corpus %s is being built", corpus)
	}
	return report, t.outcome(err)
}

// Documents lists documents by id.
func (s *Service) Documents(ctx context.Context, req api.DocumentsRequest) (api.DocumentPage, error) {
	page := api.DocumentPage{Corpus: req.Corpus, Documents: []api.Document{}}
	var after afterDocument
	if err := readCursor(req.Cursor, &after); err != nil {
		return page, err
	}
	record, err := s.Record(ctx, req.Corpus)
	if err != nil {
		return page, err
	}
	if req.Limit <= 0 {
		err = s.deps.Store.Documents(ctx, req.Corpus, req.Prefix, func(d store.Document) error {
			if (d.ID > after.ID || req.Cursor == "") && (req.Source == "" || d.Source == req.Source) {
				page.Documents = append(page.Documents, documentOf(d, record))
			}
			return nil
		})
	} else {
		err = s.page(ctx, req, after.ID, record, &page)
	}
	if err != nil {
		return page, fmt.Errorf("corpus %s: %w", req.Corpus, err)
	}
	return page, nil
}

// page fills a page of documents without a look at all the others.
func (s *Service) page(ctx context.Context, req api.DocumentsRequest, after string, record *levels.Corpus, page *api.DocumentPage) error {
	for {
		some, err := s.deps.Store.DocumentsAfter(ctx, req.Corpus, req.Prefix, after, req.Limit+1)
		if err != nil {
			return err
		}
		for _, d := range some {
			switch {
			case req.Source != "" && d.Source != req.Source:
				continue
			case len(page.Documents) == req.Limit:
				page.NextCursor = cursor(afterDocument{page.Documents[req.Limit-1].ID})
				return nil
			}
			page.Documents = append(page.Documents, documentOf(d, record))
		}
		if len(some) <= req.Limit {
			return nil
		}
		after = some[len(some)-1].ID
	}
}

// documentOf describes a document.
func documentOf(d store.Document, record *levels.Corpus) api.Document {
	out := api.Document{ID: d.ID, Source: d.Source, Path: d.Path, Leaves: d.Leaves, Tokens: d.Tokens, State: api.DocumentNew}
	if d.Updated > 0 {
		out.Updated = time.Unix(d.Updated, 0).UTC()
	}
	if b := record.Baseline; b != nil && (b.Changes == record.Changes || d.Updated < b.At) {
		out.State = api.DocumentBuilt
	}
	return out
}
