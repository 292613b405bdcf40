package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// evalSearcher answers with the retriever of each arm's corpus. Vectors are made, or read, once for all arms.
type evalSearcher struct {
	retriever *retrieve.Retriever // of corpora that name the model of their vectors
	given     *retrieve.Retriever // of corpora whose vectors were brought along
	broughtBy map[string]bool     // the latter
	embedder  *evaluate.Remembering
	wanted    bool // some arm compares vectors

	file   *npy.File // of vectors, if there is one
	pinned *evalVectors
	row    int // of the question that is asked next
	vector []float32
}

func (h *home) evalSearcher(ctx context.Context, vectors string, questions []evaluate.Question, arms []evaluate.Arm) (*evalSearcher, error) {
	embedder, err := h.embedder()
	if err != nil {
		return nil, err
	}
	s := &evalSearcher{embedder: evaluate.Remember(embedder), broughtBy: map[string]bool{}}
	s.retriever = retrieve.New(retrieve.Config{}, h.store(), h.db.Corpora(), s.embedder)
	s.given = retrieve.New(retrieve.Config{}, h.store(), h.db.Corpora(), givenEmbedder{s.embedder})
	if vectors != "" {
		if err := s.open(vectors, len(questions)); err != nil {
			return nil, err
		}
	}
	for _, arm := range arms {
		if err := s.admit(ctx, h, arm); err != nil {
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
func (s *evalSearcher) admit(ctx context.Context, h *home, arm evaluate.Arm) error {
	record, err := h.recordOf(ctx, arm.Request.Corpus)
	if err != nil {
		var f *failure
		if errors.As(err, &f) && arm.Request.Corpus != h.cfg.Corpus {
			return usagef(f.hint, "arm %q: %w", arm.Name, f.err)
		}
		return err
	}
	s.broughtBy[record.Name] = record.Embedder == ingest.Given
	if arm.Request.Alpha == 0 {
		return nil
	}
	s.wanted = true
	switch {
	case s.file != nil && s.file.Width() != record.Width && record.Width > 0:
		return usagef("", "--vectors: %s is %d wide, but the vectors of corpus %s are %d wide: both must be of the same model", s.file.Path(), s.file.Width(),
			record.Name, record.Width)
	case s.file == nil && h.broughtAlong(record):
		return usagef("set embeddings to the model that made them, or bring the questions' vectors along too: --vectors FILE.npy",
			"corpus %s holds vectors that were brought along, and arm %q would compare them with those of %s", record.Name, arm.Name, llm.LexicalName)
	}
	return nil
}

// recordOf returns the record of a corpus that an arm names.
func (h *home) recordOf(ctx context.Context, corpus string) (*levels.Corpus, error) {
	cfg := *h.cfg
	cfg.Corpus = corpus
	other := *h
	other.cfg = &cfg
	return other.record(ctx)
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
	return s.embedder.Name()
}

// prepare gets the vector of the question that is asked next.
func (s *evalSearcher) prepare(ctx context.Context, question string) error {
	switch {
	case s.file != nil:
		s.vector = s.file.Row(nil, s.row)
		s.row++
	case s.wanted:
		return s.embedder.Prepare(ctx, question)
	}
	return nil
}

// Retrieve asks the corpus that the request names.
func (s *evalSearcher) Retrieve(ctx context.Context, req retrieve.Request) (retrieve.Result, error) {
	req.Vector = s.vector
	if s.broughtBy[req.Corpus] {
		return s.given.Retrieve(ctx, req)
	}
	return s.retriever.Retrieve(ctx, req)
}
