package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/ingest"
)

// remote is a coordinator that is asked over HTTP.
type remote struct {
	*client.Client
	c *cli
}

// openRemote refuses flags that a coordinator doesn't take from its clients, since its own configuration decides.
func (c *cli) openRemote(also []string) (place, error) {
	for _, key := range slices.Sorted(maps.Keys(c.flags)) {
		if key == "corpus" || strings.HasPrefix(key, "server.") || slices.Contains(also, key) {
			continue
		}
		return nil, usagef("leave it out, or set it in the coordinator's aerie.yaml",
			"%s has no effect with server.url (%s): the coordinator's own configuration decides", c.flags[key].Name, c.origins.Of("server.url"))
	}
	r := &remote{c: c}
	var err error
	r.Client, err = client.New(client.Config{
		URL: c.cfg.Server.URL, Token: c.cfg.Server.Token.Reveal(), CAFile: c.cfg.Server.CAFile,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *remote) where() string { return r.c.cfg.Server.URL }

func (r *remote) close() { r.Client.Close() }

// queryVectors is nil: the coordinator embeds questions.
func (r *remote) queryVectors() (queryVectors, error) { return nil, nil }

func (r *remote) IngestFiles(ctx context.Context, req ingest.Request) (api.IngestReport, error) {
	ticker := newTicker(r.c, "ingesting")
	defer ticker.stop()
	if r.c.origins.Of("chunking.tokens").Source == "flag" {
		req.ChunkTokens = r.c.cfg.Chunking.Tokens
	}
	there := ingest.Remote{To: r.Client, Base: baseFolder(r.c.home), Progress: func(p *ingest.Packed) {
		ticker.set("%s and %s read", plural(p.Documents, "file", "files"), plural(p.Rows, "row", "rows"))
	}}
	return there.Ingest(ctx, req)
}

// budget adds what was typed about the budget of the build.
func (c *cli) budget(s api.Start) api.Start {
	if _, given := c.flags["build.max_tokens"]; given {
		s.MaxTokens = &c.cfg.Build.MaxTokens
	}
	if _, given := c.flags["build.max_cost"]; given {
		s.MaxCost = &c.cfg.Build.MaxCost
	}
	return s
}

// startWithin bounds the start of a build, which Ctrl-C doesn't cut short: what was begun must be known.
const startWithin = time.Minute

func (r *remote) Detach(ctx context.Context, corpus string, s api.Start) (api.Build, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	return r.Start(ctx, corpus, r.c.budget(s))
}

// Run starts a build and follows it. Ctrl-C pauses the build that was begun here, and only detaches from one that ran already.
func (r *remote) Run(ctx context.Context, corpus string, s api.Start) (api.BuildReport, error) {
	b, err := r.Detach(ctx, corpus, s)
	if err != nil {
		return api.BuildReport{}, err
	}
	if !b.Resting {
		if b, err = r.follow(ctx, corpus, b); err != nil {
			return api.BuildReport{}, err
		}
	}
	if b.Problem != nil {
		return api.BuildReport{}, b.Problem.Err()
	}
	return *b.Report, nil
}

// follow shows a build until it rests.
func (r *remote) follow(ctx context.Context, corpus string, b api.Build) (api.Build, error) {
	var mu sync.Mutex
	latest := b
	show := newDisplay(r.c, func(context.Context) (glance, error) {
		mu.Lock()
		defer mu.Unlock()
		return glanceOf(latest.BuildStatus), nil
	})
	if b.Attached {
		r.c.progressNote("build %s runs at %s; following it, Ctrl-C only detaches", b.Build, r.where())
	}
	watchCtx, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	var side sync.WaitGroup
	sideCtx, stopSide := context.WithCancel(watchCtx)
	side.Go(func() { show.run(sideCtx) })
	defer side.Wait()
	defer stopSide()
	asked := make(chan error, 1)
	unhook := context.AfterFunc(ctx, func() {
		if b.Attached {
			stopWatching()
			return
		}
		show.event("stopping: what is in hand finishes first; Ctrl-C again leaves the build to the coordinator")
		within, cancel := context.WithTimeout(watchCtx, startWithin)
		defer cancel()
		if _, err := r.Stop(within, corpus, b.Build, false); err != nil {
			asked <- err
			stopWatching()
		}
	})
	defer unhook()
	var told []string
	rest, err := r.Watch(watchCtx, corpus, b.Build, func(now api.Build) {
		if len(now.Steps) > 0 && (len(now.Steps) < len(told) || len(told) > 0 && now.Steps[0] != told[0]) {
			told = nil // another coordinator has taken over, and tells its own
		}
		for _, step := range now.Steps[min(len(told), len(now.Steps)):] {
			show.event(step)
			told = append(told, step)
		}
		mu.Lock()
		defer mu.Unlock()
		latest = now
	})
	if err == nil || ctx.Err() == nil {
		return rest, err
	}
	select {
	case err := <-asked:
		return rest, err
	default:
		return rest, failf(exitInterrupted, "aerie build attaches again; aerie status looks at it", "detached; build %s goes on at %s", b.Build, r.where())
	}
}

// glanceOf is what the display shows of a build.
func glanceOf(b api.BuildStatus) glance {
	g := glance{build: b.Build, status: b.State, alive: b.Alive, doing: b.Doing, waiting: b.WaitingFor}
	for _, l := range b.Levels {
		g.levels = append(g.levels, glanceLevel{level: l.Level, expected: l.Expected, done: l.Done, running: l.Running, buried: l.Buried})
	}
	return g
}
