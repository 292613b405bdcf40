package retrieve

import (
	"cmp"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
)

// candidate is a node that may become a hit, with what is known about it so far.
type candidate struct {
	node  tree.Node
	score float64
	found float64 // the score before a boost
	parts Parts
	// rank is the place by score before a boost, from 0.
	rank int
	// loaded: text and metadata were read.
	loaded bool
	terms  []int32 // distinct, in order of the text, by their numbers in the search's vocabulary; nil until they are read

	fate      Fate
	coveredBy []tree.ID
}

// sortCandidates orders by score, best first, ties by id: the order of every pool and of the hits.
func sortCandidates(cs []*candidate) {
	slices.SortFunc(cs, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), a.node.ID.Compare(b.node.ID))
	})
}

// number notes the order that sorted candidates have, and their scores.
func number(cs []*candidate) {
	for i, c := range cs {
		c.rank, c.found = i, c.score
	}
}

// tokens returns the sum over candidates.
func tokens(cs []*candidate) int {
	sum := 0
	for _, c := range cs {
		sum += c.node.Tokens
	}
	return sum
}

func ids(cs []*candidate) []tree.ID {
	out := make([]tree.ID, len(cs))
	for i, c := range cs {
		out[i] = c.node.ID
	}
	return out
}
