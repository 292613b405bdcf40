package retrieve

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// search answers a request at one generation, at one budget after the other.
type search struct {
	*Retriever
	req    *Request
	vector []float32
	record *levels.Corpus
	// filter is what hits must be.
	filter store.Filter
	// open are the leaves that are searched where the others are hidden; nil where none is.
	open *openLeaves
	// sources of the summaries that were chosen at some point, and which of them are stale.
	sources map[tree.ID]source
	stale   map[tree.ID]bool
	// pools are what was fetched, by how much was wanted; a traversal's is at 0.
	pools map[int]pool
	// beaten are the nodes that a traversal had at hand and others of their level beat.
	beaten     []*candidate
	vocabulary vocabulary
}

// pool is what a search chooses from, in order of score before any boost.
type pool struct {
	candidates []*candidate
	all        bool // there are no others
}

func (r *Retriever) newSearch(ctx context.Context, req *Request, vector []float32, record *levels.Corpus) (*search, error) {
	open, err := r.open(ctx, record)
	if err != nil {
		return nil, fmt.Errorf("retrieve: corpus %s: %w", record.Name, err)
	}
	return &search{
		Retriever: r, req: req, vector: vector, record: record, filter: filter(req, record), open: open,
		sources: map[tree.ID]source{}, pools: map[int]pool{}, vocabulary: vocabulary{},
	}, nil
}

// run finds, packs and describes.
func (s *search) run(ctx context.Context) (Result, error) {
	s.stale = map[tree.ID]bool{} // what is known of an earlier budget would change what this one is measured by
	pool, chosen, err := s.chooseFor(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{
		Query: s.req.Query, Corpus: s.req.Corpus, Generation: s.record.Generation,
		Mode: *s.req.Mode, Pack: *s.req.Pack, Hits: make([]Hit, 0, len(chosen)), Notes: s.notes(),
	}
	for _, c := range chosen {
		result.Hits = append(result.Hits, s.hit(c))
		result.Tokens += c.node.Tokens
	}
	result.Notes = append(result.Notes, s.whyLittle(pool)...)
	if *s.req.Explain {
		result.Explain, err = s.explain(ctx, pool)
	}
	return result, err
}

// choose returns the candidates in order of score, and the hits among them. It doubles what is fetched as long as
// the hits leave room for a node of mean size.
func (s *search) choose(ctx context.Context) (found, chosen []*candidate, err error) {
	if *s.req.Mode == Traversal {
		p, err := s.pool(0, func() (p pool, err error) {
			p.candidates, err = s.traverse(ctx)
			return p, err
		})
		if err != nil {
			return nil, nil, err
		}
		chosen, err = s.packFresh(ctx, p.candidates, len(p.candidates))
		return p.candidates, chosen, err
	}
	for limit := s.firstLimit(); ; limit *= 2 {
		wanted := limit
		switch {
		case *s.req.Mode == Boost:
			wanted = int(math.Ceil(float64(limit) * *s.req.Candidates))
		case s.leavesFirst():
			wanted += limit / 2 // for the summaries among limit leaves
		}
		p, err := s.pool(wanted, func() (pool, error) { return s.fetch(ctx, wanted) })
		if err != nil {
			return nil, nil, err
		}
		s.boost(p.candidates)
		chosen, err := s.packFresh(ctx, p.candidates, max(limit, *s.req.Pool))
		if err != nil || p.all || !s.hasRoom(p.candidates, chosen) {
			return p.candidates, chosen, err
		}
	}
}

// pool returns what was fetched under a number before, or fetches it now.
func (s *search) pool(wanted int, fetch func() (pool, error)) (pool, error) {
	p, known := s.pools[wanted]
	if !known {
		var err error
		if p, err = fetch(); err != nil {
			return pool{}, err
		}
		s.pools[wanted] = p
	}
	for _, c := range p.candidates {
		c.score, c.parts.Boost, c.parts.Relevance = c.found, 0, 0
	}
	p.candidates = slices.Clone(p.candidates) // a boost changes the order
	return p, nil
}

// firstLimit is how many nodes are wanted to choose from.
func (s *search) firstLimit() int {
	if *s.req.Mode == Boost && *s.req.TopK > 0 {
		return *s.req.TopK // what is fetched beyond is Candidates' to say
	}
	return max(*s.req.Pool, *s.req.TopK)
}

// hasRoom reports whether more candidates could fill the budget better.
func (s *search) hasRoom(pool, chosen []*candidate) bool {
	if *s.req.TopK > 0 && len(chosen) >= *s.req.TopK || len(pool) == 0 {
		return false
	}
	return *s.req.Budget == 0 || *s.req.Budget-tokens(chosen) >= max(1, tokens(pool)/len(pool))
}

// boost lifts the summaries of a pool, and sorts it again.
func (s *search) boost(pool []*candidate) {
	if *s.req.Mode != Boost {
		return
	}
	for _, c := range pool {
		if c.node.IsLeaf() {
			continue
		}
		c.parts.Boost = *s.req.Boost
		if c.score < 0 {
			c.score /= *s.req.Boost
		} else {
			c.score *= *s.req.Boost
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
			if s.heldBack(c) {
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
		if !again || *s.req.Stale {
			return slices.DeleteFunc(chosen, func(c *candidate) bool { return !c.loaded }), nil
		}
	}
}

func (s *search) pack(ctx context.Context, pool []*candidate, limit int) ([]*candidate, error) {
	if *s.req.Pack == Similarity {
		return packSimilarity(pool, *s.req.Budget, *s.req.TopK), nil
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
		weight = *s.req.SummaryWeight
	}
	yard := yardstick(pool, s.leavesFirst())
	relevance(pool, yard, *s.req.Pool, s.req, weight)
	return packCoverage(newCover(pool, yard, s.vocabulary), *s.req.Budget, *s.req.TopK), nil
}

// leavesFirst reports whether leaves have the first claim where coverage packs: in the modes that don't set out to
// give summaries more room.
func (s *search) leavesFirst() bool { return *s.req.Mode != Blend && *s.req.Mode != Boost }

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
			c.node.Text, c.node.Context, c.node.Metadata, c.loaded = n.Text, n.Context, n.Metadata, true
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
		ID: c.node.ID, Level: c.node.Level, Score: c.score, Parts: c.parts, Tokens: c.node.Tokens, Text: c.node.Text, Context: c.node.Context,
		DocumentIDs: slices.Clone(from.documents), SourceIDs: slices.Clone(from.leaves), NSources: from.n,
		ChunkIndex: c.node.ChunkIndex, Metadata: c.node.Metadata,
	}
}
