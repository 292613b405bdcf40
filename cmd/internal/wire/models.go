package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Models is all that writes summaries and makes vectors, as configured.
type Models struct {
	// Model is that of the summaries, for prices.
	Model string
	// Recipe names how summaries are made; see tree.Recipe.
	Recipe     string
	Reduce     mapreduce.Config
	Summarizer mapreduce.Summarizer
	// Embedder is that of summaries, unless a corpus asks for another; see EmbedderOf.
	Embedder llm.Embedder
	Budget   Budget
	Dry      coordinator.Dry
	// Waiting says for people what calls wait for.
	Waiting func() []string

	own bool // Embedder isn't the one of the leaves
}

// SummariesConfig is what the configuration says of summaries.
func SummariesConfig(cfg *config.Config) llm.SummariesConfig {
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

// Embedder returns the one for leaves and queries.
func (p *Places) Embedder(counter mapreduce.Counter) (llm.Embedder, error) {
	cfg := embeddingsConfig(p.cfg)
	e, err := llm.NewEmbedder(cfg, p.watch(cfg.Provider, cfg.Model, llm.Deps{Counter: counter, Log: p.log, Limiter: p.limiter()}))
	return e, asUsage(err)
}

// Models wires the summaries' provider with a budget. Without a journal it can only foresee.
func (p *Places) Models(counter mapreduce.Counter, journal journal.Journal, bounds Bounds) (*Models, error) {
	cfg, embeddings := SummariesConfig(p.cfg), summaryEmbeddingsConfig(p.cfg)
	budget := p.budget(bounds)
	deps := llm.Deps{Counter: counter, Log: p.log, Limiter: p.limiter(), Journal: journal, Budget: budget}
	m := &Models{
		Model: cfg.ModelName(), Budget: budget, own: p.cfg.Summaries.Embeddings.Provider != "",
		Recipe: tree.Recipe(append(cfg.RecipeFields(), embeddings.RecipeFields()...)...),
	}
	var err error
	if m.Reduce, err = cfg.MapReduce(deps.Counter, deps.Sentences); err != nil {
		return nil, asUsage(err)
	}
	if m.Summarizer, err = llm.NewSummarizer(cfg, p.watch(cfg.Provider, cfg.Model, deps)); err != nil {
		return nil, asUsage(err)
	}
	if m.Embedder, err = llm.NewEmbedder(embeddings, p.watch(embeddings.Provider, embeddings.Model, deps)); err != nil {
		return nil, asUsage(err)
	}
	var chat, embed reach
	m.Summarizer, m.Embedder = watchedSummarizer{m.Summarizer, &chat}, watchedEmbedder{m.Embedder, &embed}
	m.Waiting = func() []string {
		return append(append(deps.Limiter.Waiting(), chat.waiting()...), embed.waiting()...)
	}
	foresee := llm.NewDry(cfg, journal, deps.Counter)
	m.Dry = func(ctx context.Context, children []mapreduce.Child) (tree.Usage, error) {
		answer, err := mapreduce.Summarize(ctx, foresee, m.Reduce, children)
		return answer.Usage, err
	}
	return m, nil
}

// asUsage marks an error of a model's configuration as one that the user can mend.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return api.Usagef("", "%w", err)
}

// BroughtAlong reports whether a corpus has vectors of a model that isn't configured.
func BroughtAlong(cfg *config.Config, record *levels.Corpus) bool {
	return record.Embedder == levels.Given && cfg.Embeddings.Provider == llm.ProviderLexical
}

// EmbedderOf returns the embedder for the summaries of a corpus. It refuses to mix vectors of two models: where only the width
// can tell, one text is embedded to see it.
func (p *Places) EmbedderOf(ctx context.Context, m *Models, corpus string) (llm.Embedder, error) {
	record, err := p.Corpora.Load(ctx, corpus)
	if errors.Is(err, levels.ErrNotFound) || err == nil && record.Embedder == "" {
		return m.Embedder, nil
	}
	if err != nil {
		return nil, err
	}
	name := m.Embedder.Name()
	switch {
	case !m.own && record.Embedder == name && (record.Width == 0 || p.cfg.Embeddings.Provider == llm.ProviderLexical):
		return m.Embedder, nil
	case !m.own && record.Embedder == name: // its width tells whether it is still the same
	case !m.own && record.Embedder != levels.Given:
		return nil, api.Usagef("set embeddings as they were, or ingest into another --corpus",
			"corpus %q holds vectors of %s, but embeddings are configured as %s, and the two can't be mixed", record.Name, record.Embedder, name)
	}
	if BroughtAlong(p.cfg, record) && !m.own {
		own := llm.Lexical{Width: record.Width}
		if _, told := p.told.LoadOrStore(corpus, true); told {
			return own, nil
		}
		p.log.Warn(fmt.Sprintf("corpus %s holds vectors that were brought along, and embeddings doesn't name their model: summaries are embedded by %s, "+
			"which places them well among each other and not among the leaves", record.Name, own.Name()))
		return own, nil
	}
	vectors, err := m.Embedder.Embed(ctx, []string{"width"})
	if err != nil {
		return nil, err
	}
	if got := len(vectors[0]); got != record.Width {
		return nil, api.Usagef("set embeddings to the model that made them",
			"corpus %q holds vectors of %d numbers, but those of %s, for summaries, have %d", record.Name, record.Width, name, got)
	}
	return m.Embedder, nil
}

// EmbeddersOf returns EmbedderOf with a memory: a worker asks for each task. What was refused is asked again.
func (p *Places) EmbeddersOf(m *Models) func(context.Context, string) (llm.Embedder, error) {
	var known memo[llm.Embedder]
	return func(ctx context.Context, corpus string) (llm.Embedder, error) {
		return known.get(corpus, func() (llm.Embedder, error) { return p.EmbedderOf(ctx, m, corpus) })
	}
}

// CoordinatorConfig is what the configuration says of a corpus's builds.
func CoordinatorConfig(cfg *config.Config, corpus, holder, tempDir string, m *Models) coordinator.Config {
	out := coordinator.Config{
		Corpus: corpus, Rule: Rule(cfg), MinChunks: cfg.Build.MinChunks, MaxDepth: cfg.Build.MaxDepth, Buried: cfg.Build.MaxBuried,
		Incremental: cfg.Build.Growth == "incremental", Stale: cfg.Build.Stale, Keep: cfg.Build.Keep,
		Clustering: ClusteringConfig(cfg), Recipe: m.Recipe, Settings: cfg.Map(), Holder: holder, LeaseTTL: cfg.Server.Lease, TempDir: tempDir,
	}
	out.Alternatives = alternatives(cfg, out.Clustering)
	if price, ok := Price(cfg, m.Model); ok {
		out.Price = &price
	}
	return out
}

// Price returns what a model costs, if that is configured.
func Price(cfg *config.Config, model string) (coordinator.Price, bool) {
	p, ok := cfg.PriceOf(model)
	return coordinator.Price{Input: p.Input, Output: p.Output, BatchInput: p.BatchInput, BatchOutput: p.BatchOutput, Currency: p.Currency}, ok
}

// Rule is the growth rule as it is configured.
func Rule(cfg *config.Config) levels.Rule {
	return levels.Rule{
		Manual:    !cfg.Build.Auto,
		Threshold: cfg.Build.GrowthThreshold, DeleteDelay: cfg.Build.DeleteDelay, Now: time.Now,
		Scope: tree.Scope(cfg.Build.Scope), KeepLeaves: cfg.Build.KeepLeaves,
	}
}

// Bounds is the budget of one build; 0 is none.
type Bounds struct {
	MaxTokens int
	MaxCost   float64
}

// NoRequest leaves the budget to the configuration.
var NoRequest = api.BuildRequest{}

// BudgetOf returns the budget that a request sets, or else the configuration.
func BudgetOf(cfg *config.Config, s api.BuildRequest) Bounds {
	b := Bounds{cfg.Build.MaxTokens, cfg.Build.MaxCost}
	if s.MaxTokens != nil {
		b.MaxTokens = *s.MaxTokens
	}
	if s.MaxCost != nil {
		b.MaxCost = *s.MaxCost
	}
	return b
}

// Coordinator returns one for a corpus. Without an open queue it can only plan. more may change its dependencies before it is
// made; nil for none.
func (p *Places) Coordinator(cfg coordinator.Config, m *Models, more func(*coordinator.Deps)) (*coordinator.Coordinator, error) {
	deps := coordinator.Deps{Store: p.Store, Corpora: p.Corpora, Builds: p.Builds, Barrier: p.Barrier, Dry: m.Dry, Full: &p.full, Log: p.log}
	if p.conn != nil {
		deps.Queue, deps.Plans, deps.Journal = p.Queue(), p.Plans(), p.Journal()
	}
	deps.Books = func(ctx context.Context, build *levels.State, spent tree.Usage) error {
		bounds := BudgetOf(p.cfg, api.BuildRequest{MaxTokens: build.MaxTokens, MaxCost: build.MaxCost})
		return m.Budget.Open(ctx, build.Build, bounds, m.Model, spent)
	}
	if more != nil {
		more(&deps)
	}
	return coordinator.New(cfg, deps)
}
