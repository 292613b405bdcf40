package retrieve

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// A question whose answer stands in two places resembles the first passage, and not the second. What the first says points there:
// by names and rare words that hardly another passage has. So the leaves of a pool are linked by the terms that few of them share, a
// walk goes from the first hits over these links (personalized PageRank), and where it gathers is added to the scores.
//
// The constants were chosen on HotpotQA and on medical questions together; docs/retrieval.md has the figures.
const (
	// linkedLeaves is how many leaves share a term that links them at most; more say that the term is common.
	linkedLeaves = 4
	// startLeaves is how many of the first hits the walk starts from, each by exp(startSharpness · distance to the best).
	startLeaves, startSharpness = 30, 20
	// damping and steps are those of the walk.
	damping, steps = 0.85, 5
	// askedLeaves are the first hits whose rarest terms are looked up outside of the pool, askedTerms how many terms that are, and
	// reachedLeaves how many leaves come in by them.
	askedLeaves, askedTerms, reachedLeaves = 8, 40, 60
	// nameWeight is the weight of the walk for each name in the question, most walkWeight: questions that name nothing want one
	// passage, and lose by it.
	nameWeight, walkWeight = 0.6, 0.8
)

// Link is how a leaf was reached: by a term that it shares with a leaf that the walk started from.
type Link struct {
	From tree.ID `json:"from"`
	Term string  `json:"term"`
	// Rank is how much of the walk gathered here, 1 at the leaf where most did.
	Rank float64 `json:"rank"`
}

// hopWeight is the weight of the walk in the scores of this search; 0: none is made.
func (s *search) hopWeight() float64 {
	collapsed := *s.req.Mode == Collapsed || *s.req.Mode == Filter
	fused := *s.req.Alpha > 0 && *s.req.Alpha < 1 && *s.req.Fusion == Relative
	switch {
	case !collapsed || !fused || *s.req.Hops == OneHop || s.filter.MinLevel > 0:
		return 0
	case *s.req.Hops == TwoHops:
		return walkWeight
	}
	return min(walkWeight, nameWeight*float64(names(s.req.Query)))
}

// hop adds to the scores of a pool's leaves what a walk over their links gives them, and the leaves that it reaches outside.
func (s *search) hop(ctx context.Context, p pool) (pool, error) {
	weight := s.hopWeight()
	if weight == 0 {
		return p, nil
	}
	var leaves []*candidate
	for _, c := range p.candidates {
		if c.node.IsLeaf() {
			leaves = append(leaves, c)
		}
	}
	if err := s.load(ctx, leaves); err != nil {
		return p, err
	}
	leaves = slices.DeleteFunc(leaves, func(c *candidate) bool { return !c.loaded })
	if len(leaves) < 3 { // nothing to choose between
		return p, nil
	}
	terms := make([][]string, len(leaves))
	for i, c := range leaves {
		terms[i] = linking(c.node.Text)
	}
	more, err := s.reached(ctx, leaves, terms)
	if err != nil {
		return p, err
	}
	for _, c := range more {
		leaves, terms = append(leaves, c), append(terms, linking(c.node.Text))
	}
	l := linksOf(terms)
	rank := l.walk(start(leaves))
	most := slices.Max(rank)
	for i, c := range leaves {
		share := rank[i] / most
		c.score += weight * math.Sqrt(share)
		if from, term := l.path(i); term >= 0 && i != from {
			c.parts.Link = &Link{From: leaves[from].node.ID, Term: l.terms[term], Rank: share}
		}
	}
	all := append(slices.Clone(p.candidates), more...)
	sortCandidates(all)
	number(all)
	return pool{candidates: all, all: p.all}, nil
}

// reached finds leaves outside the pool that hold the rarest terms of the first hits.
func (s *search) reached(ctx context.Context, leaves []*candidate, terms [][]string) ([]*candidate, error) {
	count := map[string]int{}
	for _, t := range terms {
		for _, term := range t {
			count[term]++
		}
	}
	for _, term := range linking(s.req.Query) {
		count[term] = linkedLeaves // the first hop has asked for it
	}
	var rare []string
	for i := range leaves[:min(askedLeaves, len(leaves))] {
		for _, term := range terms[i] {
			if count[term] < linkedLeaves {
				rare = append(rare, term)
			}
		}
	}
	slices.SortFunc(rare, func(a, b string) int { // names of several words first, then long words, which are rarer
		return cmp.Or(cmp.Compare(strings.Count(b, " "), strings.Count(a, " ")), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	rare = slices.Compact(rare)
	if len(rare) == 0 {
		return nil, nil
	}
	f := s.filter
	f.MaxLevel = 0
	hits, err := s.find(ctx, s.nodes.Keyword, store.Query{
		Filter: f, Text: strings.Join(rare[:min(len(rare), askedTerms)], " "), Limit: reachedLeaves, With: store.Fields{Text: true, Metadata: true},
	})
	if err != nil {
		return nil, err
	}
	known := map[tree.ID]bool{}
	for _, c := range leaves {
		known[c.node.ID] = true
	}
	var more []*candidate
	for _, h := range hits {
		if !known[h.Node.ID] {
			more = append(more, &candidate{node: h.Node, loaded: true})
		}
	}
	return more, nil
}

// linking are the terms of a text that may link it to another, distinct and sorted: its words that mean something, and its names of
// several words.
func linking(text string) []string {
	found := map[string]bool{}
	const meaningful = 0.5 // by word.Weight
	word.Each(text, func(w string) {
		if len(w) > 2 && word.Weight(w) > meaningful {
			found[w] = true
		}
	})
	eachName(text, func(name []string) {
		if len(name) > 1 {
			found[strings.ToLower(strings.Join(name, " "))] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// eachName calls fn with each run of capitalized words of a text. The words are valid during the call.
func eachName(text string, fn func(name []string)) {
	var run []string
	end := func() {
		if len(run) > 0 {
			fn(run)
			run = run[:0]
		}
	}
	for field := range strings.FieldsSeq(text) {
		w := strings.TrimFunc(field, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if capitalized(w) {
			run = append(run, w)
		} else {
			end()
		}
		if strings.ContainsAny(field[len(field)-1:], ".,;:!?)") {
			end()
		}
	}
	end()
}

func capitalized(w string) bool {
	for _, r := range w {
		return unicode.IsUpper(r)
	}
	return false
}

// names counts the names in a question: runs of capitalized words within it, and a first word that has a capital inside.
func names(question string) int {
	n, first := 0, true
	within := false
	for field := range strings.FieldsSeq(question) {
		w := strings.TrimFunc(field, func(r rune) bool { return !unicode.IsLetter(r) })
		name := capitalized(w)
		if first && name {
			name = strings.ContainsFunc(w[1:], unicode.IsUpper)
		}
		first = false
		if name && !within {
			n++
		}
		within = name
	}
	return n
}

// links are the terms that link leaves, by their numbers.
type links struct {
	terms  []string
	weight []float64 // the square of the inverse document frequency in the pool
	of     [][]int32 // terms of each leaf
	hold   [][]int32 // leaves of each term, ascending
}

func linksOf(terms [][]string) *links {
	count := map[string]int{}
	for _, t := range terms {
		for _, term := range t {
			count[term]++
		}
	}
	l := &links{of: make([][]int32, len(terms))}
	number := map[string]int32{}
	for i, t := range terms {
		for _, term := range t {
			if n := count[term]; n < 2 || n > linkedLeaves {
				continue
			}
			id, known := number[term]
			if !known {
				id = int32(len(l.terms))
				number[term] = id
				idf := math.Log(float64(len(terms)) / float64(count[term]))
				l.terms, l.weight, l.hold = append(l.terms, term), append(l.weight, idf*idf), append(l.hold, nil)
			}
			l.of[i], l.hold[id] = append(l.of[i], id), append(l.hold[id], int32(i))
		}
	}
	return l
}

// start is where the walk starts, and begins again: at the first hits, by their scores. It sums to 1.
func start(leaves []*candidate) []float64 {
	at, sum := make([]float64, len(leaves)), 0.0
	for i, c := range leaves[:min(startLeaves, len(leaves))] {
		at[i] = math.Exp(startSharpness * (c.score - leaves[0].score))
		sum += at[i]
	}
	for i := range at {
		at[i] /= sum
	}
	return at
}

// walk is a personalized PageRank, leaf → term → leaf, terms by their weight.
func (l *links) walk(start []float64) []float64 {
	total := make([]float64, len(l.of))
	for i, of := range l.of {
		for _, t := range of {
			total[i] += l.weight[t]
		}
	}
	rank, flow := slices.Clone(start), make([]float64, len(l.terms))
	for range steps {
		clear(flow)
		for i, of := range l.of {
			for _, t := range of {
				flow[t] += rank[i] * l.weight[t] / total[i]
			}
		}
		next := make([]float64, len(rank))
		for t, hold := range l.hold {
			for _, i := range hold {
				next[i] += flow[t] / float64(len(hold))
			}
		}
		for i := range next {
			next[i] = damping*next[i] + (1-damping)*start[i]
		}
		rank = next
	}
	return rank
}

// path is the best link into a leaf: from the first of the leaves that share a term with it, by the weightiest such term; term is -1 if
// there is none.
func (l *links) path(leaf int) (from, term int) {
	from, term = leaf, -1
	for _, t := range l.of[leaf] {
		first := int(l.hold[t][0])
		better := term < 0 || l.weight[t] > l.weight[term] || l.weight[t] == l.weight[term] && len(l.terms[t]) > len(l.terms[term])
		if first < from || first == from && first < leaf && better {
			from, term = first, int(t)
		}
	}
	return from, term
}
