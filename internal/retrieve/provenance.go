package retrieve

import (
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// getBatch is how many nodes are read at once on the way down to the leaves.
const getBatch = 1000

// source is where a node's text comes from.
type source struct {
	documents []string  // ascending
	leaves    []tree.ID // ascending, capped
	n         int       // of leaves, not capped
}

// sources walks from each node down to its leaves. It reads level by level and every node once, since soft
// clustering lets one child have several parents. A child that is gone was deleted since the build: what is left of
// the node's sources is reported.
func (r *Retriever) sources(ctx context.Context, corpus string, roots []tree.Node) ([]source, error) {
	known := make(map[tree.ID]*tree.Node, len(roots))
	for i := range roots {
		known[roots[i].ID] = &roots[i]
	}
	for wave := roots; len(wave) > 0; {
		var missing []tree.ID
		for i := range wave {
			for _, child := range wave[i].Children {
				if _, seen := known[child]; !seen {
					known[child] = nil // asked for; stays nil if it is gone
					missing = append(missing, child)
				}
			}
		}
		wave = wave[:0:0]
		for batch := range slices.Chunk(missing, getBatch) {
			nodes, err := r.nodes.Get(ctx, corpus, batch, store.Fields{})
			if err != nil {
				return nil, err
			}
			wave = append(wave, nodes...)
		}
		for i := range wave {
			known[wave[i].ID] = &wave[i]
		}
	}
	out := make([]source, len(roots))
	for i := range roots {
		out[i] = closure(&roots[i], known, r.cfg.SourceIDs)
	}
	return out, nil
}

// closure collects the leaves under a node among the known ones.
func closure(root *tree.Node, known map[tree.ID]*tree.Node, limit int) source {
	var leaves []tree.ID
	documents := map[string]bool{}
	visited := map[tree.ID]bool{root.ID: true}
	for stack := []*tree.Node{root}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.IsLeaf() {
			if n.Died != tree.Deleted {
				leaves = append(leaves, n.ID)
				documents[n.DocumentID] = true
			}
			continue
		}
		for _, id := range n.Children {
			if child := known[id]; child != nil && !visited[id] {
				visited[id] = true
				stack = append(stack, child)
			}
		}
	}
	slices.SortFunc(leaves, tree.ID.Compare)
	s := source{documents: make([]string, 0, len(documents)), n: len(leaves)}
	s.leaves = append([]tree.ID{}, leaves[:min(limit, len(leaves))]...)
	for d := range documents {
		s.documents = append(s.documents, d)
	}
	slices.Sort(s.documents)
	return s
}
