package main

import (
	"context"
	"errors"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// models is all that writes summaries and makes vectors, as configured.
type models struct {
	model           string // of the summaries, for prices
	recipe          string
	reduce          mapreduce.Config
	summarizer      mapreduce.Summarizer
	summaryEmbedder llm.Embedder
	ownEmbedder     bool // summaryEmbedder isn't the one of the leaves
	budget          *llm.LocalBudget
	dry             coordinator.Dry
	waiting         func() []string // what calls wait for
}

func summariesConfig(cfg *config.Config) llm.SummariesConfig {
	s := cfg.Summaries
	return llm.SummariesConfig{
		Provider: s.Provider, BaseURL: s.BaseURL, APIKey: s.APIKey.Reveal(), Model: s.Model, ContextTokens: s.ContextTokens,
		MaxOutputTokens: s.MaxOutputTokens, Temperature: s.Temperature, Prompt: s.Prompt, Timeout: s.Timeout, Extra: s.Extra,
	}
}

func embeddingsConfig(cfg *config.Config) llm.EmbeddingsConfig {
	e := cfg.Embeddings
	return llm.EmbeddingsConfig{
		Provider: e.Provider, BaseURL: e.BaseURL, APIKey: e.APIKey.Reveal(), Model: e.Model, Extra: e.Extra, BatchItems: e.BatchItems,
		BatchTokens: e.BatchTokens, QueryPrefix: e.QueryPrefix, PassagePrefix: e.PassagePrefix, Timeout: e.Timeout,
	}
}

// summaryEmbeddingsConfig is that of summaries: the leaves' unless they have an endpoint of their own.
func summaryEmbeddingsConfig(cfg *config.Config) llm.EmbeddingsConfig {
	e := embeddingsConfig(cfg)
	if own := cfg.Summaries.Embeddings; own.Provider != "" {
		e.Provider, e.BaseURL, e.APIKey, e.Model = own.Provider, own.BaseURL, own.APIKey.Reveal(), own.Model
		e.Section = "summaries.embeddings"
	}
	return e
}

func (h *home) modelDeps() llm.Deps {
	l := h.cfg.Limits
	return llm.Deps{Counter: h.counter, Log: h.c.log, Limiter: llm.NewLimiter(llm.LimiterConfig{
		RequestsPerMinute: l.RequestsPerMinute, InputTokensPerMinute: l.InputTokensPerMinute, OutputTokensPerMinute: l.OutputTokensPerMinute,
	})}
}

// embedder returns the one for leaves and queries.
func (h *home) embedder() (llm.Embedder, error) {
	e, err := llm.NewEmbedder(embeddingsConfig(h.cfg), h.modelDeps())
	return e, asUsage(err)
}

// models wires the summaries' provider. Without a journal it can only foresee.
func (h *home) models(journal llm.Journal) (*models, error) {
	cfg, embeddings := summariesConfig(h.cfg), summaryEmbeddingsConfig(h.cfg)
	deps := h.modelDeps()
	budget := llm.NewBudget(llm.BudgetConfig{MaxTokens: h.cfg.Build.MaxTokens, MaxCost: h.cfg.Build.MaxCost, Prices: prices(h.cfg)})
	deps.Journal, deps.Budget = journal, budget
	m := &models{
		model: cfg.ModelName(), budget: budget, ownEmbedder: h.cfg.Summaries.Embeddings.Provider != "",
		recipe: tree.Recipe(append(cfg.RecipeFields(), embeddings.RecipeFields()...)...),
	}
	var err error
	if m.reduce, err = cfg.MapReduce(deps.Counter, deps.Sentences); err != nil {
		return nil, asUsage(err)
	}
	if m.summarizer, err = llm.NewSummarizer(cfg, deps); err != nil {
		return nil, asUsage(err)
	}
	if m.summaryEmbedder, err = llm.NewEmbedder(embeddings, deps); err != nil {
		return nil, asUsage(err)
	}
	var chat, embed reach
	m.summarizer, m.summaryEmbedder = watchedSummarizer{m.summarizer, &chat}, watchedEmbedder{m.summaryEmbedder, &embed}
	m.waiting = func() []string {
		return append(append(deps.Limiter.Waiting(), chat.waiting()...), embed.waiting()...)
	}
	foresee := llm.NewDry(cfg, journal, deps.Counter)
	m.dry = func(ctx context.Context, children []mapreduce.Child) (mapreduce.Usage, error) {
		answer, err := mapreduce.Summarize(ctx, foresee, m.reduce, children)
		return answer.Usage, err
	}
	return m, nil
}

// asUsage marks an error of a model's configuration as one that the user can mend.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, exit: exitUsage}
}

func prices(cfg *config.Config) map[string]llm.Price {
	all := map[string]llm.Price{}
	for model, p := range cfg.Build.Prices {
		all[model] = llm.Price{Input: p.Input, Output: p.Output, Currency: p.Currency}
	}
	return all
}

// checkEmbedder refuses to mix vectors of two models in one corpus. Where only the width can tell, one text is embedded to
// see it.
func (h *home) checkEmbedder(ctx context.Context, m *models) error {
	record, err := h.db.Corpora().Load(ctx, h.cfg.Corpus)
	if errors.Is(err, levels.ErrNotFound) || err == nil && record.Embedder == "" {
		return nil
	}
	if err != nil {
		return err
	}
	name := m.summaryEmbedder.Name()
	switch {
	case !m.ownEmbedder && record.Embedder == name:
		return nil
	case !m.ownEmbedder && record.Embedder != ingest.Given:
		return usagef("set embeddings as they were, or ingest into another --corpus",
			"corpus %q holds vectors of %s, but embeddings are configured as %s, and the two can't be mixed", record.Name, record.Embedder, name)
	}
	if h.broughtAlong(record) && !m.ownEmbedder {
		m.summaryEmbedder = llm.Lexical{Width: record.Width}
		h.c.warn("corpus %s holds vectors that were brought along, and embeddings doesn't name their model: summaries are embedded by %s, "+
			"which places them well among each other and not among the leaves", record.Name, m.summaryEmbedder.Name())
		return nil
	}
	vectors, err := m.summaryEmbedder.Embed(ctx, []string{"width"})
	if err != nil {
		return err
	}
	if got := len(vectors[0]); got != record.Width {
		return usagef("set embeddings to the model that made them",
			"corpus %q holds vectors of %d numbers, but those of %s, for summaries, have %d", record.Name, record.Width, name, got)
	}
	return nil
}

// resumeBudget books what the unfinished build has spent in earlier processes.
func (h *home) resumeBudget(ctx context.Context, m *models) error {
	state, err := h.db.Builds().Load(ctx, h.cfg.Corpus)
	if err != nil {
		return ignoreNotFound(err)
	}
	var spent mapreduce.Usage
	for _, l := range state.Levels {
		usage := l.Usage
		count, err := h.db.Barrier().Count(ctx, queue.Level{Corpus: state.Corpus, Build: state.Build, Level: l.Level})
		switch {
		case err == nil && count.Usage.Calls > usage.Calls:
			usage = count.Usage // newer than the record, which is written at transitions only
		case err != nil && !errors.Is(err, levels.ErrNotOpen):
			return err
		}
		spent = spent.Add(usage)
	}
	m.budget.Resume(state.Build, m.model, spent)
	return nil
}
