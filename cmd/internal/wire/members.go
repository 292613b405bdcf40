package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/worker"
)

// Tell tells of a process every few seconds, until ctx ends, and then that it has left. A word that can't be kept is dropped:
// nothing depends on it.
func Tell(ctx context.Context, members levels.Members, log *slog.Logger, about func() levels.Member) {
	started := time.Now()
	tell := func(ctx context.Context, left bool) {
		m := about()
		m.Started, m.At, m.Left = started, time.Now(), left
		if m.WaitingFor == nil {
			m.WaitingFor = []string{}
		}
		if err := members.Tell(ctx, m); err != nil && ctx.Err() == nil {
			log.Debug("nobody was told of this process", "role", string(m.Role), "error", err)
		}
	}
	tick := time.NewTicker(levels.MemberBeat)
	defer tick.Stop()
	for {
		tell(ctx, false)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			tell(last, true)
			return
		case <-tick.C:
		}
	}
}

// WorkerMember is what a worker tells of itself.
func WorkerMember(id, version string, cfg *config.Config, m *Models, w *worker.Worker) levels.Member {
	member := levels.Member{
		ID: id, Role: levels.RoleWorker, Version: version, Recipe: m.Recipe, Slots: cfg.Build.Slots, WaitingFor: append(m.Waiting(), w.Waiting()...),
	}
	for _, h := range w.Hand() {
		member.Running += h.Running
	}
	return member
}
