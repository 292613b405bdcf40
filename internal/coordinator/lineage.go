package coordinator

import (
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// lineage knows the leaves under the nodes of the newest planned level, so that each summary can say how many
// distinct leaves it stands on. Leaves are numbered in the order in which level 1 meets them.
type lineage struct {
	level  int
	leaves map[tree.ID][]int32 // of each node of level, ascending
}

// newLineage starts at the leaves.
func newLineage(leaves []tree.ID) *lineage {
	l := &lineage{leaves: make(map[tree.ID][]int32, len(leaves))}
	numbers := make([]int32, len(leaves))
	for i, id := range leaves {
		numbers[i] = int32(i)
		l.leaves[id] = numbers[i : i+1 : i+1]
	}
	return l
}

// lineageOf climbs through the plans of all levels built so far, level 1 first.
func lineageOf(plans []*levels.Plan) *lineage {
	var leaves []tree.ID
	seen := make(map[tree.ID]bool)
	for _, c := range plans[0].Clusters {
		for _, child := range c.Children {
			if !seen[child] {
				seen[child] = true
				leaves = append(leaves, child)
			}
		}
	}
	l := newLineage(leaves)
	for _, p := range plans {
		l = l.climb(p)
	}
	return l
}

// under returns the distinct leaves under a set of nodes, ascending.
func (l *lineage) under(children []tree.ID) []int32 {
	var all []int32
	for _, c := range children {
		all = append(all, l.leaves[c]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// climb returns the lineage of the nodes that a plan makes from those of l.
func (l *lineage) climb(p *levels.Plan) *lineage {
	next := &lineage{level: p.Level, leaves: make(map[tree.ID][]int32, len(p.Clusters))}
	for _, c := range p.Clusters {
		next.leaves[c.ID] = l.under(c.Children)
	}
	return next
}
