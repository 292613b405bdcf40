package coordinator

import (
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// carry writes the carried nodes of a plan that don't exist yet, with the texts and vectors of the summaries whose places they
// take. It makes no call, may be repeated, and comes before the level's tasks are queued: what is carried is done because it
// exists, and never a task. If a summary is lost whose text is wanted, so is the plan; also one that was carried over before and is
// kept: whoever made it would write another text under its id.
func (r *run) carry(plan *levels.Plan) error {
	var carried []*levels.Cluster
	for i := range plan.Clusters {
		if c := &plan.Clusters[i]; !c.Author.IsZero() {
			carried = append(carried, c)
		}
	}
	for clusters := range slices.Chunk(carried, page) {
		if err := r.carryPage(plan, clusters); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) carryPage(plan *levels.Plan, clusters []*levels.Cluster) error {
	get := func(ids []tree.ID, with store.Fields) (map[tree.ID]*tree.Node, error) {
		nodes, err := r.deps.Store.Get(r.ctx, r.cfg.Corpus, ids, with)
		if err != nil {
			return nil, fmt.Errorf("coordinator: carrying level %d: %w", plan.Level, err)
		}
		found := make(map[tree.ID]*tree.Node, len(nodes))
		for i := range nodes {
			found[nodes[i].ID] = &nodes[i]
		}
		return found, nil
	}
	ids := make([]tree.ID, len(clusters))
	for i, c := range clusters {
		ids[i] = c.ID
	}
	there, err := get(ids, store.Fields{})
	if err != nil {
		return err
	}
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(c *levels.Cluster) bool { return there[c.ID] != nil && !there[c.ID].Emptied() })
	if len(clusters) == 0 {
		return nil
	}
	slots := make([]tree.ID, len(clusters))
	for i, c := range clusters {
		slots[i] = c.Slot
	}
	before, err := get(slots, store.Fields{Text: true, Vector: true})
	if err != nil {
		return err
	}
	nodes := make([]tree.Node, len(clusters))
	for i, c := range clusters {
		old := before[c.Slot]
		if old == nil || old.Emptied() {
			r.past = nil // it is read again
			return &planLost{plan.Level}
		}
		nodes[i] = *old
		n := &nodes[i]
		n.ID, n.Author, n.NLeaves, n.Unseen, n.Formed = c.ID, c.Author, c.NLeaves, c.Unseen, c.Formed
		n.Children = slices.SortedFunc(slices.Values(c.Children), tree.ID.Compare)
		n.Born, n.Died = plan.Generation, tree.Alive
	}
	if err := r.nodes.Put(r.ctx, r.cfg.Corpus, nodes); err != nil {
		return fmt.Errorf("coordinator: carrying level %d: %w", plan.Level, err)
	}
	return nil
}

// carries reports whether a cluster's summary is a new one with a text of the tree before.
func carries(c *levels.Cluster) bool { return !c.Author.IsZero() && c.ID != c.Slot }
