package retrieve

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/aerie-rag/aerie/internal/levels"
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
	for group := range together(roots) {
		known, err := s.descend(ctx, group)
		if err != nil {
			return false, err
		}
		for _, root := range group {
			from := known.closure(root, s.cfg.SourceIDs, staleShare(s.record))
			s.sources[root.ID] = from
			s.memory.keepSource(s.record, root.ID, from)
		}
	}
	for _, c := range cs {
		if s.sources[c.node.ID].stale && !s.stale[c.node.ID] {
			s.stale[c.node.ID], found = true, true
		}
	}
	return found, nil
}

// heldBack reports whether a candidate is no hit, because text below it is gone. One whose text was taken out never is.
func (s *search) heldBack(c *candidate) bool {
	return c.node.Emptied() || s.stale[c.node.ID] && !*s.req.Stale
}

// defaultStale is build.stale of trees of versions that didn't note it.
const defaultStale = 0.20

// staleShare is build.stale as the published tree was built with: the share of the tokens below a summary that may have been replaced
// since for the summary to stay in search.
func staleShare(record *levels.Corpus) float64 {
	if record.Settings == nil {
		return defaultStale
	}
	share, err := strconv.ParseFloat(record.Settings.All["build.stale"], 64)
	if err != nil {
		return defaultStale
	}
	return share
}

// mostTogether is about how many leaves are looked at for several summaries together.
const mostTogether = 50_000

// together groups summaries so that what they share is read once, as long as they aren't large: a summary near the top
// stands on much of the corpus.
func together(roots []*tree.Node) iter.Seq[[]*tree.Node] {
	return func(yield func([]*tree.Node) bool) {
		for len(roots) > 0 {
			n, leaves := 1, roots[0].NLeaves
			for ; n < len(roots) && leaves+roots[n].NLeaves <= mostTogether; n++ {
				leaves += roots[n].NLeaves
			}
			if !yield(roots[:n]) {
				return
			}
			roots = roots[n:]
		}
	}
}

// below is what provenance needs to know of a node under a summary.
type below struct {
	children []tree.ID // of a summary
	document int32     // of a leaf, a place in kin.documents
	leaf     bool
	gone     bool // it doesn't exist, or is a leaf that was deleted
	replaced bool // it is a leaf that a newer version of its document lacks
	tokens   int  // of a leaf
}

// kin are the nodes under some summaries.
type kin struct {
	nodes     map[tree.ID]below
	documents []string
}

// descend reads the nodes under the roots, level by level and every node once, since soft clustering lets one
// child have several parents.
func (s *search) descend(ctx context.Context, roots []*tree.Node) (*kin, error) {
	known := &kin{nodes: map[tree.ID]below{}}
	places := map[string]int32{}
	var wave []tree.ID // what is read next
	want := func(children []tree.ID) {
		for _, child := range children {
			if _, seen := known.nodes[child]; !seen {
				known.nodes[child] = below{gone: true}
				wave = append(wave, child)
			}
		}
	}
	for _, root := range roots {
		known.nodes[root.ID] = below{children: root.Children}
	}
	for _, root := range roots {
		want(root.Children)
	}
	for len(wave) > 0 {
		batch := wave[:min(getBatch, len(wave))]
		wave = wave[len(batch):]
		nodes, err := s.nodes.Get(ctx, s.req.Corpus, batch, store.Fields{})
		if err != nil {
			return nil, err
		}
		for i := range nodes {
			n := &nodes[i]
			if !n.IsLeaf() {
				known.nodes[n.ID] = below{children: n.Children}
				want(n.Children)
				continue
			}
			place, seen := places[n.DocumentID]
			if !seen {
				place = int32(len(known.documents))
				places[n.DocumentID] = place
				known.documents = append(known.documents, n.DocumentID)
			}
			known.nodes[n.ID] = below{
				leaf: true, document: place, tokens: n.Tokens, replaced: n.Superseded(), gone: n.Died == tree.Deleted && !n.Superseded(),
			}
		}
	}
	return known, nil
}

// closure collects the leaves under a summary. It is stale if anything below it was deleted, or if more than a share of the tokens
// below it was replaced.
func (k *kin) closure(root *tree.Node, limit int, share float64) source {
	var from source
	replaced, all := 0, 0
	leaves := []tree.ID{}
	documents := map[int32]bool{}
	visited := map[tree.ID]bool{root.ID: true}
	for stack := []tree.ID{root.ID}; len(stack) > 0; {
		n := k.nodes[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		for _, id := range n.children {
			child := k.nodes[id]
			switch {
			case child.gone:
				from.stale = true
			case visited[id]:
			case child.replaced:
				visited[id] = true
				replaced += child.tokens
				all += child.tokens
			case child.leaf:
				all += child.tokens
				visited[id] = true
				leaves = append(leaves, id)
				documents[child.document] = true
			default:
				visited[id] = true
				stack = append(stack, id)
			}
		}
	}
	from.stale = from.stale || float64(replaced) > share*float64(all)
	slices.SortFunc(leaves, tree.ID.Compare)
	from.n = len(leaves)
	from.leaves = slices.Clone(leaves[:min(limit, len(leaves))])
	from.documents = make([]string, 0, len(documents))
	for d := range documents {
		from.documents = append(from.documents, k.documents[d])
	}
	slices.Sort(from.documents)
	return from
}
