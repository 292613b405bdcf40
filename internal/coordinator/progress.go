package coordinator

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Reporter writes once a second what a running build is doing, for status screens of this and other processes.
type Reporter struct {
	Coordinator *Coordinator
	// Hand returns what the workers of this process have in hand: how many tasks, of which level, and what they
	// wait for.
	Hand func() (running, level int, waiting []string)
	// Every is the time between reports; 0 means a second.
	Every time.Duration
}

// Run reports until ctx ends. A report that can't be written is dropped: nothing depends on it.
func (r *Reporter) Run(ctx context.Context) {
	every := r.Every
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.report(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Reporter) report(ctx context.Context) {
	c := r.Coordinator
	state, err := c.deps.Builds.Load(ctx, c.cfg.Corpus)
	if err != nil || state.Resting() {
		return
	}
	p := levels.Progress{Build: state.Build, Holder: c.cfg.Holder, At: time.Now(), Doing: c.Doing()}
	p.Running, p.Level, p.Waiting = r.Hand()
	if err := c.deps.Builds.Report(ctx, c.cfg.Corpus, p); err != nil && ctx.Err() == nil {
		c.deps.Log.Debug("progress was not reported", "corpus", c.cfg.Corpus, "error", err)
	}
}
