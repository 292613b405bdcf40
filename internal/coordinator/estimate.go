package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Dry foresees what summarizing passages would use, without any call: what the journal holds is Reused, the rest
// Calls.
type Dry func(ctx context.Context, passages []mapreduce.Child) (tree.Usage, error)

// Plan computes what a build would do, or with inFull one in full, writes nothing and makes no call. An unfinished build is estimated
// by its own frozen plan. Clusters of a build in full are computed only where it is one, or is asked about: that takes as long as
// the build's own clustering.
func (c *Coordinator) Plan(ctx context.Context, inFull bool) (api.Estimate, error) {
	record, leaves, err := c.corpus(ctx)
	if err != nil {
		return api.Estimate{}, err
	}
	decision := c.cfg.Rule.Decide(record, leaves)
	e := api.Estimate{
		Corpus: c.cfg.Corpus, Levels: []api.LevelEstimate{},
		WouldBuild: decision.Due || decision.Differs, Why: decision.Why,
	}
	if !e.WouldBuild {
		e.Why = withSettings(decision.Why, record, c.cfg.Settings)
	}
	plan, err := c.unfinishedPlan(ctx, &e)
	if err != nil {
		return api.Estimate{}, err
	}
	if plan != nil && !inFull {
		err = c.estimateLevels(ctx, plan, &e)
		c.sum(&e)
		return e, err
	}
	in, err := c.leafRows(ctx)
	if err != nil {
		return api.Estimate{}, err
	}
	defer in.close()
	grown := e
	if c.inFull(record) == "" {
		if err := c.estimateGrowth(ctx, record, in, &grown); err != nil {
			return api.Estimate{}, err
		}
		if !inFull {
			return grown, nil
		}
	}
	if plan, err = c.wouldBePlan(ctx, in); err != nil {
		return api.Estimate{}, err
	}
	if err := c.estimateLevels(ctx, plan, &e); err != nil {
		return api.Estimate{}, err
	}
	c.sum(&e)
	e.Full, e.Incremental = whole(&e), grown.Incremental
	e.Alternatives, err = c.alternatives(ctx, in)
	return e, err
}

// sum adds the levels up.
func (c *Coordinator) sum(e *api.Estimate) {
	e.Usage = tree.Usage{}
	for _, l := range e.Levels {
		e.Usage = e.Usage.Add(l.Usage)
	}
	if c.cfg.Price != nil {
		e.Cost, e.BatchCost = c.cfg.Price.Of(e.Usage), c.cfg.Price.Batched(e.Usage)
	}
}

func whole(e *api.Estimate) *api.EstimateSum {
	out := &api.EstimateSum{Calls: e.Calls, Kept: e.Reused, InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, Cost: e.Cost}
	for _, l := range e.Levels {
		out.Carried += l.Carried
	}
	return out
}

// unfinishedPlan returns the plan of level 1 of a build that would be resumed, or nil.
func (c *Coordinator) unfinishedPlan(ctx context.Context, e *api.Estimate) (*levels.Plan, error) {
	state, err := c.deps.Builds.Load(ctx, c.cfg.Corpus)
	if errors.Is(err, levels.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	if !state.Resumable() || state.Config != c.configDigest() || len(state.Levels) == 0 || c.deps.Plans == nil {
		return nil, nil
	}
	plan, err := c.deps.Plans.Plan(ctx, tree.Level{Corpus: c.cfg.Corpus, Build: state.Build, Level: 1})
	if errors.Is(err, levels.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: build %s: %w", state.Build, err)
	}
	e.WouldBuild, e.Why = true, fmt.Sprintf("build %s is unfinished and goes on", state.Build)
	return plan, nil
}

// wouldBePlan clusters the leaves as a build in full would.
func (c *Coordinator) wouldBePlan(ctx context.Context, in *rows) (*levels.Plan, error) {
	from := newBelow(in, nil, nil)
	groups, stopped, err := c.cluster(ctx, 1, from, nil)
	if err != nil {
		return nil, err
	}
	clusters, err := c.clusters(ctx, 1, from, groups, nil)
	return &levels.Plan{Corpus: c.cfg.Corpus, Level: 1, NodesIn: len(in.ids), Stopped: stopped, Clusters: clusters}, err
}

// estimateLevels fills in level 1 exactly and the levels above by its proportions: each cluster above holds as many
// tokens as one of level 1 does.
func (c *Coordinator) estimateLevels(ctx context.Context, plan *levels.Plan, e *api.Estimate) error {
	e.StoppedBecause = plan.Stopped
	if len(plan.Clusters) == 0 {
		return nil
	}
	first := api.LevelEstimate{Level: 1, NodesIn: plan.NodesIn, Clusters: len(plan.Clusters)}
	for _, cl := range plan.Clusters {
		first.LargestClusterTokens = max(first.LargestClusterTokens, cl.Tokens)
	}
	tasks := slices.Clone(plan.Clusters)
	tasks = slices.DeleteFunc(tasks, func(cl levels.Cluster) bool { return carries(&cl) })
	first.Carried = len(plan.Clusters) - len(tasks)
	for clusters := range slices.Chunk(tasks, page/10) {
		usage, err := c.foresee(ctx, clusters)
		if err != nil {
			return err
		}
		first.Usage = first.Usage.Add(usage)
	}
	e.Levels = append(e.Levels, first)
	below := first
	shrink := float64(first.Clusters) / float64(max(first.NodesIn, 1))
	unchanged := first.Calls == 0
	for level := 2; c.cfg.MaxDepth == 0 || level <= c.cfg.MaxDepth; level++ {
		clusters := c.clustersAbove(below.Clusters, shrink, plan)
		if below.Clusters < c.cfg.MinChunks || clusters < 2 {
			break
		}
		next := api.LevelEstimate{Level: level, NodesIn: below.Clusters, Clusters: clusters, Estimate: true}
		share := float64(clusters) / float64(max(first.Clusters, 1))
		calls := int(math.Round(share * float64(first.Calls+first.Reused)))
		if unchanged {
			next.Reused = calls // the nodes below are those of the tree that is there
		} else {
			next.Calls = max(calls, clusters)
			next.OutputTokens = next.Calls * max(first.OutputTokens/max(first.Calls, 1), 1)
			next.InputTokens = int(share * float64(first.InputTokens) * float64(first.Calls+first.Reused) / float64(max(first.Calls, 1)))
		}
		next.LargestClusterTokens = first.LargestClusterTokens
		e.Levels = append(e.Levels, next)
		below = next
	}
	return nil
}

// clustersAbove estimates how many clusters a level of n nodes has.
func (c *Coordinator) clustersAbove(n int, shrink float64, plan *levels.Plan) int {
	if c.cfg.Rule.Scope == tree.ScopeCorpus {
		return int(math.Round(shrink * float64(n)))
	}
	// One tree for each document: only those with enough nodes grow further.
	perDocument := make(map[string]int)
	for _, cl := range plan.Clusters {
		perDocument[cl.DocumentID]++
	}
	scale := float64(n) / float64(max(len(plan.Clusters), 1))
	clusters := 0
	for _, k := range perDocument {
		nodes := int(math.Round(scale * float64(k)))
		if nodes >= c.cfg.MinChunks {
			clusters += max(2, int(math.Round(shrink*float64(nodes))))
		}
	}
	return clusters
}

// foresee adds up what the clusters would use. One whose node exists uses nothing.
func (c *Coordinator) foresee(ctx context.Context, clusters []levels.Cluster) (tree.Usage, error) {
	var total tree.Usage
	ids := make([]tree.ID, len(clusters))
	for i := range clusters {
		ids[i] = clusters[i].ID
	}
	nodes, err := c.deps.Store.Get(ctx, c.cfg.Corpus, ids, store.Fields{})
	if err != nil {
		return total, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
	}
	exists := make(map[tree.ID]bool, len(nodes))
	for i := range nodes {
		exists[nodes[i].ID] = !nodes[i].Emptied()
	}
	texts, err := c.textsOf(ctx, clusters, exists)
	if err != nil {
		return total, err
	}
	for _, cl := range clusters {
		if exists[cl.ID] {
			total.Reused++
			continue
		}
		usage, err := c.deps.Dry(ctx, passagesOf(&cl, texts))
		if err != nil {
			return total, fmt.Errorf("coordinator: cluster %s: %w", cl.ID, err)
		}
		total = total.Add(usage)
	}
	return total, nil
}

func passagesOf(cl *levels.Cluster, texts map[tree.ID]mapreduce.Child) []mapreduce.Child {
	passages := make([]mapreduce.Child, 0, len(cl.Children))
	for _, id := range cl.Children {
		if child, ok := texts[id]; ok { // else it was deleted meanwhile
			passages = append(passages, child)
		}
	}
	return passages
}

// textsOf reads the children of the clusters that don't exist yet, many at a time.
func (c *Coordinator) textsOf(ctx context.Context, clusters []levels.Cluster, exists map[tree.ID]bool) (map[tree.ID]mapreduce.Child, error) {
	texts := make(map[tree.ID]mapreduce.Child)
	var ids []tree.ID
	for _, cl := range clusters {
		if exists[cl.ID] {
			continue
		}
		for _, id := range cl.Children {
			if _, known := texts[id]; !known {
				texts[id] = mapreduce.Child{}
				ids = append(ids, id)
			}
		}
	}
	clear(texts)
	for chunk := range slices.Chunk(ids, page) {
		nodes, err := c.deps.Store.Get(ctx, c.cfg.Corpus, chunk, store.Fields{Text: true})
		if err != nil {
			return nil, fmt.Errorf("coordinator: corpus %s: %w", c.cfg.Corpus, err)
		}
		for i := range nodes {
			texts[nodes[i].ID] = mapreduce.Child{Text: nodes[i].Text, Tokens: nodes[i].Tokens}
		}
	}
	return texts, nil
}
