package retrieve

import (
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// traverse walks from the roots down and returns the winners of every level, sorted by score.
//
// A root is a node without a parent: the nodes of the top level, and also the top of each smaller tree where every
// document has its own, documents too short for a tree, and leaves that are newer than the build. A root joins the
// walk at its own level, so that none of these is out of reach.
//
// Filters bind the winners and not the way: the summaries of a corpus mix documents, and the leaves of one
// document are found below them.
func (s *search) traverse(ctx context.Context) ([]*candidate, error) {
	shape, err := s.shape(ctx, s.record)
	if err != nil {
		return nil, err
	}
	var winners, beam []*candidate
	for level := shape.top; level >= s.filter.MinLevel; level-- {
		hand, err := s.handAt(ctx, shape, level, beam)
		if err != nil {
			return nil, err
		}
		sortCandidates(hand)
		beam = hand[:min(*s.req.PerLevel, len(hand))]
		won := 0
		for _, c := range hand {
			switch {
			case !s.filter.Selects(&c.node):
			case won < *s.req.PerLevel:
				won++
				winners = append(winners, c)
			default:
				s.beaten = append(s.beaten, c)
			}
		}
	}
	sortCandidates(winners)
	number(winners)
	return winners, nil
}

// handAt returns the nodes of a level that a traversal has at hand: the best roots, and the children of the beam.
func (s *search) handAt(ctx context.Context, shape *shape, level int, beam []*candidate) ([]*candidate, error) {
	way := store.AnyLevel().VisibleAt(s.record.Generation)
	way.MinLevel, way.MaxLevel = level, level
	hits := s.filter
	hits.MinLevel, hits.MaxLevel = level, level
	filters := []store.Filter{way}
	if len(hits.Documents) > 0 || hits.OnMetadata() {
		filters = append(filters, hits)
	}
	var hand []*candidate
	at := map[tree.ID]bool{}
	take := func(n tree.Node) {
		if at[n.ID] || !n.VisibleAt(s.record.Generation) || s.hides(&n) {
			return
		}
		at[n.ID] = true
		c := &candidate{node: n, score: dot(n.Vector, s.vector)}
		c.node.Vector = nil
		c.parts.Similarity = &c.score
		hand = append(hand, c)
	}
	for _, f := range filters {
		roots, err := s.rootsAt(ctx, shape, f)
		if err != nil {
			return nil, err
		}
		for _, n := range roots {
			take(n)
		}
	}
	var children []tree.ID
	for _, parent := range beam {
		children = append(children, parent.node.Children...)
	}
	slices.SortFunc(children, tree.ID.Compare)
	for batch := range slices.Chunk(slices.Compact(children), getBatch) {
		nodes, err := s.nodes.Get(ctx, s.req.Corpus, batch, store.Fields{Vector: true, Metadata: true})
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			take(n)
		}
	}
	return hand, nil
}

// rootsAt returns the PerLevel best roots that a filter of one level selects. It looks at the nearest nodes of the
// level, twice as many each time, until there are enough roots among them.
func (s *search) rootsAt(ctx context.Context, shape *shape, f store.Filter) ([]tree.Node, error) {
	if shape.parented == nil && f.MinLevel < shape.top {
		return nil, nil
	}
	q := store.Query{Filter: f, Vector: s.vector, Limit: *s.req.PerLevel, With: store.Fields{Vector: true, Metadata: true}}
	for {
		found, err := s.find(ctx, s.nodes.Search, q)
		if err != nil {
			return nil, err
		}
		var roots []tree.Node
		for _, h := range found {
			if _, has := shape.parented[h.Node.ID]; !has && len(roots) < *s.req.PerLevel {
				roots = append(roots, h.Node)
			}
		}
		if len(roots) == *s.req.PerLevel || len(found) < q.Limit {
			return roots, nil
		}
		q.Limit *= 2
	}
}

// shape is what a traversal must know about the tree of a generation.
type shape struct {
	top int // the highest level
	// parented holds the nodes that have a parent. It is nil where the roots are the nodes of the top level.
	parented map[tree.ID]struct{}
}

// shape reads the shape of the tree that a record speaks of, or remembers it.
func (r *Retriever) shape(ctx context.Context, record *levels.Corpus) (*shape, error) {
	whole := unchanged(record) && record.Settings != nil && record.Settings.Scope == tree.ScopeCorpus
	if known := r.memory.shape(record, whole); known != nil {
		return known, nil
	}
	shape := &shape{}
	summaries := store.Summaries().VisibleAt(record.Generation)
	if whole {
		for {
			summaries.MinLevel, summaries.MaxLevel = shape.top+1, shape.top+1
			n, err := r.nodes.Count(ctx, record.Name, summaries)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				break
			}
			shape.top++
		}
	} else {
		shape.parented = map[tree.ID]struct{}{}
		err := r.nodes.Each(ctx, record.Name, summaries, store.Fields{}, func(n *tree.Node) error {
			shape.top = max(shape.top, n.Level)
			for _, child := range n.Children {
				shape.parented[child] = struct{}{}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	r.memory.keepShape(record, shape)
	return shape, nil
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
