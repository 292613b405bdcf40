package retrieve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
		ab += float64(x) * float64(testEmbedder.vector[i])
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
func referenceHits(t *testing.T, w *world, req Request) []tree.ID {
	f := store.AnyLevel()
	if req.MinLevel != nil {
		f.MinLevel = *req.MinLevel
	}
	if req.MaxLevel != nil {
		f.MaxLevel = *req.MaxLevel
	}
	f.Documents, f.Metadata = req.Documents, req.Metadata
	var pool []scored
	switch {
	case req.Mode == Traversal:
		pool = referenceWalk(w, req, f)
	case req.Alpha < 1:
		pool = referenceFusion(t, w, req, f)
	default:
		pool = byCosine(w.visible(f))
	}
	if req.Mode != Boost {
		return referencePack(pool, req)
	}
	if req.TopK == 0 {
		return referencePack(referenceBoost(pool, req), req)
	}
	for limit := req.TopK; ; limit *= 2 {
		fetched := pool[:min(len(pool), limit*req.Candidates)]
		hits := referencePack(referenceBoost(fetched, req), req)
		room := req.Budget - tokensOf(fetched, hits)
		if len(hits) == req.TopK || len(fetched) == len(pool) || room < tokensOf(fetched, nil)/len(fetched) {
			return hits
		}
	}
}

// referenceBoost lifts the summaries of a copy of the pool.
func referenceBoost(pool []scored, req Request) []scored {
	pool = slices.Clone(pool)
	for i := range pool {
		if pool[i].Level > 0 && pool[i].score >= 0 {
			pool[i].score *= req.Boost
		} else if pool[i].Level > 0 {
			pool[i].score /= req.Boost
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

func referencePack(pool []scored, req Request) []tree.ID {
	if req.Pack == Similarity {
		return referenceSimilarity(pool, req)
	}
	return referenceCoverage(pool, req)
}

// referenceWalk goes down level by level over plain lists.
func referenceWalk(w *world, req Request, f store.Filter) []scored {
	all := w.visible(store.AnyLevel())
	top := 0
	hasParent := map[tree.ID]bool{}
	for _, n := range all {
		top = max(top, n.Level)
		for _, c := range n.Children {
			hasParent[c] = true
		}
	}
	f = f.VisibleAt(w.record.Generation)
	var winners []scored
	reachable := map[tree.ID]bool{}
	for level := top; level >= 0; level-- {
		var hand, allowed []tree.Node
		for _, n := range all {
			if n.Level == level && (reachable[n.ID] || !hasParent[n.ID]) {
				hand = append(hand, n)
				if f.Selects(&n) && !(req.LeavesOnly && level > 0) {
					allowed = append(allowed, n)
				}
			}
		}
		best := byCosine(hand)
		for _, n := range best[:min(req.PerLevel, len(best))] {
			for _, c := range n.Children {
				reachable[c] = true
			}
		}
		won := byCosine(allowed)
		winners = append(winners, won[:min(req.PerLevel, len(won))]...)
	}
	sortScored(winners)
	return winners
}

// referenceFusion fuses complete rankings; the keyword scores are the store's.
func referenceFusion(t *testing.T, w *world, req Request, f store.Filter) []scored {
	near := byCosine(w.visible(f))
	worded, err := w.nodes.Keyword(t.Context(), corpusName, store.Query{Filter: f.VisibleAt(1), Text: req.Query, Limit: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	// What 0 and 1 are for Relative: of all nodes, or of the leaves where these come first.
	nearest, farthest, words := math.Inf(-1), math.Inf(1), 0.0
	leaves := func(level int) bool {
		return level == 0 || req.Pack == Similarity || req.Mode == Blend || req.Mode == Boost || f.MinLevel > 0
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
		if req.Fusion == Relative {
			part = max(0, (n.score-farthest)/(nearest-farthest))
		}
		total[n.ID] += req.Alpha * part
	}
	for i, h := range worded {
		part := 61 / float64(60+i+1)
		if req.Fusion == Relative {
			part = h.Score / words
		}
		if req.Alpha == 0 {
			part = h.Score
		}
		total[h.Node.ID] += (1 - req.Alpha) * part
	}
	var out []scored
	for _, n := range near {
		if score := total[n.ID]; score > 0 || req.Alpha > 0 {
			n.score = score
			out = append(out, n)
		}
	}
	sortScored(out)
	return out
}

func referenceSimilarity(pool []scored, req Request) []tree.ID {
	out, used := []tree.ID{}, 0
	for _, n := range pool {
		if (req.TopK == 0 || len(out) < req.TopK) && (req.Budget == 0 || used+n.Tokens <= req.Budget) {
			used += n.Tokens
			out = append(out, n.ID)
		}
	}
	return out
}

// referenceCoverage computes every gain at every step, from the chosen nodes alone.
func referenceCoverage(pool []scored, req Request) []tree.ID {
	equal := req.Mode == Blend || req.Mode == Boost
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
		score[i] += req.Context * height
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
			relevance[i] = min(1, math.Exp(req.Sharpness*(score[i]-best)/(4*math.Sqrt(variance))))
		}
		if n.Level > 0 && !equal {
			relevance[i] *= req.SummaryWeight
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
	for used := 0; req.TopK == 0 || len(chosen) < req.TopK; {
		best, bestGain := -1, 1e-12
		for i, n := range pool {
			if slices.Contains(places, i) || req.Budget > 0 && used+n.Tokens > req.Budget {
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
			if req.Budget > 0 {
				price += float64(n.Tokens) / float64(req.Budget)
			}
			if req.TopK > 0 {
				price += 1 / float64(req.TopK)
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

// shapes are the requests that are compared, by name.
func shapes() map[string]func(*Request) {
	return map[string]func(*Request){
		"collapsed":              func(r *Request) {},
		"collapsed, top 3":       func(r *Request) { r.TopK = 3 },
		"collapsed, no budget":   func(r *Request) { r.Budget, r.TopK = 0, 5 },
		"no bound at all":        func(r *Request) { r.Budget = 0 },
		"blend":                  func(r *Request) { r.Mode = Blend },
		"boost":                  func(r *Request) { r.Mode, r.Boost = Boost, 1.4 },
		"boost down":             func(r *Request) { r.Mode, r.Boost = Boost, 0.5 },
		"boost, top 4":           func(r *Request) { r.Mode, r.Boost, r.TopK = Boost, 1.4, 4 },
		"boost, top 4, as is":    func(r *Request) { r.Mode, r.Boost, r.TopK, r.Candidates = Boost, 1.4, 4, 1 },
		"boost and filter":       func(r *Request) { r.Mode, r.Boost, r.MaxLevel = Boost, 1.2, ptr(1) },
		"filter":                 func(r *Request) { r.Mode, r.MinLevel = Filter, ptr(1) },
		"filter, one level":      func(r *Request) { r.Mode, r.MinLevel, r.MaxLevel = Filter, ptr(1), ptr(1) },
		"leaves":                 func(r *Request) { r.MaxLevel = ptr(0) },
		"document":               func(r *Request) { r.Documents = []string{"d1", "d3"} },
		"metadata":               func(r *Request) { r.Metadata = map[string]any{"kind": "x"} },
		"document and metadata":  func(r *Request) { r.Documents, r.Metadata = []string{"d2"}, map[string]any{"kind": "x"} },
		"nothing matches":        func(r *Request) { r.Documents = []string{"elsewhere"} },
		"traversal":              func(r *Request) { r.Mode, r.PerLevel = Traversal, 3 },
		"traversal to leaves":    func(r *Request) { r.Mode, r.PerLevel, r.LeavesOnly = Traversal, 2, true },
		"traversal, filter":      func(r *Request) { r.Mode, r.PerLevel, r.MinLevel = Traversal, 2, ptr(1) },
		"traversal, document":    func(r *Request) { r.Mode, r.PerLevel, r.Documents = Traversal, 3, []string{"d1"} },
		"traversal, metadata":    func(r *Request) { r.Mode, r.Metadata = Traversal, map[string]any{"kind": "x"} },
		"hybrid":                 func(r *Request) { r.Alpha = .7 },
		"hybrid by rank":         func(r *Request) { r.Alpha, r.Fusion = .5, Reciprocal },
		"keywords":               func(r *Request) { r.Alpha = 0 },
		"hybrid, filter, blend":  func(r *Request) { r.Mode, r.Alpha, r.MaxLevel = Blend, .4, ptr(0) },
		"hybrid, boost, by rank": func(r *Request) { r.Mode, r.Boost, r.Alpha, r.Fusion = Boost, 1.3, .6, Reciprocal },
	}
}

func TestModesAgreeWithBruteForce(t *testing.T) {
	for seed := range uint64(3) {
		w := randomWorld(t, seed, 60)
		for name, change := range shapes() {
			for _, pack := range Packs() {
				for _, budget := range []int{25, 120, 100000} {
					req := NewRequest(corpusName, "w3 w17 w40 unheard")
					req.Pool, req.Budget, req.Pack = 1000, budget, pack
					change(&req)
					got := found(w.retrieve(t, req).Hits)
					if diff := gocmp.Diff(referenceHits(t, w, req), got); diff != "" {
						t.Errorf("seed %d, %s, %s, budget %d (-want +got):\n%s", seed, name, pack, req.Budget, diff)
					}
				}
			}
		}
	}
}

// Several budgets at once give what one after the other gives, whatever came before.
func TestBudgetsTogether(t *testing.T) {
	budgets := []int{120, 25, 100000, 60}
	for seed := range uint64(2) {
		w := randomWorld(t, seed, 60)
		gone := w.all[int(seed)*7+4]
		if err := w.nodes.Delete(t.Context(), corpusName, []tree.ID{gone.ID}); err != nil {
			t.Fatal(err)
		}
		w.record.Changes++ // some summaries are stale
		w.corpora.all[corpusName] = w.record
		for name, change := range shapes() {
			for _, pack := range Packs() {
				req := NewRequest(corpusName, "w3 w17 w40 unheard")
				req.Pool, req.Pack, req.Explain = 20, pack, true
				change(&req)
				var got []Result
				err := w.retriever().RetrieveAt(t.Context(), req, budgets, func(i int, r Result) {
					if i != len(got) {
						t.Errorf("%s, %s: answer %d comes after %d", name, pack, i, len(got))
					}
					got = append(got, r)
				})
				if err != nil || len(got) != len(budgets) {
					t.Fatalf("%s, %s: %d answers, %v", name, pack, len(got), err)
				}
				for i, budget := range budgets {
					req.Budget = budget
					if diff := gocmp.Diff(w.retrieve(t, req), got[i]); diff != "" {
						t.Errorf("seed %d, %s, %s, budget %d (-alone +together):\n%s", seed, name, pack, budget, diff)
					}
				}
			}
		}
	}
}

// A walk that starts at more than the top level: trees of several heights, a document without a tree, and leaves
// that are newer than the build.
func TestTraversalReachesEveryRoot(t *testing.T) {
	for seed := range uint64(6) {
		w := randomWorld(t, seed, 40)
		record := w.record
		record.Changes++
		for i := range 5 {
			l := leaf("fresh", i, fmt.Sprint("w1 w5 fresh", i), at(float64(i)/5))
			w.all = append(w.all, l)
		}
		w = newWorld(t, record, w.all...)
		for _, perLevel := range []int{1, 3, 50} {
			req := NewRequest(corpusName, "fresh")
			req.Mode, req.PerLevel, req.Pack, req.Budget = Traversal, perLevel, Similarity, 0
			got := found(w.retrieve(t, req).Hits)
			if diff := gocmp.Diff(referenceHits(t, w, req), got); diff != "" {
				t.Errorf("seed %d, per level %d (-want +got):\n%s", seed, perLevel, diff)
			}
		}
	}
}
