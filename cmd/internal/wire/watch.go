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

// WatchModel counts and times the calls to a model. It is a Hooks.Deps.
func WatchModel(t *telemetry.Telemetry, model string) func(*llm.Deps) {
	return func(deps *llm.Deps) { *deps = t.Model(model).Watch(*deps) }
}
