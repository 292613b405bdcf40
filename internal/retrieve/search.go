package retrieve

import (
	"context"
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// search is one run of a request at one generation.
type search struct {
	*Retriever
	req    *Request
	vector []float32
	record *levels.Corpus
	// filter is what hits must be.
	filter store.Filter
	// sources of the summaries that were chosen at some point, and which of them are stale.
	sources map[tree.ID]source
	stale   map[tree.ID]bool
	// beaten are the nodes that a traversal had at hand and others of their level beat.
	beaten []*candidate
}

func (r *Retriever) newSearch(req *Request, vector []float32, record *levels.Corpus) (*search, error) {
	f, err := filter(req, record)
	if err != nil {
		return nil, err
	}
	return &search{
		Retriever: r, req: req, vector: vector, record: record, filter: f,
		sources: map[tree.ID]source{}, stale: map[tree.ID]bool{},
	}, nil
}

// run finds, packs and describes.
func (s *search) run(ctx context.Context) (Result, error) {
	pool, chosen, err := s.choose(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{
		Query: s.req.Query, Corpus: s.req.Corpus, Generation: s.record.Generation,
		Mode: s.req.Mode, Pack: s.req.Pack, Hits: make([]Hit, 0, len(chosen)), Notes: s.notes(),
	}
	for _, c := range chosen {
		result.Hits = append(result.Hits, s.hit(c))
		result.Tokens += c.node.Tokens
	}
	if s.req.Explain {
		result.Explain, err = s.explain(ctx, pool)
	}
	return result, err
}

// choose returns the candidates in order of score, and the hits among them. It doubles what is fetched as long as
// the hits leave room for a node of mean size.
func (s *search) choose(ctx context.Context) (pool, chosen []*candidate, err error) {
	if s.req.Mode == Traversal {
		if pool, err = s.traverse(ctx); err != nil {
			return nil, nil, err
		}
		chosen, err = s.packFresh(ctx, pool, len(pool))
		return pool, chosen, err
	}
	for limit := s.firstLimit(); ; limit *= 2 {
		wanted := limit
		switch {
		case s.req.Mode == Boost:
			wanted *= s.req.Candidates
		case s.leavesFirst():
			wanted += limit / 2 // for the summaries among limit leaves
		}
		pool, all, err := s.fetch(ctx, wanted)
		if err != nil {
			return nil, nil, err
		}
		s.boost(pool)
		chosen, err := s.packFresh(ctx, pool, max(limit, s.req.Pool))
		if err != nil || all || !s.hasRoom(pool, chosen) {
			return pool, chosen, err
		}
	}
}

// firstLimit is how many nodes are wanted to choose from.
func (s *search) firstLimit() int {
	if s.req.Mode == Boost && s.req.TopK > 0 {
		return s.req.TopK // what is fetched beyond is Candidates' to say
	}
	return max(s.req.Pool, s.req.TopK)
}

// hasRoom reports whether more candidates could fill the budget better.
func (s *search) hasRoom(pool, chosen []*candidate) bool {
	if s.req.TopK > 0 && len(chosen) >= s.req.TopK || len(pool) == 0 {
		return false
	}
	return s.req.Budget == 0 || s.req.Budget-tokens(chosen) >= max(1, tokens(pool)/len(pool))
}

// boost lifts the summaries of a pool, and sorts it again.
func (s *search) boost(pool []*candidate) {
	if s.req.Mode != Boost {
		return
	}
	for _, c := range pool {
		if c.node.IsLeaf() {
			continue
		}
		c.parts.Boost = s.req.Boost
		if c.score < 0 {
			c.score /= s.req.Boost
		} else {
			c.score *= s.req.Boost
		}
	}
	sortCandidates(pool)
}

// packFresh packs the pool, of which coverage sees the first limit (of leaves, where these come first), and packs again without the summaries that
// prove stale, until none does.
func (s *search) packFresh(ctx context.Context, pool []*candidate, limit int) ([]*candidate, error) {
	for {
		fresh := make([]*candidate, 0, len(pool))
		for _, c := range pool {
			c.fate, c.coveredBy, c.parts.Gain = Outside, nil, 0
			if s.stale[c.node.ID] && !s.req.Stale {
				c.fate = Stale
				continue
			}
			fresh = append(fresh, c)
		}
		chosen, err := s.pack(ctx, fresh, limit)
		if err != nil {
			return nil, err
		}
		if err := s.load(ctx, chosen); err != nil {
			return nil, err
		}
		again, err := s.trace(ctx, chosen)
		if err != nil {
			return nil, err
		}
		if !again || s.req.Stale {
			return slices.DeleteFunc(chosen, func(c *candidate) bool { return !c.loaded }), nil
		}
	}
}

func (s *search) pack(ctx context.Context, pool []*candidate, limit int) ([]*candidate, error) {
	if s.req.Pack == Similarity {
		return packSimilarity(pool, s.req.Budget, s.req.TopK), nil
	}
	seen := 0
	for i, c := range pool {
		if c.node.IsLeaf() || !s.leavesFirst() {
			seen++
		}
		if seen > limit {
			pool = pool[:i]
			break
		}
	}
	if err := s.load(ctx, pool); err != nil {
		return nil, err
	}
	weight := 1.0
	if s.leavesFirst() {
		weight = s.req.SummaryWeight
	}
	yard := yardstick(pool, s.leavesFirst())
	relevance(pool, yard, s.req.Pool, s.req, weight)
	return packCoverage(pool, yard, s.req.Budget, s.req.TopK), nil
}

// leavesFirst reports whether leaves have the first claim where coverage packs: in the modes that don't set out to
// give summaries more room.
func (s *search) leavesFirst() bool { return s.req.Mode != Blend && s.req.Mode != Boost }

// load reads texts and metadata. A node that is gone stays unloaded.
func (s *search) load(ctx context.Context, cs []*candidate) error {
	wanted := make(map[tree.ID]*candidate, len(cs))
	var missing []*candidate
	for _, c := range cs {
		if !c.loaded {
			wanted[c.node.ID] = c
			missing = append(missing, c)
		}
	}
	for batch := range slices.Chunk(ids(missing), getBatch) {
		nodes, err := s.nodes.Get(ctx, s.req.Corpus, batch, store.Fields{Text: true, Metadata: true})
		if err != nil {
			return err
		}
		for _, n := range nodes {
			c := wanted[n.ID]
			c.node.Text, c.node.Metadata, c.loaded = n.Text, n.Metadata, true
		}
	}
	return nil
}

// hit describes a chosen candidate.
func (s *search) hit(c *candidate) Hit {
	from := s.sources[c.node.ID]
	if c.node.IsLeaf() {
		from = source{documents: []string{c.node.DocumentID}, leaves: []tree.ID{c.node.ID}, n: 1}
	}
	return Hit{
		ID: c.node.ID, Level: c.node.Level, Score: c.score, Parts: c.parts, Tokens: c.node.Tokens, Text: c.node.Text,
		DocumentIDs: slices.Clone(from.documents), SourceIDs: slices.Clone(from.leaves), NSources: from.n,
		ChunkIndex: c.node.ChunkIndex, Metadata: c.node.Metadata,
	}
}

// notes are the sentences of Result.Notes.
func (s *search) notes() []string {
	var notes []string
	if n := len(s.stale); n > 0 {
		what := "left out until the next build"
		if s.req.Stale {
			what = "returned all the same, as asked"
		}
		notes = append(notes, fmt.Sprintf("%d of the best summaries rest on text that was deleted or replaced since the build: %s", n, what))
	}
	if len(s.filter.Metadata) > 0 {
		notes = append(notes, "only leaves were searched, since summaries have no metadata")
	}
	return notes
}
