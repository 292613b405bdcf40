package main

import (
	"context"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/ingest"
)

// place is where corpora are: the home, or a coordinator. Commands work on one and don't know which.
type place interface {
	documents
	builds
	api.Trees
	api.Queries
	api.Statuses
	evaluations
	// where names it for people.
	where() string
	close()
}

// documents brings documents in and takes them out; see api.Documents.
type documents interface {
	IngestFiles(ctx context.Context, req ingest.Request) (api.IngestReport, error)
	Documents(ctx context.Context, req api.DocumentsRequest) (api.DocumentPage, error)
	Delete(ctx context.Context, corpus string, ids []string) (api.IngestReport, error)
	Forget(ctx context.Context, corpus string, ids []string) (api.Forgotten, error)
	DeleteCorpus(ctx context.Context, corpus string) (api.IngestReport, error)
}

// builds plans and builds.
type builds interface {
	Plan(ctx context.Context, corpus string, full bool) (api.Estimate, error)
	// History returns what is kept of all builds.
	History(ctx context.Context, corpus string) (api.PastBuilds, error)
	// Run builds until the build rests, and shows how far it is.
	Run(ctx context.Context, corpus string, s api.Start) (api.BuildReport, error)
	// Detach starts a build and leaves it to the coordinator.
	Detach(ctx context.Context, corpus string, s api.Start) (api.Build, error)
	Rollback(ctx context.Context, corpus string, forward bool) (api.Rolled, error)
	// Stop is that of api.Builds.
	Stop(ctx context.Context, corpus, build string, cancel bool) (api.Build, error)
	Collect(ctx context.Context, corpus string) (api.Collected, error)
}

// evaluations is what aerie eval wants to know beside the answers.
type evaluations interface {
	// TreeHash is that of evaluate.TreeHash.
	TreeHash(ctx context.Context, corpus string) (api.TreeHash, error)
	// queryVectors returns what embeds questions once for all arms; nil where that is the place's own affair.
	queryVectors() (queryVectors, error)
}

// queryVectors makes the vectors of questions.
type queryVectors interface {
	Name() string
	EmbedQuery(ctx context.Context, query string) ([]float32, error)
}

// openPlace loads the configuration and opens the place that it names; a home is made if need be. also lists the keys that a
// coordinator takes from this command: with any other key as a flag, the command would not do what was typed.
func (c *cli) openPlace(also ...string) (place, error) {
	if err := c.load(); err != nil {
		return nil, err
	}
	if c.cfg.Server.URL != "" {
		return c.openRemote(also)
	}
	h, err := c.open()
	if err != nil {
		return nil, err
	}
	return h, nil
}

// openReading is openPlace for commands that only read, and for which somebody waits: servers that they don't need may be away.
func (c *cli) openReading() (place, error) {
	if err := c.load(); err != nil {
		return nil, err
	}
	if c.cfg.Server.URL != "" {
		return c.openRemote(nil)
	}
	if !c.homeExists() {
		return nil, failf(exitFailed, "aerie ingest PATH brings text in; --home names another folder", "there is no corpus in %s yet", c.home)
	}
	h, err := c.openWith(baseFolder(c.home), wire.OpenReader, false)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// openExisting is openPlace for commands that have nothing to do where nothing is.
func (c *cli) openExisting(also ...string) (place, error) {
	if err := c.load(); err != nil {
		return nil, err
	}
	if c.cfg.Server.URL == "" && !c.homeExists() {
		return nil, failf(exitFailed, "aerie ingest PATH brings text in; --home names another folder", "there is no corpus in %s yet", c.home)
	}
	return c.openPlace(also...)
}

// namedCorpus is the corpus that was asked for by name, "" if none was.
func (c *cli) namedCorpus() string {
	if c.origins.Of("corpus").Source == config.FromDefault {
		return ""
	}
	return c.cfg.Corpus
}
