package coordinator

import (
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// lineage knows the leaves under the nodes of the newest planned level, so that each summary can say how many
// distinct leaves it stands on.
type lineage struct {
	level  int
	leaves map[tree.ID][]int32 // of each node of level, ascending
}

// newLineage starts at the leaves.
func newLineage(leaves []tree.ID, numbers *leafNumbers) *lineage {
	l := &lineage{leaves: make(map[tree.ID][]int32, len(leaves))}
	of := make([]int32, len(leaves))
	for i, id := range leaves {
		of[i] = numbers.number(id)
		l.leaves[id] = of[i : i+1 : i+1]
	}
	return l
}

// lineageOf climbs through the plans of all levels built so far, level 1 first.
func lineageOf(plans []*levels.Plan, numbers *leafNumbers) *lineage {
	l := newLineage(leavesOf(plans[0]), numbers)
	for _, p := range plans {
		l = l.climb(p)
	}
	return l
}

// leavesOf returns the distinct children of a plan, in the order in which they come.
func leavesOf(plan *levels.Plan) []tree.ID {
	var leaves []tree.ID
	seen := make(map[tree.ID]bool)
	for _, c := range plan.Clusters {
		for _, child := range c.Children {
			if !seen[child] {
				seen[child] = true
				leaves = append(leaves, child)
			}
		}
	}
	return leaves
}

// leafNumbers names leaves by small numbers, those of now and those of the tree before alike, and knows their tokens.
type leafNumbers struct {
	of     map[tree.ID]int32
	ids    []tree.ID // by number
	tokens []int     // by number; 0 for a leaf that is gone
}

func newLeafNumbers() *leafNumbers { return &leafNumbers{of: make(map[tree.ID]int32)} }

func (l *leafNumbers) number(id tree.ID) int32 {
	n, ok := l.of[id]
	if !ok {
		n = int32(len(l.tokens))
		l.of[id] = n
		l.ids = append(l.ids, id)
		l.tokens = append(l.tokens, 0)
	}
	return n
}

// know sets the tokens of leaves.
func (l *leafNumbers) know(ids []tree.ID, tokens []int) {
	for i, id := range ids {
		l.tokens[l.number(id)] = tokens[i]
	}
}

func (l *leafNumbers) sum(leaves []int32) int {
	t := 0
	for _, n := range leaves {
		t += l.tokens[n]
	}
	return t
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
