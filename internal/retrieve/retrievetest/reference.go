package retrievetest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// This file answers requests by brute force, straight from the documentation of the modes and of packing, with
// no index, no queue and no bound on what is looked at, and compares: same ids, same order.

// scored is a node of the reference.
type scored struct {
	tree.Node
	score float64
}

func sortScored(s []scored) {
	slices.SortFunc(s, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), a.ID.Compare(b.ID)) })
}

func cosineToQuery(n tree.Node) float64 {
	var ab, aa float64
	for i, x := range n.Vector {
		ab += float64(x) * float64(OneVector.Vector[i])
		aa += float64(x) * float64(x)
	}
	return ab / math.Sqrt(aa)
}

func byCosine(nodes []tree.Node) []scored {
	var out []scored
	for _, n := range nodes {
		out = append(out, scored{n, cosineToQuery(n)})
	}
	sortScored(out)
	return out
}

// referenceHits answers a request whose Pool is larger than the corpus.
func referenceHits(t testing.TB, w *World, req retrieve.Request) []tree.ID {
	req, err := req.Settled()
	if err != nil {
		t.Fatal(err)
	}
	f := store.AnyLevel()
	if req.MinLevel != nil {
		f.MinLevel = *req.MinLevel
	}
	if req.MaxLevel != nil {
		f.MaxLevel = *req.MaxLevel
	}
	f.Documents, f.Metadata, f.Where = req.Documents, req.Metadata, req.Where
	var pool []scored
	switch {
	case *req.Mode == retrieve.Traversal:
		pool = referenceWalk(w, req, f)
	case *req.Alpha < 1:
		pool = referenceFusion(t, w, req, f)
	default:
		pool = byCosine(w.Visible(f))
	}
	if *req.Mode != retrieve.Boost {
		return referencePack(pool, req)
	}
	if *req.TopK == 0 {
		return referencePack(referenceBoost(pool, req), req)
	}
	for limit := *req.TopK; ; limit *= 2 {
		fetched := pool[:min(len(pool), int(math.Ceil(float64(limit)*(*req.Candidates))))]
		hits := referencePack(referenceBoost(fetched, req), req)
		room := *req.Budget - tokensOf(fetched, hits)
		if len(hits) == *req.TopK || len(fetched) == len(pool) || room < tokensOf(fetched, nil)/len(fetched) {
			return hits
		}
	}
}

// referenceBoost lifts the summaries of a copy of the pool.
func referenceBoost(pool []scored, req retrieve.Request) []scored {
	pool = slices.Clone(pool)
	for i := range pool {
		if pool[i].Level > 0 && pool[i].score >= 0 {
			pool[i].score *= *req.Boost
		} else if pool[i].Level > 0 {
			pool[i].score /= *req.Boost
		}
	}
	sortScored(pool)
	return pool
}

// tokensOf adds up the tokens of the nodes with the ids, or of all.
func tokensOf(nodes []scored, ids []tree.ID) int {
	sum := 0
	for _, n := range nodes {
		if ids == nil || slices.Contains(ids, n.ID) {
			sum += n.Tokens
		}
	}
	return sum
}

func referencePack(pool []scored, req retrieve.Request) []tree.ID {
	if *req.Pack == retrieve.Similarity {
		return referenceSimilarity(pool, req)
	}
	return referenceCoverage(pool, req)
}

// referenceWalk goes down level by level over plain lists.
func referenceWalk(w *World, req retrieve.Request, f store.Filter) []scored {
	all := w.Visible(store.AnyLevel())
	top := 0
	hasParent := map[tree.ID]bool{}
	for _, n := range all {
		top = max(top, n.Level)
		for _, c := range n.Children {
			hasParent[c] = true
		}
	}
	f = f.VisibleAt(w.Record.Generation)
	var winners []scored
	reachable := map[tree.ID]bool{}
	for level := top; level >= 0; level-- {
		var hand, allowed []tree.Node
		for _, n := range all {
			if n.Level == level && (reachable[n.ID] || !hasParent[n.ID]) {
				hand = append(hand, n)
				if f.Selects(&n) && !(*req.LeavesOnly && level > 0) {
					allowed = append(allowed, n)
				}
			}
		}
		best := byCosine(hand)
		for _, n := range best[:min(*req.PerLevel, len(best))] {
			for _, c := range n.Children {
				reachable[c] = true
			}
		}
		won := byCosine(allowed)
		winners = append(winners, won[:min(*req.PerLevel, len(won))]...)
	}
	sortScored(winners)
	return winners
}

// referenceFusion fuses complete rankings; the keyword scores are the store's.
func referenceFusion(t testing.TB, w *World, req retrieve.Request, f store.Filter) []scored {
	near := byCosine(w.Visible(f))
	worded, err := w.Store.Keyword(t.Context(), w.Record.Name, store.Query{Filter: f.VisibleAt(w.Record.Generation), Text: req.Query, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	// What 0 and 1 are for Relative: of all nodes, or of the leaves where these come first.
	nearest, farthest, words := math.Inf(-1), math.Inf(1), 0.0
	leaves := func(level int) bool {
		return level == 0 || *req.Pack == retrieve.Similarity || *req.Mode == retrieve.Blend || *req.Mode == retrieve.Boost || f.MinLevel > 0
	}
	for _, n := range near {
		if leaves(n.Level) {
			nearest, farthest = max(nearest, n.score), min(farthest, n.score)
		}
	}
	for _, h := range worded {
		if leaves(h.Node.Level) {
			words = max(words, h.Score)
		}
	}
	if words == 0 && len(worded) > 0 {
		words = worded[0].Score
	}
	total := map[tree.ID]float64{}
	for i, n := range near {
		part := 61 / float64(60+i+1)
		if *req.Fusion == retrieve.Relative {
			part = max(0, (n.score-farthest)/(nearest-farthest))
		}
		total[n.ID] += *req.Alpha * part
	}
	for i, h := range worded {
		part := 61 / float64(60+i+1)
		if *req.Fusion == retrieve.Relative {
			part = h.Score / words
		}
		if *req.Alpha == 0 {
			part = h.Score
		}
		total[h.Node.ID] += (1 - *req.Alpha) * part
	}
	var out []scored
	for _, n := range near {
		if score := total[n.ID]; score > 0 || *req.Alpha > 0 {
			n.score = score
			out = append(out, n)
		}
	}
	sortScored(out)
	return out
}

func referenceSimilarity(pool []scored, req retrieve.Request) []tree.ID {
	out, used := []tree.ID{}, 0
	for _, n := range pool {
		if (*req.TopK == 0 || len(out) < *req.TopK) && (*req.Budget == 0 || used+n.Tokens <= *req.Budget) {
			used += n.Tokens
			out = append(out, n.ID)
		}
	}
	return out
}

// referenceCoverage computes every gain at every step, from the chosen nodes alone.
func referenceCoverage(pool []scored, req retrieve.Request) []tree.ID {
	equal := *req.Mode == retrieve.Blend || *req.Mode == retrieve.Boost
	var yard []int // what all is measured by
	for i, n := range pool {
		if n.Level == 0 {
			yard = append(yard, i)
		}
	}
	if equal || 2*len(yard) < len(pool) {
		yard = nil
		for i := range pool {
			yard = append(yard, i)
		}
	}
	score := make([]float64, len(pool))
	for i, n := range pool {
		score[i] = n.score
		height := 0.0
		for _, m := range pool {
			if apart := m.ChunkIndex - n.ChunkIndex; n.Level == 0 && m.Level == 0 && m.DocumentID == n.DocumentID && (apart == 1 || apart == -1 || apart == 2 || apart == -2) {
				height = max(height, m.score-pool[yard[len(yard)-1]].score)
			}
		}
		score[i] += *req.Context * height
	}
	mean, variance, best := 0.0, 0.0, math.Inf(-1)
	for _, i := range yard {
		mean += score[i] / float64(len(yard))
		best = max(best, score[i])
	}
	for _, i := range yard {
		variance += (score[i] - mean) * (score[i] - mean) / float64(len(yard))
	}
	relevance := make([]float64, len(pool))
	holders := map[string][]int{}
	for i, n := range pool {
		relevance[i] = 1
		if variance > 0 {
			relevance[i] = min(1, math.Exp(*req.Sharpness*(score[i]-best)/(4*math.Sqrt(variance))))
		}
		if n.Level > 0 && !equal {
			relevance[i] *= *req.SummaryWeight
		}
		for _, word := range distinct(n.Text) {
			holders[word] = append(holders[word], i)
		}
	}
	weight := map[string]float64{}
	for word, nodes := range holders {
		sum, n := 0.0, 0
		for _, i := range nodes {
			if slices.Contains(yard, i) {
				sum += relevance[i]
				n++
			}
		}
		if n == 0 {
			sum, n = relevance[nodes[0]], 1
		}
		weight[word] = math.Pow(sum, .25) * math.Log(1+float64(len(yard))/float64(n))
	}
	var chosen []scored
	var places []int
	for used := 0; *req.TopK == 0 || len(chosen) < *req.TopK; {
		best, bestGain := -1, 1e-12
		for i, n := range pool {
			if slices.Contains(places, i) || *req.Budget > 0 && used+n.Tokens > *req.Budget {
				continue
			}
			gain := 0.0
			for _, word := range distinct(n.Text) {
				covered := 0.0
				for _, j := range holders[word] {
					if slices.Contains(places, j) {
						covered = max(covered, relevance[j])
					}
				}
				gain += weight[word] * max(0, relevance[i]-covered)
			}
			price := 0.0
			if *req.Budget > 0 {
				price += float64(n.Tokens) / float64(*req.Budget)
			}
			if *req.TopK > 0 {
				price += 1 / float64(*req.TopK)
			}
			if price == 0 {
				price = float64(n.Tokens)
			}
			if gain/price > bestGain*(1+1e-12) {
				best, bestGain = i, gain/price
			}
		}
		if best < 0 {
			break
		}
		places = append(places, best)
		chosen = append(chosen, pool[best])
		used += pool[best].Tokens
	}
	used := 0
	for _, n := range chosen {
		used += n.Tokens
	}
	for i, n := range pool { // the rest by score
		if len(chosen) < *req.TopK && !slices.Contains(places, i) && (*req.Budget == 0 || used+n.Tokens <= *req.Budget) {
			chosen = append(chosen, n)
			used += n.Tokens
		}
	}
	sortScored(chosen)
	out := []tree.ID{}
	for _, n := range chosen {
		out = append(out, n.ID)
	}
	return out
}

func distinct(text string) []string {
	words := strings.Fields(text)
	slices.Sort(words)
	return slices.Compact(words)
}
