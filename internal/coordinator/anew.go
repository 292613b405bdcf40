package coordinator

import (
	"context"
	"fmt"
	"math"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// anew adds up what a build in full would cost, from the levels of a tree that grows: as many clusters, as large, each made. It takes
// what a token costs from some clusters of level 1.
type anew struct {
	same  bool // as the tree that is there: every summary exists
	kept  int
	usage tree.Usage

	calls, input, output float64 // for a cluster; for a token below it; for a call
}

// sampled is how many clusters of level 1 tell what a token costs.
const sampled = 16

// sameAsFull reports whether a build in full would make the published tree again.
func (c *Coordinator) sameAsFull(record *levels.Corpus) bool {
	return record.Full != nil && record.Full.Generation == record.Generation && record.Full.Changes == record.Changes &&
		record.Settings != nil && len(Changes(record.Settings.All, c.cfg.Settings)) == 0
}

// add takes the next level in.
func (a *anew) add(ctx context.Context, c *Coordinator, plan *levels.Plan) error {
	if plan.Level == 1 && !a.same {
		if err := a.sample(ctx, c, plan.Clusters); err != nil {
			return err
		}
	}
	if a.same {
		a.kept += len(plan.Clusters)
		return nil
	}
	tokens := 0
	for _, cl := range plan.Clusters {
		tokens += cl.Tokens
	}
	calls := int(math.Round(a.calls * float64(len(plan.Clusters))))
	a.usage = a.usage.Add(tree.Usage{
		Calls: calls, InputTokens: int(a.input * float64(tokens)), OutputTokens: int(a.output * float64(calls)),
	})
	return nil
}

// sample foresees some clusters as if none of them existed.
func (a *anew) sample(ctx context.Context, c *Coordinator, clusters []levels.Cluster) error {
	a.calls, a.input = 1, 1
	var some []levels.Cluster
	for i := range min(sampled, len(clusters)) {
		some = append(some, clusters[i*len(clusters)/min(sampled, len(clusters))])
	}
	texts, err := c.textsOf(ctx, some, nil)
	if err != nil {
		return err
	}
	seen, tokens := 0, 0
	var total tree.Usage
	for _, cl := range some {
		usage, err := c.deps.Dry(ctx, passagesOf(&cl, texts))
		if err != nil {
			return fmt.Errorf("coordinator: cluster %s: %w", cl.ID, err)
		}
		if usage.Calls > 0 && usage.Reused == 0 { // else the journal has answers, which cost nothing
			seen, tokens, total = seen+1, tokens+cl.Tokens, total.Add(usage)
		}
	}
	if seen > 0 && tokens > 0 {
		a.calls = float64(total.Calls) / float64(seen)
		a.input = float64(total.InputTokens) / float64(tokens)
		a.output = float64(total.OutputTokens) / float64(total.Calls)
	}
	return nil
}

func (a *anew) sum(price *Price) *api.EstimateSum {
	out := &api.EstimateSum{
		Calls: a.usage.Calls, Kept: a.kept, InputTokens: a.usage.InputTokens, OutputTokens: a.usage.OutputTokens, Estimate: true,
	}
	if price != nil {
		out.Cost = price.Of(a.usage)
	}
	return out
}
