package coordinator

import (
	"context"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
)

// Alternative is another way to cluster, whose price a plan shows beside the configured one.
type Alternative struct {
	// Settings are what a person would set for it.
	Settings   string
	Clustering clustering.Config
}

// alternativesUpTo is how many leaves are clustered once more for each alternative: a few seconds. Shares of calls are alike in larger
// corpora, so a sample of one tells as much.
const alternativesUpTo = 20_000

// alternatives tells what a build in full would take with the same leaves clustered otherwise.
func (c *Coordinator) alternatives(ctx context.Context, in *rows) ([]api.Alternative, error) {
	if len(in.ids) > alternativesUpTo {
		return nil, nil
	}
	var all []api.Alternative
	for _, other := range c.cfg.Alternatives {
		cfg := c.cfg
		cfg.Clustering = other.Clustering
		d := &Coordinator{cfg: cfg, deps: c.deps}
		plan, err := d.wouldBePlan(ctx, in)
		if err != nil {
			return nil, err
		}
		var e api.Estimate
		if err := d.estimateLevels(ctx, plan, &e); err != nil {
			return nil, err
		}
		if len(e.Levels) == 0 {
			continue
		}
		d.sum(&e)
		all = append(all, api.Alternative{
			Settings: other.Settings, Clusters: e.Levels[0].Clusters, Calls: e.Calls, InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, Cost: e.Cost,
		})
	}
	return all, nil
}
