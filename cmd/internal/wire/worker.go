package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/worker"
)

// Worker returns one that takes the tasks of every corpus. more may change its dependencies before it is made; nil for none. The
// queue must be open.
func (p *Places) Worker(m *Models, more func(*worker.Deps)) (*worker.Worker, error) {
	deps := worker.Deps{
		Queue: p.Queue(), Store: p.Store, Barrier: p.Barrier, Plans: p.Plans(), Builds: p.Builds, Journal: p.Journal(),
		Summarizer: m.Summarizer, Embedder: m.Embedder, EmbedderOf: p.EmbeddersOf(m), Full: &p.full, Log: p.log,
	}
	if more != nil {
		more(&deps)
	}
	return worker.New(WorkerConfig(p.cfg, m, p.conn.Heartbeat()), deps)
}

// WorkerConfig is what the configuration says of a worker.
func WorkerConfig(cfg *config.Config, m *Models, heartbeat time.Duration) worker.Config {
	return worker.Config{
		Slots: cfg.Build.Slots, MaxAttempts: cfg.Build.MaxAttempts, TaskTimeout: cfg.Build.TaskTimeout, Recipe: m.Recipe, Reduce: m.Reduce, Grace: cfg.Worker.Grace, Heartbeat: heartbeat,
	}
}

// Reports say how a worker's hands are reported.
type Reports struct {
	// Holder names this process.
	Holder string
	// Waiting says what its calls wait for.
	Waiting func() []string
	// Beat is called once a second, and after each report: the loop is alive.
	Beat func()
	Log  *slog.Logger
}

// ReportHands writes once a second what a worker has in hand and waits for, for status screens, until ctx ends. A report
// that can't be written is dropped: nothing depends on it.
func ReportHands(ctx context.Context, w *worker.Worker, builds levels.Builds, r Reports) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		r.Beat()
		for _, h := range w.Hand() {
			p := levels.Progress{Build: h.Build, Holder: r.Holder, At: time.Now(), Running: h.Running, Level: h.Level, Waiting: r.Waiting()}
			if err := builds.Report(ctx, h.Corpus, p); err != nil && ctx.Err() == nil {
				r.Log.Debug("what is in hand was not reported", "corpus", h.Corpus, "error", err)
			}
			r.Beat()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
