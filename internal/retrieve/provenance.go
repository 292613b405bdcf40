package retrieve

import (
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// getBatch is how many nodes are read by id at once.
const getBatch = 1000

// source is where a node's text comes from. It is shared and never altered.
type source struct {
	documents []string  // ascending
	leaves    []tree.ID // ascending, capped
	n         int       // of leaves, not capped
	stale     bool      // some of what the summary was made from is gone
}

// trace finds the sources of the summaries among candidates, and reports whether it found stale ones that weren't
// known as such.
func (s *search) trace(ctx context.Context, cs []*candidate) (found bool, err error) {
	var roots []*tree.Node
	for _, c := range cs {
		if c.node.IsLeaf() {
			continue
		}
		if _, known := s.sources[c.node.ID]; known {
			continue
		}
		if from, known := s.memory.source(s.record, c.node.ID); known {
			s.sources[c.node.ID] = from
			continue
		}
		roots = append(roots, &c.node)
	}
	known, err := s.descend(ctx, roots)
	if err != nil {
		return false, err
	}
	for _, root := range roots {
		from := closure(root, known, s.cfg.SourceIDs)
		s.sources[root.ID] = from
		s.memory.keepSource(s.record, root.ID, from)
	}
	for _, c := range cs {
		if s.sources[c.node.ID].stale && !s.stale[c.node.ID] {
			s.stale[c.node.ID], found = true, true
		}
	}
	return found, nil
}

// descend reads the nodes under the roots, level by level and every node once, since soft clustering lets one
// child have several parents. A node that is gone maps to nil.
func (s *search) descend(ctx context.Context, roots []*tree.Node) (map[tree.ID]*tree.Node, error) {
	known := make(map[tree.ID]*tree.Node, len(roots))
	for _, root := range roots {
		known[root.ID] = root
	}
	for wave := roots; len(wave) > 0; {
		var missing []tree.ID
		for _, n := range wave {
			for _, child := range n.Children {
				if _, seen := known[child]; !seen {
					known[child] = nil
					missing = append(missing, child)
				}
			}
		}
		wave = nil
		for batch := range slices.Chunk(missing, getBatch) {
			nodes, err := s.nodes.Get(ctx, s.req.Corpus, batch, store.Fields{})
			if err != nil {
				return nil, err
			}
			for i := range nodes {
				known[nodes[i].ID] = &nodes[i]
				wave = append(wave, &nodes[i])
			}
		}
	}
	return known, nil
}

// closure collects the leaves under a node among the known ones.
func closure(root *tree.Node, known map[tree.ID]*tree.Node, limit int) source {
	var from source
	leaves := []tree.ID{}
	documents := map[string]bool{}
	visited := map[tree.ID]bool{root.ID: true}
	for stack := []*tree.Node{root}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.IsLeaf() {
			leaves = append(leaves, n.ID)
			documents[n.DocumentID] = true
			continue
		}
		for _, id := range n.Children {
			child := known[id]
			if child == nil || child.IsLeaf() && child.Died == tree.Deleted {
				from.stale = true
			} else if !visited[id] {
				visited[id] = true
				stack = append(stack, child)
			}
		}
	}
	slices.SortFunc(leaves, tree.ID.Compare)
	from.n = len(leaves)
	from.leaves = slices.Clone(leaves[:min(limit, len(leaves))])
	from.documents = make([]string, 0, len(documents))
	for d := range documents {
		from.documents = append(from.documents, d)
	}
	slices.Sort(from.documents)
	return from
}
