package retrieve

import (
	"math"
)

// contextSpan is how far apart, in chunks, leaves of a document still speak for one another.
const contextSpan = 2

// relevance turns the scores of a sorted pool into relevances: 1 for the best, and for another
//
//	exp(sharpness · (score - best) / (4 · spread)),
//
// where spread is the standard deviation of the first width scores. Measured in spreads, the distance means the same
// whatever the scale of the scores: cosines of one embedder lie between 0.3 and 0.6, of another between 0.8 and
// 0.9.
//
// Before that, a leaf's score is raised by context times the height of its best neighbor in the document, two chunks
// away at most, above the last of the first width: what an answer needs often stands beside what the question
// resembles.
//
// best, spread and last are those of the yardstick. The relevance of a summary is at most 1, times weight.
func relevance(pool []*candidate, yard []int, width int, req *Request, weight float64) {
	if len(yard) == 0 {
		return
	}
	yard = yard[:min(width, len(yard))]
	lifted := inContext(pool, pool[yard[len(yard)-1]].score, *req.Context)
	measured := make([]float64, len(yard))
	best := math.Inf(-1)
	for i, at := range yard {
		measured[i] = lifted[at]
		best = max(best, lifted[at])
	}
	spread := deviation(measured)
	for i, c := range pool {
		c.parts.Relevance = 1
		if spread > 0 {
			c.parts.Relevance = min(1, math.Exp(*req.Sharpness*(lifted[i]-best)/(4*spread)))
		}
		if !c.node.IsLeaf() {
			c.parts.Relevance *= weight
		}
	}
}

// yardstick returns the places in a pool of the nodes that all are measured by: all nodes, or with leavesFirst the
// leaves if they are at least half of them. Then leaves are as relevant as they would be without any summary.
func yardstick(pool []*candidate, leavesFirst bool) []int {
	all, leaves := make([]int, len(pool)), make([]int, 0, len(pool))
	for i, c := range pool {
		all[i] = i
		if c.node.IsLeaf() {
			leaves = append(leaves, i)
		}
	}
	if leavesFirst && 2*len(leaves) >= len(pool) {
		return leaves
	}
	return all
}

// inContext returns the scores of a pool, those of leaves raised by their neighbors' height above low.
func inContext(pool []*candidate, low, context float64) []float64 {
	type place struct {
		document string
		chunk    int
	}
	at := make(map[place]float64, len(pool))
	for _, c := range pool {
		if c.node.IsLeaf() {
			at[place{c.node.DocumentID, c.node.ChunkIndex}] = c.score
		}
	}
	lifted := make([]float64, len(pool))
	for i, c := range pool {
		height := 0.0
		for d := -contextSpan; c.node.IsLeaf() && d <= contextSpan; d++ {
			if score, known := at[place{c.node.DocumentID, c.node.ChunkIndex + d}]; known && d != 0 {
				height = max(height, score-low)
			}
		}
		lifted[i] = c.score + context*height
	}
	return lifted
}

// deviation returns the standard deviation of values, of which there is at least one.
func deviation(values []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)))
}
