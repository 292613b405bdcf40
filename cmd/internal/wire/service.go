package wire

import (
	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/service"
)

// ServiceConfig is what the configuration says of a service, and Deps what it works with. Place, Exclusive, Base and Progress of
// cfg.Ingest are the caller's.
func (p *Places) ServiceConfig(counter mapreduce.Counter, builder service.Builder) (service.Config, service.Deps, error) {
	embedder, err := p.Embedder(counter)
	if err != nil {
		return service.Config{}, service.Deps{}, err
	}
	chat := SummariesConfig(p.cfg)
	cfg := service.Config{
		Rule: Rule(p.cfg), Settings: p.cfg.Map(), LexicalEmbedder: p.cfg.Embeddings.Provider == llm.ProviderLexical,
		Ingest: ingest.Config{ChunkTokens: p.cfg.Chunking.Tokens, EmbedItems: p.cfg.Embeddings.BatchItems},
		Answer: answer.Config{ContextTokens: chat.ContextTokens, MaxOutputTokens: chat.MaxOutputTokens},
		Price:  func(model string) (coordinator.Price, bool) { return Price(p.cfg, model) },
	}
	deps := service.Deps{
		Store: p.Store, Corpora: p.Corpora, Builds: p.Builds, Barrier: p.Barrier, Members: p.Members, Embedder: embedder, Counter: counter, Builder: builder, Scrub: p.Scrub, Log: p.log,
	}
	if p.Fleet {
		deps.Reading, deps.Reach = p.Reading, p.Reach
	}
	if p.watched != nil {
		deps.Queried = p.watched.Query
	}
	if chat.Provider == llm.ProviderOpenAI { // the built-in one doesn't chat: then the hits are quoted
		cfg.Answer.Name = chat.Model
		if deps.Model, err = llm.NewStreamer(chat, p.watch(chat.Provider, chat.Model, llm.Deps{Counter: counter, Log: p.log, Limiter: p.limiter()})); err != nil {
			return cfg, deps, asUsage(err)
		}
	}
	return cfg, deps, nil
}
