package main

import (
	"context"
	"errors"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// glance is what the display shows of a build. It is read from the home, so that a build in another process looks the
// same.
type glance struct {
	build   string
	status  levels.Status
	alive   bool // a process reports on it
	doing   string
	waiting []string
	levels  []glanceLevel
}

type glanceLevel struct {
	level, nodesIn, expected, done, running, buried int
}

// aliveWithin is how old a report may be; they come once a second.
const aliveWithin = 10 * time.Second

// look reads where the newest build of the corpus is. It is cheap enough to be called several times a second.
func (h *home) look(ctx context.Context) (glance, error) {
	state, err := h.places.Builds.Load(ctx, h.cfg.Corpus)
	if err != nil {
		return glance{}, err
	}
	g := glance{build: state.Build, status: state.Status}
	progress, err := h.places.Builds.Progress(ctx, h.cfg.Corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
	case err != nil:
		return glance{}, err
	case progress.Build == state.Build && !state.Resting():
		g.alive = time.Since(progress.At) < aliveWithin
		g.doing, g.waiting = progress.Doing, progress.Waiting
	}
	for _, l := range state.Levels {
		level := glanceLevel{level: l.Level, nodesIn: l.NodesIn, expected: l.Total, done: l.Done, buried: l.Dead}
		if l.Phase == levels.Open || l.Phase == levels.Publishing {
			count, err := h.places.Barrier.Count(ctx, tree.Level{Corpus: state.Corpus, Build: state.Build, Level: l.Level})
			if err != nil && !errors.Is(err, levels.ErrNotOpen) {
				return glance{}, err
			}
			if err == nil && count.Total == l.Total {
				level.done, level.buried = count.Done, count.Dead
			}
		}
		if g.alive && progress.Level == l.Level {
			level.running = min(progress.Running, level.expected-level.done-level.buried)
		}
		g.levels = append(g.levels, level)
	}
	return g, nil
}
