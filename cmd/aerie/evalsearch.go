package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// evalSearcher asks the place. Vectors are made, or read, once for all arms where the place doesn't make them itself.
type evalSearcher struct {
	place    place
	embedder queryVectors // nil: the place embeds
	wanted   bool         // some arm compares vectors
	model    string       // of the corpora's vectors, as far as a coordinator embeds

	file   *npy.File // of vectors, if there is one
	pinned *evalVectors
	row    int // of the question that is asked next
	vector []float32
}

func (c *cli) evalSearcher(ctx context.Context, h place, vectors string, questions []evaluate.Question, arms []evaluate.Arm) (*evalSearcher, error) {
	embedder, err := h.queryVectors()
	if err != nil {
		return nil, err
	}
	s := &evalSearcher{place: h, embedder: embedder}
	if vectors != "" {
		if err := s.open(vectors, len(questions)); err != nil {
			return nil, err
		}
	}
	for _, arm := range arms {
		if err := s.admit(ctx, c, arm); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// open maps the vectors that were brought along.
func (s *evalSearcher) open(path string, rows int) error {
	file, err := npy.Open(path)
	if err != nil {
		return usagef("", "--vectors: %w", err)
	}
	if file.Len() != rows {
		file.Close()
		return usagef("", "--vectors: %s has %s, and there are %s: it must have one for each, in the same order", path,
			plural(file.Len(), "row", "rows"), plural(rows, "question", "questions"))
	}
	s.file = file
	raw, err := os.Open(path)
	if err != nil {
		return err
	}
	defer raw.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, raw); err != nil {
		return err
	}
	s.pinned = &evalVectors{File: path, Hash: hex.EncodeToString(hash.Sum(nil)[:16])}
	return nil
}

// admit checks that an arm's corpus is there and can be asked.
func (s *evalSearcher) admit(ctx context.Context, c *cli, arm evaluate.Arm) error {
	status, err := s.place.Status(ctx, arm.Request.Corpus)
	if err != nil {
		var told *api.Error
		if errors.As(err, &told) && told.Exit == exitFailed && arm.Request.Corpus != c.cfg.Corpus {
			return usagef(told.Hint, "arm %q: %w", arm.Name, told.Err)
		}
		return err
	}
	record := status.Corpora[0]
	if !comparesVectors(arm.Request) {
		return nil
	}
	s.wanted, s.model = true, record.Embedder
	switch {
	case s.file != nil && s.file.Width() != record.Width && record.Width > 0:
		return usagef("", "--vectors: %s is %d wide, but the vectors of corpus %s are %d wide: both must be of the same model", s.file.Path(), s.file.Width(),
			record.Corpus, record.Width)
	case s.file == nil && record.Embedder == levels.Given && (s.embedder == nil || c.cfg.Embeddings.Provider == llm.ProviderLexical):
		return usagef("set embeddings to the model that made them, or bring the questions' vectors along too: --vectors FILE.npy",
			"corpus %s holds vectors that were brought along, and arm %q would compare them with those of %s", record.Corpus, arm.Name, llm.LexicalName)
	}
	return nil
}

func (s *evalSearcher) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// embedderName is that of the model which embeds the questions, if one does.
func (s *evalSearcher) embedderName() string {
	if s.file != nil || !s.wanted {
		return ""
	}
	if s.embedder == nil {
		return s.model
	}
	return s.embedder.Name()
}

// prepare gets the vector of the question that is asked next.
func (s *evalSearcher) prepare(ctx context.Context, question string) error {
	switch {
	case s.file != nil:
		s.vector = s.file.Row(nil, s.row)
		s.row++
	case s.wanted && s.embedder != nil:
		vector, err := s.embedder.EmbedQuery(ctx, question)
		if err != nil {
			return err
		}
		s.vector = vector
	}
	return nil
}

// Retrieve asks the corpus that the request names.
func (s *evalSearcher) Retrieve(ctx context.Context, req retrieve.Request) (retrieve.Result, error) {
	return s.place.Query(ctx, req.Corpus, s.query(req))
}

func (s *evalSearcher) query(req retrieve.Request) api.Query {
	q := api.Query{Query: req.Query, Options: req.Options}
	if comparesVectors(req) {
		q.Vector = s.vector
	}
	return q
}

// comparesVectors reports whether an arm compares more than keywords.
func comparesVectors(req retrieve.Request) bool { return req.Alpha == nil || *req.Alpha != 0 }

// forRun is the searcher with all that its place can do.
func (s *evalSearcher) forRun() evaluate.Searcher {
	if at, can := s.place.(budgetQueries); can {
		return sweepSearcher{s, at}
	}
	return s
}

// budgetQueries is a place that answers at several budgets at once: the home.
type budgetQueries interface {
	QueryAt(ctx context.Context, corpus string, q api.Query, budgets []int, each func(i int, result retrieve.Result)) error
}

// sweepSearcher is an evaluate.Sweeper.
type sweepSearcher struct {
	*evalSearcher
	at budgetQueries
}

func (s sweepSearcher) RetrieveAt(ctx context.Context, req retrieve.Request, budgets []int, each func(i int, result retrieve.Result)) error {
	return s.at.QueryAt(ctx, req.Corpus, s.query(req), budgets, each)
}
