package wire

import (
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

// Watch counts and times all that goes to the places from here on.
func (p *Places) Watch(t *telemetry.Telemetry) {
	p.watched = t
	p.Store, p.Corpora, p.Builds, p.Barrier = t.Store(p.Store), t.Corpora(p.Corpora), t.Builds(p.Builds), t.Barrier(p.Barrier)
}

// watch returns deps under which the calls to a model are counted and timed, if anybody watches. The built-in providers make
// none.
func (p *Places) watch(provider, model string, deps llm.Deps) llm.Deps {
	if p.watched == nil || provider != llm.ProviderOpenAI {
		return deps
	}
	return p.watched.Model(model).Watch(deps)
}
