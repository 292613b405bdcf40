package retrieve

import (
	"cmp"
	"container/heap"
)

// packCoverage chooses the candidates that together say most of what is relevant. With a set S chosen, a term t is
// covered by the largest relevance of the nodes of S that hold it, and the value of S is
//
//	sum over terms of weight(t) · max over n in S that hold t of relevance(n).
//
// Each step takes the node that adds most to the value for its cost, the share of the budget and of the number
// of hits that it uses up. What a node adds can only fall as others are chosen (the value is submodular), so a gain
// from an earlier step is an upper bound, and only the node with the largest bound is computed anew (Minoux,
// "Accelerated greedy algorithms for maximizing submodular set functions", 1978). A node that adds nothing, such as a
// summary whose own sources were chosen, is taken only to bring the hits to topK. The result is sorted by score.
func packCoverage(cover *cover, budget, topK int) []*candidate {
	pool := cover.pool
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
	chosen = fillUp(pool, chosen, used, budget, topK)
	sortCandidates(chosen)
	return chosen
}

// fillUp adds what the chosen ones cover, best first, until there are as many hits as were asked for: top k means k.
func fillUp(pool, chosen []*candidate, used, budget, topK int) []*candidate {
	for _, c := range pool {
		if len(chosen) >= topK { // without a bound on hits there is nothing to fill
			break
		}
		if c.fate == Covered && (budget == 0 || used+c.node.Tokens <= budget) {
			c.fate, c.coveredBy = Chosen, nil
			chosen = append(chosen, c)
			used += c.node.Tokens
		}
	}
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
