package retrieve

import (
	"context"
	"math"
	"regexp"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
)

// broadShare is the share of the budget that upper levels have for themselves in a query about the whole.
const broadShare = 0.5

// broadQuery matches what asks about all there is and names nothing in it.
var broadQuery = regexp.MustCompile(`(?i)^\W*(?:(?:please|can you|could you|hi|hello)[, ]+)*(?:` +
	`what(?:['’]?s| is| are| was| does| do| did) ` + wholeCorpus + ` (?:all |mainly |mostly |generally |basically )*(?:about|covers?|contains?|deals? with|discuss(?:es)?|talks? about)` + overall +
	`|what(?:['’]?s| is) (?:in|inside) ` + wholeCorpus + overall +
	`|what (?:can|could|will) (?:i|one|you|we) (?:find|learn|ask)(?: about)? (?:here|in ` + wholeCorpus + `|from ` + wholeCorpus + `)` +
	`|(?:what|which)(?: are| is)?(?: the| some)?(?: (?:main|major|key|most important|central|overall|common|general|different|principal|broad))* (?:topics?|themes?|subjects?|subject matter|points?|takeaways?|areas|categories|gist)` +
	`(?: (?:are|is|does|do)(?: (?:there|covered|discussed|addressed|treated|dealt with|mentioned))?)?(?: (?:(?:of|in|across|from|by) )?` + wholeCorpus + `| there)?(?: (?:cover|contain|discuss|address|deal with))?` + overall +
	`|(?:give|show|write|provide|make)(?: me| us)? (?:an? |the )?(?:\w+ )?(?:overview|summary|outline|synopsis|abstract)(?: (?:of|over|for) ` + wholeCorpus + `)?` + overall +
	`|(?:summari[sz]e|outline|describe|sum up) ` + wholeCorpus + overall +
	`|(?:an? |the )?(?:overview|summary|tl;?dr|(?:main |key )?(?:topics|themes)|table of contents)(?: (?:of|over) ` + wholeCorpus + `)?` + overall +
	`|tell me (?:about|what is in) ` + wholeCorpus + overall +
	`|这(?:些|个|份)?(?:语料|文档|资料|文件|书|内容)?(?:主要|大致|总体)?(?:上)?(?:是)?(?:讲|说|谈|关于|涉及|包含)(?:的是|了)?(?:什么|哪些)(?:内容|主题)?(?:的)?` +
	`)\W*$`)

const (
	// wholeCorpus is what somebody calls all there is.
	wholeCorpus = `(?:(?:all (?:of )?)?(?:this|these|the|your|my|our|that|those)(?: (?:whole|entire|full|complete))? (?:corpus|corpora|collection|documents?|docs|documentation|data ?sets?|data|texts?|files?|books?|library|knowledge base|site|wiki|material|archive|content|notes|papers?)` +
		`|all (?:of )?(?:this|it|these|them)|this|these|it|everything|all|here)`
	overall = `(?: (?:overall|in general|generally|as a whole|on the whole|mainly|mostly|in short|in brief|briefly|altogether|please))*`
)

// Broad reports whether a query asks about the whole: for its topics, a summary, what it is about.
func Broad(query string) bool { return broadQuery.MatchString(query) }

// overviewShare is the share of the room that upper levels have for themselves.
func (s *search) overviewShare() float64 {
	switch {
	case *s.req.Mode == Traversal || *s.req.Mode == Filter || s.req.MaxLevel != nil && *s.req.MaxLevel < 1 || s.filter.OnMetadata():
		return 0
	case s.req.Overview != nil:
		return *s.req.Overview
	case s.req.MinLevel == nil && s.req.MaxLevel == nil && Broad(s.req.Query):
		return broadShare
	}
	return 0
}

// chooseFor chooses as the request says: with room for the upper levels first, and with summaries in the place of hits.
func (s *search) chooseFor(ctx context.Context) (found, chosen []*candidate, err error) {
	upper, err := s.overview(ctx, s.overviewShare())
	if err != nil {
		return nil, nil, err
	}
	budget, topK := *s.req.Budget, *s.req.TopK
	if len(upper) > 0 {
		restore := s.narrow(budget-tokens(upper), topK-len(upper))
		defer restore()
	}
	if (budget == 0 || *s.req.Budget > 0) && (topK == 0 || *s.req.TopK > 0) {
		if found, chosen, err = s.choose(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range upper {
		if i := slices.IndexFunc(chosen, func(o *candidate) bool { return o.node.ID == c.node.ID }); i >= 0 {
			continue
		}
		chosen = append(chosen, c)
		if i := slices.IndexFunc(found, func(o *candidate) bool { return o.node.ID == c.node.ID }); i >= 0 {
			found[i] = c
		} else {
			found = append(found, c)
		}
	}
	if *s.req.Parents {
		if chosen, err = s.merge(ctx, found, chosen); err != nil {
			return nil, nil, err
		}
	}
	sortCandidates(found)
	sortCandidates(chosen)
	return found, chosen, nil
}

// narrow sets the bounds of a request for a part of the work, and returns how to set them back.
func (s *search) narrow(budget, topK int) (restore func()) {
	before := *s.req
	narrowed := before
	if *before.Budget > 0 {
		narrowed.Budget = new(max(budget, 0))
	}
	if *before.TopK > 0 {
		narrowed.TopK = new(max(topK, 0))
	}
	s.req = &narrowed
	return func() { s.req = &before }
}

// overview chooses summaries, from the top of the tree down, for a share of the room. Within a level the best come first.
func (s *search) overview(ctx context.Context, share float64) ([]*candidate, error) {
	if share == 0 {
		return nil, nil
	}
	budget, topK := int(share*float64(*s.req.Budget)), int(math.Ceil(share*float64(*s.req.TopK)))
	if *s.req.Budget == 0 && *s.req.TopK == 0 {
		return nil, nil // there is room for all
	}
	filter := s.filter
	filter.MinLevel = max(1, filter.MinLevel)
	upper := *s
	upper.filter, upper.pools = filter, map[int]pool{}
	found, err := upper.fetch(ctx, max(*s.req.Pool, topK))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found.candidates, func(a, b *candidate) int { return b.node.Level - a.node.Level })
	for {
		var fresh []*candidate
		for _, c := range found.candidates {
			if !s.heldBack(c) {
				fresh = append(fresh, c)
			}
		}
		chosen := packSimilarity(fresh, budget, topK)
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

// merge puts summaries in the place of hits that are at least half of their children, as long as the budget is kept. What
// it frees is filled with the next best.
func (s *search) merge(ctx context.Context, found, chosen []*candidate) ([]*candidate, error) {
	parents, err := s.parents(ctx, found)
	if err != nil {
		return nil, err
	}
	for merged := true; merged; { // a merge may make another possible, one level up
		merged = false
		hits := map[tree.ID]*candidate{}
		for _, c := range chosen {
			hits[c.node.ID] = c
		}
		for _, p := range parents {
			var replaced []*candidate
			for _, child := range p.node.Children {
				if c := hits[child]; c != nil {
					replaced = append(replaced, c)
				}
			}
			room := *s.req.Budget == 0 || tokens(chosen)-tokens(replaced)+p.node.Tokens <= *s.req.Budget
			if hits[p.node.ID] != nil || len(replaced) < 2 || 2*len(replaced) < len(p.node.Children) || !room {
				continue
			}
			fresh, err := s.fresh(ctx, p)
			if err != nil {
				return nil, err
			}
			if !fresh {
				continue
			}
			for _, c := range replaced {
				c.fate, c.coveredBy = Covered, []tree.ID{p.node.ID}
				p.score = max(p.score, c.score)
				delete(hits, c.node.ID)
			}
			p.fate, hits[p.node.ID], merged = Chosen, p, true
			chosen = slices.DeleteFunc(chosen, func(c *candidate) bool { return c.fate == Covered })
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// parents returns the summaries that may take the place of hits: those that were found, and those nearest to the query,
// lowest level first.
func (s *search) parents(ctx context.Context, found []*candidate) ([]*candidate, error) {
	filter := s.filter
	filter.MinLevel = max(1, filter.MinLevel)
	upper := *s
	upper.filter = filter
	more, err := upper.fetch(ctx, *s.req.Pool)
	if err != nil {
		return nil, err
	}
	known := map[tree.ID]bool{}
	var out []*candidate
	for _, c := range slices.Concat(found, more.candidates) {
		if !c.node.IsLeaf() && !known[c.node.ID] {
			known[c.node.ID] = true
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *candidate) int { return a.node.Level - b.node.Level })
	return out, nil
}

// fresh reports whether a summary may be a hit, and reads it.
func (s *search) fresh(ctx context.Context, c *candidate) (bool, error) {
	one := []*candidate{c}
	if err := s.load(ctx, one); err != nil || !c.loaded {
		return false, err
	}
	if _, err := s.trace(ctx, one); err != nil {
		return false, err
	}
	return !s.heldBack(c), nil
}
