package retrieve

import (
	"cmp"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

// cover knows the terms of a pool and how far they are covered.
type cover struct {
	pool []*candidate
	// weight of each term of the vocabulary, the relevance that covers it, and which candidate does (-1: none).
	weight   []float64
	relevant []float64
	owner    []int32
}

// vocabulary numbers terms in the order in which they were read.
type vocabulary map[string]int32

// newCover reads the terms of the loaded candidates. A term weighs
//
//	(sum of the relevance of the nodes that hold it)^(1/4) · log(1 + pool / number of nodes that hold it):
//
// what several relevant nodes say is more likely to matter, and what every node of the pool says tells nothing. Pool
// statistics do as well as those of the whole corpus here, and cost no index. They are those of the yardstick, so
// that a summary doesn't count as a second witness of what it copied; a term that only others hold has one.
func newCover(pool []*candidate, yard []int, words vocabulary) *cover {
	words.read(pool)
	v := &cover{pool: pool}
	relevant, count := make([]float64, len(words)), make([]float64, len(words))
	for _, i := range yard {
		for _, t := range pool[i].terms {
			relevant[t] += pool[i].parts.Relevance
			count[t]++
		}
	}
	for _, c := range pool {
		for _, t := range c.terms {
			if count[t] == 0 {
				relevant[t], count[t] = c.parts.Relevance, 1
			}
		}
	}
	v.weight, v.relevant, v.owner = make([]float64, len(words)), make([]float64, len(words)), make([]int32, len(words))
	for t, n := range count {
		if n > 0 { // else it is one of another pool
			v.weight[t] = math.Sqrt(math.Sqrt(relevant[t])) * math.Log1p(float64(len(yard))/n)
		}
		v.owner[t] = -1
	}
	return v
}

// read finds the terms of those loaded candidates whose terms aren't known.
func (words vocabulary) read(pool []*candidate) {
	last := make([]int, len(words)) // one more than the candidate that held a term last
	for i, c := range pool {
		if c.terms != nil || !c.loaded {
			continue
		}
		c.terms = make([]int32, 0, len(c.node.Text)/8)
		text := c.node.Text
		if c.node.Context != "" { // the words of both are what it is about
			text = c.node.Context + "\n" + text
		}
		word.Each(text, func(term string) {
			id, known := words[term]
			if !known {
				id = int32(len(words))
				words[term] = id
				last = append(last, 0)
			}
			if last[id] != i+1 {
				last[id] = i + 1
				c.terms = append(c.terms, id)
			}
		})
	}
}

// gain is what a candidate would add.
func (v *cover) gain(i int) float64 {
	sum := 0.0
	for _, t := range v.pool[i].terms {
		if more := v.pool[i].parts.Relevance - v.relevant[t]; more > 0 {
			sum += v.weight[t] * more
		}
	}
	return sum
}

// add chooses a candidate.
func (v *cover) add(i int) {
	for _, t := range v.pool[i].terms {
		if r := v.pool[i].parts.Relevance; r > v.relevant[t] {
			v.relevant[t], v.owner[t] = r, int32(i)
		}
	}
}

// maxCoveredBy bounds how many hits are named that cover a candidate.
const maxCoveredBy = 3

// by names the hits that cover a candidate, those with the largest share of its weight first.
func (v *cover) by(i int) []tree.ID {
	share := map[int32]float64{}
	var owners []int32
	for _, t := range v.pool[i].terms {
		o := v.owner[t]
		if o < 0 {
			continue
		}
		if _, known := share[o]; !known {
			owners = append(owners, o)
		}
		share[o] += v.weight[t]
	}
	slices.SortFunc(owners, func(a, b int32) int {
		return cmp.Or(cmp.Compare(share[b], share[a]), cmp.Compare(a, b))
	})
	var out []tree.ID
	for _, o := range owners[:min(maxCoveredBy, len(owners))] {
		out = append(out, v.pool[o].node.ID)
	}
	return out
}
