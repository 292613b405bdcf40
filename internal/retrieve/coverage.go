package retrieve

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
)

// contextSpan is how far apart, in chunks, leaves of a document still speak for one another.
const contextSpan = 2

// relevance turns the scores of a sorted pool into relevances: 1 for the best, and for another
//
//	exp(sharpness · (score - best) / (4 · spread)),
//
// where spread is the standard deviation of the first width scores. Measured in spreads, the distance means the same
// whatever the scale of the scores: cosines of one embedder lie between 0.3 and 0.6, of another between 0.8 and
// 0.9. Summaries are worth weight times that.
//
// Before that, a leaf's score is raised by context times the height of its best neighbor in the document, two chunks
// away at most, above the last of the first width: what an answer needs often stands beside what the question
// resembles.
func relevance(pool []*candidate, width int, req *Request, weight float64) {
	if len(pool) == 0 {
		return
	}
	width = min(width, len(pool))
	lifted := inContext(pool, pool[width-1].score, req.Context)
	best, spread := slices.Max(lifted), deviation(lifted[:width])
	for i, c := range pool {
		c.parts.Relevance = 1
		if spread > 0 {
			c.parts.Relevance = math.Exp(req.Sharpness * (lifted[i] - best) / (4 * spread))
		}
		if !c.node.IsLeaf() {
			c.parts.Relevance *= weight
		}
	}
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

// packCoverage chooses the candidates that together say most of what is relevant. With a set S chosen, a term t is
// covered by the largest relevance of the nodes of S that hold it, and the value of S is
//
//	sum over terms of weight(t) · max over n in S that hold t of relevance(n).
//
// Each step takes the node that adds most to the value for its cost, the share of the budget and of the number
// of hits that it uses up. What a node adds can only fall as others are chosen (the value is submodular), so a gain
// from an earlier step is an upper bound, and only the node with the largest bound is computed anew (Minoux,
// "Accelerated greedy algorithms for maximizing submodular set functions", 1978). A node that adds nothing, such as a
// summary whose own sources were chosen, is never taken. The result is sorted by score.
//
// With humble set, a summary isn't more relevant than the leaves of the pool in what it has in common with them.
func packCoverage(pool []*candidate, budget, topK int, humble bool) []*candidate {
	cover := newCover(pool)
	if humble {
		cover.humble()
	}
	queue := make(gainQueue, 0, len(pool))
	for i, c := range pool {
		c.fate = NoRoom
		if c.loaded {
			queue = append(queue, bound{index: i, gain: cover.gain(i) / cost(c, budget, topK)})
		}
	}
	heap.Init(&queue)
	var chosen []*candidate
	used, round := 0, 0
	for len(queue) > 0 {
		top := &queue[0]
		c := pool[top.index]
		switch {
		case topK > 0 && len(chosen) == topK:
			c.fate = TooMany
			heap.Pop(&queue)
		case top.round < round:
			top.gain, top.round = cover.gain(top.index)/cost(c, budget, topK), round
			heap.Fix(&queue, 0)
		case top.gain <= 0:
			c.fate, c.coveredBy = Covered, cover.by(top.index)
			heap.Pop(&queue)
		case budget > 0 && used+c.node.Tokens > budget:
			heap.Pop(&queue) // the room only shrinks
		default:
			c.fate, c.parts.Gain = Chosen, top.gain
			chosen = append(chosen, c)
			used += c.node.Tokens
			cover.add(top.index)
			round++
			heap.Pop(&queue)
		}
	}
	sortCandidates(chosen)
	return chosen
}

// cost is what a node uses up: its share of the budget, and of the hits. Without either bound it is its length.
func cost(c *candidate, budget, topK int) float64 {
	length := float64(max(1, c.node.Tokens))
	sum := 0.0
	if budget > 0 {
		sum += length / float64(budget)
	}
	if topK > 0 {
		sum += 1 / float64(topK)
	}
	if sum == 0 {
		return length
	}
	return sum
}

// cover knows the terms of a pool and how far they are covered.
type cover struct {
	pool  []*candidate
	terms [][]int32 // of each candidate, distinct, in order of the text
	// own holds the relevance of each term of a candidate; nil where it is the candidate's for all of them.
	own [][]float64
	// weight of each term, the relevance that covers it, and which candidate does (-1: none).
	weight   []float64
	relevant []float64
	owner    []int32
}

// newCover reads the terms of the loaded candidates. A term weighs
//
//	(sum of the relevance of the nodes that hold it)^(1/4) · log(1 + pool / number of nodes that hold it):
//
// what several relevant nodes say is more likely to matter, and what every node of the pool says tells nothing. Pool
// statistics do as well as those of the whole corpus here, and cost no index.
func newCover(pool []*candidate) *cover {
	v := &cover{pool: pool, terms: make([][]int32, len(pool)), own: make([][]float64, len(pool))}
	vocabulary := map[string]int32{}
	var count []float64
	var last []int // the candidate that held a term last
	for i, c := range pool {
		EachTerm(c.node.Text, func(term string) {
			id, known := vocabulary[term]
			if !known {
				id = int32(len(vocabulary))
				vocabulary[term] = id
				v.weight = append(v.weight, 0)
				count = append(count, 0)
				last = append(last, -1)
			}
			if last[id] == i {
				return
			}
			last[id] = i
			v.terms[i] = append(v.terms[i], id)
			v.weight[id] += c.parts.Relevance
			count[id]++
		})
	}
	v.relevant = make([]float64, len(count))
	v.owner = make([]int32, len(count))
	for t := range count {
		v.weight[t] = math.Sqrt(math.Sqrt(v.weight[t])) * math.Log1p(float64(len(pool))/count[t])
		v.owner[t] = -1
	}
	return v
}

// ownWords is what the relevance of a summary is worth in a term that no leaf of the pool holds.
const ownWords = 0.5

// humble bounds the relevance of summaries term by term. The vector of a summary stands for all that it touches upon, and
// the query may resemble one part of it; which part the leaves tell. For a term that leaves of the pool hold too, a
// summary is as relevant as the best of these at most, and for another it counts half.
func (v *cover) humble() {
	best := make([]float64, len(v.weight))
	for i, c := range v.pool {
		for _, t := range v.terms[i] {
			if c.node.IsLeaf() {
				best[t] = max(best[t], c.parts.Relevance)
			}
		}
	}
	for i, c := range v.pool {
		if c.node.IsLeaf() {
			continue
		}
		v.own[i] = make([]float64, len(v.terms[i]))
		for k, t := range v.terms[i] {
			v.own[i][k] = min(c.parts.Relevance, best[t])
			if best[t] == 0 {
				v.own[i][k] = ownWords * c.parts.Relevance
			}
		}
	}
}

// relevance is that of the term at a place in a candidate's list.
func (v *cover) relevance(i, place int) float64 {
	if v.own[i] != nil {
		return v.own[i][place]
	}
	return v.pool[i].parts.Relevance
}

// gain is what a candidate would add.
func (v *cover) gain(i int) float64 {
	sum := 0.0
	for place, t := range v.terms[i] {
		if more := v.relevance(i, place) - v.relevant[t]; more > 0 {
			sum += v.weight[t] * more
		}
	}
	return sum
}

// add chooses a candidate.
func (v *cover) add(i int) {
	for place, t := range v.terms[i] {
		if r := v.relevance(i, place); r > v.relevant[t] {
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
	for _, t := range v.terms[i] {
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

// bound is an upper bound on a candidate's gain per cost, exact if it was computed in the running round.
type bound struct {
	index int
	round int
	gain  float64
}

// gainQueue is a heap of bounds, the largest first, ties by place in the pool.
type gainQueue []bound

func (q gainQueue) Len() int { return len(q) }
func (q gainQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].gain, q[i].gain), cmp.Compare(q[i].index, q[j].index)) < 0
}
func (q gainQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *gainQueue) Push(x any)   { *q = append(*q, x.(bound)) }
func (q *gainQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
