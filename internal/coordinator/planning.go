package coordinator

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// page is how many nodes are read from the store at once.
const page = 1000

// rows are the nodes of one level in canonical order: leaves by (document id, chunk index), summaries by the order of
// their first children. Clustering sees rows in this order and no other, so that a tree doesn't depend on the order
// in which documents came.
type rows struct {
	ids       []tree.ID
	tokens    []int
	documents []string // the document of the tree that the node belongs to; for scope corpus all the same
	vectors   *matrix
}

func (r *rows) close() {
	if r.vectors != nil {
		r.vectors.close()
	}
}

// planLevel clusters the level below and makes the plan durable.
func (r *run) planLevel(level int) (levels.Event, error) {
	defer r.setDoing("")
	var made *levels.Plan
	var clustering time.Duration
	r.deps.Observer.Planning(r.of(level))
	defer func() { r.deps.Observer.Planned(r.of(level), made, clustering) }()
	r.setDoing(fmt.Sprintf("reading the nodes of level %d", level-1))
	began := time.Now()
	var baseline levels.Baseline
	in, err := func() (*rows, error) {
		if level > 1 {
			if below, err := r.plan(level - 1); err != nil {
				return nil, err
			} else if err := r.repair(below); err != nil {
				return nil, err
			}
			return r.summaryRows(level - 1)
		}
		// Read before the leaves: what comes later counts as growth, and at worst once too often.
		record, _, err := r.corpus(r.ctx)
		if err != nil {
			return nil, err
		}
		baseline.Changes, baseline.Deletions, baseline.At = record.Changes, record.Deletions, began.Unix()
		return r.leafRows(r.ctx)
	}()
	if err != nil {
		return lostOr(err)
	}
	defer in.close()
	from, err := r.below(level, in)
	if err != nil {
		return lostOr(err)
	}
	if level == 1 {
		baseline.Leaves = len(in.ids)
	}
	groups, stopped, err := r.cluster(r.ctx, level, from, r.past)
	clustering = time.Since(began)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return levels.NoLevel{Level: level, Why: stopped, Baseline: baseline}, nil
	}
	plan, err := r.freeze(level, from, groups)
	if err != nil {
		return nil, err
	}
	if err := r.fenced(r.ctx, func(ctx context.Context) error { return r.deps.Plans.PutPlan(ctx, plan) }); err != nil {
		return nil, fmt.Errorf("coordinator: plan of level %d: %w", level, err)
	}
	made = plan
	r.lineage = r.lineage.climb(plan)
	planned := levels.LevelPlanned{
		Level: level, NodesIn: plan.NodesIn, Total: len(plan.Clusters), Digest: plan.Digest, Baseline: baseline,
	}
	for _, c := range plan.Clusters {
		planned.Largest = max(planned.Largest, c.Tokens)
		planned.Tokens += c.Tokens
		planned.Members += len(c.Children)
		planned.Widest = max(planned.Widest, len(c.Children))
		switch {
		case r.past == nil:
		case r.past.keeps(&c):
			planned.Kept++
		case carries(&c):
			planned.Carried++
		}
	}
	if level == 1 {
		planned.Coherence = coherence(in, groups)
	}
	return planned, nil
}

// lostOr is the event of a lost plan, if that is what an error says.
func lostOr(err error) (levels.Event, error) {
	var lost *planLost
	if errors.As(err, &lost) {
		return levels.PlanLost{Level: lost.level}, nil
	}
	return nil, err
}

// below readies what a level is planned from: its rows, the leaves under them, and the tree before if the build grows.
func (r *run) below(level int, in *rows) (*below, error) {
	past, err := r.grows()
	if err != nil {
		return nil, err
	}
	if level == 1 {
		numbers := r.numbers()
		numbers.know(in.ids, in.tokens)
		r.lineage = newLineage(in.ids, numbers)
		return newBelow(in, nil, r.lineage.leaves), nil
	}
	if past == nil {
		return newBelow(in, nil, r.lineage.leaves), nil
	}
	plan, err := r.plan(level - 1)
	if err != nil {
		return nil, err
	}
	return newBelow(in, plan, r.lineage.leaves), nil
}

// numbers are those of the tree before, if the build grows from one.
func (r *run) numbers() *leafNumbers {
	if r.past != nil {
		return r.past.leaves
	}
	return newLeafNumbers()
}

// leafRows reads every leaf of the corpus.
func (c *Coordinator) leafRows(ctx context.Context) (*rows, error) {
	filter := store.Leaves().VisibleAt(0) // those that are not deleted
	n, err := c.deps.Store.Count(ctx, c.cfg.Corpus, filter)
	if err != nil {
		return nil, fmt.Errorf("coordinator: reading leaves: %w", err)
	}
	in := &rows{}
	err = c.deps.Store.Each(ctx, c.cfg.Corpus, filter, store.Fields{Vector: true}, func(node *tree.Node) error {
		if in.vectors == nil {
			if in.vectors, err = newMatrix(n, len(node.Vector), c.cfg.TempDir); err != nil {
				return err
			}
		}
		return in.add(node, c.treeOf(node.DocumentID))
	})
	if err == nil {
		err = in.seal()
	}
	if err != nil {
		in.close()
		return nil, fmt.Errorf("coordinator: reading leaves: %w", err)
	}
	return in, nil
}

// treeOf returns the document id under which the tree over a leaf's document is filed.
func (c *Coordinator) treeOf(document string) string {
	if c.cfg.Rule.Scope == tree.ScopeCorpus {
		return tree.CorpusTree
	}
	return document
}

func (in *rows) add(node *tree.Node, document string) error {
	if len(node.Vector) != in.vectors.d {
		return fmt.Errorf("node %s has a vector of %d values, the level has %d", node.ID, len(node.Vector), in.vectors.d)
	}
	in.ids = append(in.ids, node.ID)
	in.tokens = append(in.tokens, node.Tokens)
	in.documents = append(in.documents, document)
	return in.vectors.add(node.Vector)
}

func (in *rows) seal() error {
	if in.vectors == nil {
		return nil // no rows
	}
	return in.vectors.seal()
}

// planLost says that the plan of a level is gone.
type planLost struct{ level int }

func (e *planLost) Error() string {
	return fmt.Sprintf("coordinator: the plan of level %d is gone", e.level)
}

// plan reads the plan of a level that was planned before.
func (r *run) plan(level int) (*levels.Plan, error) {
	p, err := r.deps.Plans.Plan(r.ctx, r.of(level))
	if errors.Is(err, levels.ErrNotFound) {
		return nil, &planLost{level}
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: plan of level %d: %w", level, err)
	}
	if want := r.state.At(level).Digest; p.Digest != want {
		return nil, &planLost{level}
	}
	return p, nil
}

// summaryRows reads the nodes that a sealed level has made.
func (r *run) summaryRows(level int) (*rows, error) {
	plan, err := r.plan(level)
	if err != nil {
		return nil, err
	}
	if r.lineage == nil || r.lineage.level != level {
		if err := r.climbTo(level); err != nil {
			return nil, err
		}
	}
	in := &rows{}
	for clusters := range slices.Chunk(plan.Clusters, page) {
		ids := make([]tree.ID, len(clusters))
		documents := make(map[tree.ID]string, len(clusters))
		for i, c := range clusters {
			ids[i], documents[c.ID] = c.ID, c.DocumentID
		}
		nodes, err := r.deps.Store.Get(r.ctx, r.cfg.Corpus, ids, store.Fields{Vector: true})
		if err != nil {
			in.close()
			return nil, fmt.Errorf("coordinator: reading level %d: %w", level, err)
		}
		for i := range nodes {
			if in.vectors == nil {
				if in.vectors, err = newMatrix(len(plan.Clusters), len(nodes[i].Vector), r.cfg.TempDir); err != nil {
					return nil, err
				}
			}
			if err := in.add(&nodes[i], documents[nodes[i].ID]); err != nil {
				in.close()
				return nil, fmt.Errorf("coordinator: reading level %d: %w", level, err)
			}
		}
	}
	if err := in.seal(); err != nil {
		in.close()
		return nil, fmt.Errorf("coordinator: reading level %d: %w", level, err)
	}
	return in, nil
}

// climbTo rebuilds the lineage from the plans, after a restart.
func (r *run) climbTo(level int) error {
	plans := make([]*levels.Plan, level)
	for l := range plans {
		var err error
		if plans[l], err = r.plan(l + 1); err != nil {
			return err
		}
	}
	past, err := r.grows()
	if err != nil {
		return err
	}
	if past != nil {
		// Those that were deleted since still have their tokens: they go when the build has ended.
		for ids := range slices.Chunk(leavesOf(plans[0]), page) {
			nodes, err := r.deps.Store.Get(r.ctx, r.cfg.Corpus, ids, store.Fields{})
			if err != nil {
				return fmt.Errorf("coordinator: reading leaves: %w", err)
			}
			for i := range nodes {
				past.leaves.know([]tree.ID{nodes[i].ID}, []int{nodes[i].Tokens})
			}
		}
	}
	r.lineage = lineageOf(plans, r.numbers())
	return nil
}

// cluster groups the rows of a level: all together, or each document's by themselves; into the slots of the tree before
// where there is one.
func (c *Coordinator) cluster(ctx context.Context, level int, from *below, p *past) (groups []grown, stopped string, err error) {
	in := from.rows
	old := map[string][]*slot{}
	if p != nil {
		for _, s := range p.levels[level] {
			old[s.document] = append(old[s.document], s)
		}
	}
	span := func(ctx context.Context, lo, hi int, progress func(string, int, int)) ([]grown, string, error) {
		return c.growSpan(ctx, p, from, old, level, lo, hi, progress)
	}
	if c.cfg.Rule.Scope == tree.ScopeCorpus {
		return span(ctx, 0, len(in.ids), c.progress(level))
	}
	spans := documentSpans(in.documents)
	results := make([][]grown, len(spans))
	reasons := make([]string, len(spans))
	var finished atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers())
	for i, at := range spans {
		group.Go(func() (err error) {
			results[i], reasons[i], err = span(ctx, at[0], at[1], nil)
			c.setDoing(fmt.Sprintf("clustering level %d: document %d of %d", level, finished.Add(1), len(spans)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, "", err
	}
	for _, r := range results {
		groups = append(groups, r...)
	}
	switch {
	case len(groups) > 0:
	case len(spans) == 1:
		stopped = reasons[0]
	case len(spans) == 0:
		stopped = "there are no nodes"
	default:
		stopped = fmt.Sprintf("no document's tree can be usefully split any more; the first: %s", reasons[0])
	}
	return groups, stopped, nil
}

// clusterSpan clusters the rows lo to hi as one tree.
func (c *Coordinator) clusterSpan(ctx context.Context, level int, in *rows, lo, hi int, progress func(string, int, int)) ([][]int, string, error) {
	n := hi - lo
	if n < c.cfg.MinChunks {
		return nil, fmt.Sprintf("%d nodes, build.min_chunks is %d: on every level, fewer get no summaries above them", n, c.cfg.MinChunks), nil
	}
	cfg := c.cfg.Clustering
	cfg.Seed = mixSeed(cfg.Seed, level, in.documents[lo])
	cfg.Progress = progress
	result, err := c.deps.Cluster(ctx, cfg, clustering.Input{
		X: in.vectors.rows(lo, hi), N: n, D: in.vectors.d, Tokens: in.tokens[lo:hi],
	})
	if err != nil {
		var row *clustering.RowError
		if errors.As(err, &row) {
			return nil, "", fmt.Errorf("coordinator: level %d: node %s: %w", level-1, in.ids[lo+row.Row], err)
		}
		return nil, "", fmt.Errorf("coordinator: clustering level %d: %w", level, err)
	}
	for _, rows := range result.Clusters {
		for i := range rows {
			rows[i] += lo
		}
	}
	return result.Clusters, result.Stopped, nil
}

func (c *Coordinator) progress(level int) func(string, int, int) {
	return func(stage string, done, total int) {
		c.setDoing(fmt.Sprintf("clustering level %d: %s %d/%d", level, stage, done, total))
	}
}

// documentSpans returns the half-open row ranges of equal documents, which stand together in canonical order.
func documentSpans(documents []string) [][2]int {
	var spans [][2]int
	for lo := 0; lo < len(documents); {
		hi := lo + 1
		for hi < len(documents) && documents[hi] == documents[lo] {
			hi++
		}
		spans = append(spans, [2]int{lo, hi})
		lo = hi
	}
	return spans
}

// mixSeed derives the seed of one clustering from the configured one, so that a tree doesn't depend on what else is
// built beside it.
func mixSeed(seed uint64, level int, document string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d/%s", seed, level, document)
	return h.Sum64()
}

// freeze turns groups of rows into a sealed plan. Groups with the same children are one cluster.
func (r *run) freeze(level int, from *below, groups []grown) (*levels.Plan, error) {
	plan := &levels.Plan{
		Corpus: r.cfg.Corpus, Build: r.state.Build, Level: level, Recipe: r.cfg.Recipe,
		Generation: r.state.Generation, Scope: r.cfg.Rule.Scope, NodesIn: len(from.rows.ids),
	}
	var err error
	if plan.Clusters, err = r.clusters(r.ctx, level, from, groups, r.past); err != nil {
		return nil, err
	}
	for i := range plan.Clusters {
		plan.Clusters[i].NLeaves = len(r.lineage.under(plan.Clusters[i].Children))
	}
	plan.Seal()
	return plan, nil
}

// clusters are the tasks of a plan, without the numbers of leaves.
func (c *Coordinator) clusters(ctx context.Context, level int, from *below, groups []grown, p *past) ([]levels.Cluster, error) {
	in := from.rows
	seen := make(map[tree.ID]bool, len(groups))
	all := make([]levels.Cluster, 0, len(groups))
	for _, group := range groups {
		cluster := levels.Cluster{
			DocumentID: in.documents[group.rows[0]], Children: make([]tree.ID, len(group.rows)),
			Slot: group.slot, From: group.from, Formed: group.formed,
		}
		for i, row := range group.rows {
			cluster.Children[i] = in.ids[row]
			cluster.Tokens += in.tokens[row]
		}
		cluster.ID = tree.SummaryID(c.cfg.Corpus, cluster.DocumentID, level, c.cfg.Recipe, cluster.Children)
		all = append(all, cluster)
	}
	if p != nil {
		clean, err := c.clean(ctx, p, from, all)
		if err != nil {
			return nil, fmt.Errorf("coordinator: level %d: %w", level, err)
		}
		for i := range all {
			p.decide(&all[i], from, level, clean)
		}
	}
	return slices.DeleteFunc(all, func(cluster levels.Cluster) bool {
		twice := seen[cluster.ID]
		seen[cluster.ID] = true
		return twice
	}), nil
}
