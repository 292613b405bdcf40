package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// retriever returns one that embeds queries as the corpus was embedded. Nobody knows by name which model made vectors that
// were brought along, so there the width must do. The built-in embedder surely isn't that model, so words are compared then
// and not vectors. Retrievers are shared, since they remember.
func (s *Service) retriever(record *levels.Corpus) *retrieve.Retriever {
	kind, cfg, embedder := "", retrieve.Config{}, s.deps.Embedder
	switch {
	case record.Embedder == levels.Given && s.cfg.LexicalEmbedder:
		kind, cfg.ByWords, embedder = fmt.Sprint("words ", record.Width), true, givenEmbedder{llm.Lexical{Width: record.Width}}
	case record.Embedder == levels.Given:
		kind, embedder = "given", givenEmbedder{embedder}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retrievers[kind] == nil {
		s.retrievers[kind] = retrieve.New(cfg, s.deps.Store, s.reading(), embedder)
	}
	return s.retrievers[kind]
}

// hidden counts the leaves of a corpus that no query finds.
func (s *Service) hidden(ctx context.Context, corpus string) (int, error) {
	record, err := s.reading().Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return 0, nil // deleted meanwhile
	}
	if err != nil {
		return 0, fmt.Errorf("corpus %s: %w", corpus, err)
	}
	return s.retriever(record).Hidden(ctx, record)
}

// givenEmbedder passes for the one that made the vectors which were brought along.
type givenEmbedder struct{ llm.Embedder }

func (givenEmbedder) Name() string { return levels.Given }

// Query answers with hits.
func (s *Service) Query(ctx context.Context, corpus string, q api.Query) (retrieve.Result, error) {
	return within(ctx, s, []Server{ServerStore}, func(ctx context.Context) (retrieve.Result, error) { return s.query(ctx, corpus, q) })
}

func (s *Service) query(ctx context.Context, corpus string, q api.Query) (result retrieve.Result, err error) {
	err = s.QueryAt(ctx, corpus, q, nil, func(_ int, found retrieve.Result) { result = found })
	return result, err
}

// QueryAt answers at several budgets instead of the query's own; see [retrieve.Retriever.RetrieveAt].
func (s *Service) QueryAt(ctx context.Context, corpus string, q api.Query, budgets []int, each func(i int, result retrieve.Result)) (err error) {
	req := retrieve.Request{Corpus: corpus, Query: q.Query, Vector: q.Vector, Options: q.Options}
	if _, err := req.Settled(); err != nil {
		return err // also where there is no such corpus
	}
	record, err := s.recordOf(ctx, s.reading(), corpus)
	if err != nil {
		return err
	}
	if err := s.checkKeys(ctx, corpus, q.Options); err != nil {
		return err
	}
	if s.deps.Queried != nil {
		hits, ended := 0, s.deps.Queried(corpus)
		defer func() { ended(hits, err) }()
		all := each
		each = func(i int, result retrieve.Result) { hits = max(hits, len(result.Hits)); all(i, result) }
	}
	return s.retriever(record).RetrieveAt(ctx, req, budgets, each)
}

// mostKeysNamed is how many keys of metadata an error names.
const mostKeysNamed = 20

// checkKeys refuses a condition on a key that no leaf of the corpus has, since it was surely mistyped.
func (s *Service) checkKeys(ctx context.Context, corpus string, o retrieve.Options) error {
	filter := store.Filter{Metadata: o.Metadata, Where: o.Where}
	if !filter.OnMetadata() {
		return nil
	}
	keys, err := s.deps.Store.MetadataKeys(ctx, corpus)
	if err != nil {
		return err
	}
	for _, w := range filter.Conditions() {
		switch {
		case slices.Contains(keys, w.Key):
		case len(keys) == 0:
			return api.Usagef("rows of JSONL bring metadata along", "no leaf of corpus %s has metadata %q, nor any other", corpus, w.Key)
		default:
			known := strings.Join(keys[:min(len(keys), mostKeysNamed)], ", ")
			if len(keys) > mostKeysNamed {
				known = fmt.Sprintf("%s and %d more", known, len(keys)-mostKeysNamed)
			}
			return api.Usagef("its leaves have "+known, "no leaf of corpus %s has metadata %q; did you mean %q?", corpus, w.Key, config.Nearest(w.Key, keys))
		}
	}
	return nil
}

// Ask answers from what the query finds.
func (s *Service) Ask(ctx context.Context, corpus string, q api.Ask, on func(answer.Sentence)) (api.Answer, error) {
	cfg := s.cfg.Answer
	cfg.Floor = answer.Floor(s.deps.Embedder.Name())
	if q.MinSimilarity != nil {
		cfg.Floor = *q.MinSimilarity
	}
	if !(cfg.Floor >= -1 && cfg.Floor <= 1) {
		return api.Answer{}, api.Usagef("", "min_similarity is %v; it must be between -1 (none) and 1", cfg.Floor)
	}
	answerer := answer.New(cfg, s.deps.Model, s.deps.Counter)
	question, spent, err := answerer.Condense(ctx, turnsOf(q.History), q.Query.Query)
	if err != nil {
		return api.Answer{}, err
	}
	q.Query.Query = question
	found, err := s.Query(ctx, corpus, q.Query)
	if err != nil {
		return api.Answer{}, err
	}
	a, err := answerer.Answer(ctx, found, on)
	if err != nil {
		return api.Answer{}, err
	}
	a.Calls, a.InputTokens, a.OutputTokens = a.Calls+spent.Calls, a.InputTokens+spent.InputTokens, a.OutputTokens+spent.OutputTokens
	result := api.Answer{Answer: a, Explain: found.Explain}
	if s.cfg.Price == nil || a.Calls == 0 {
		return result, nil
	}
	if price, ok := s.cfg.Price(a.Model); ok {
		result.Cost = price.Of(tree.Usage{InputTokens: a.InputTokens, OutputTokens: a.OutputTokens})
	}
	return result, nil
}

func turnsOf(history []api.Turn) []answer.Turn {
	turns := make([]answer.Turn, len(history))
	for i, t := range history {
		turns[i] = answer.Turn{Person: t.Role == "user", Text: t.Text}
	}
	return turns
}

// Embed returns the vectors of texts by the embedder of a corpus, and its name.
func (s *Service) Embed(ctx context.Context, corpus string, texts []string) ([][]float32, string, error) {
	record, err := s.recordOf(ctx, s.reading(), corpus)
	if err != nil {
		return nil, "", err
	}
	if record.Embedder != s.deps.Embedder.Name() {
		return nil, "", api.Conflictf("", "the vectors of corpus %s are by %s, and the configured embedder is %s", corpus, record.Embedder, s.deps.Embedder.Name())
	}
	vectors, err := s.deps.Embedder.Embed(ctx, texts)
	return vectors, record.Embedder, err
}
