package coordinator_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// topical embeds a text near the mean of the directions of its words' topics: "3.17" is word 17 of topic 3.
type topical struct{ hashed }

func (topical) Embed(_ context.Context, texts []string) ([][]float32, error) {
	const width = 12
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, width)
		for _, word := range strings.Fields(text) {
			topic, _, _ := strings.Cut(word, ".")
			for _, seed := range []string{topic, word} {
				h := fnv.New64a()
				h.Write([]byte(seed))
				r := rand.New(rand.NewPCG(h.Sum64(), 1))
				scale := 1.0
				if seed == word {
					scale = 0.4
				}
				for t := range v {
					v[t] += float32(scale * r.NormFloat64())
				}
			}
		}
		vectors[i] = v
	}
	return vectors, nil
}

// growing returns a system whose builds grow the tree; summaries are all the words below them.
func growing(t *testing.T) *system {
	s := newSystem(t)
	cfg := clustering.Config{Mode: clustering.KMeans, Seed: 224, Threshold: 0.1, Dim: 10, MaxClusterTokens: 60}
	s.grow, s.cluster, s.embedder, s.stale = &cfg, nil, topical{}, 0.2
	s.endpoint.words = 12
	return s
}

// write makes a document of words of a topic: one leaf for each number.
func (s *system) write(document string, topic int, words ...int) {
	s.t.Helper()
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = fmt.Sprintf("%d.%d %d.%d", topic, w, topic, w+1)
	}
	s.writeTexts(document, texts)
}

// writeTexts makes a document of leaves.
func (s *system) writeTexts(document string, texts []string) {
	s.t.Helper()
	var nodes []tree.Node
	for i, text := range texts {
		vectors, _ := topical{}.Embed(context.Background(), []string{text})
		nodes = append(nodes, tree.Node{
			ID: tree.LeafID(corpusName, document, i, text), DocumentID: document, ChunkIndex: i, Text: text, Tokens: 6,
			NLeaves: 1, Died: tree.Alive, Vector: vectors[0],
		})
	}
	s.erase(document)
	if err := s.nodes.Put(context.Background(), corpusName, nodes); err != nil {
		s.t.Fatal(err)
	}
	s.changed(len(texts))
}

// erase deletes a document.
func (s *system) erase(document string) {
	s.t.Helper()
	var ids []tree.ID
	err := s.nodes.Each(context.Background(), corpusName, store.Leaves().OfDocument(document), store.Fields{}, func(n *tree.Node) error {
		ids = append(ids, n.ID)
		return nil
	})
	if err == nil {
		err = s.nodes.Delete(context.Background(), corpusName, ids)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.changed(len(ids))
}

func span(lo, hi int) []int {
	var out []int
	for i := lo; i < hi; i++ {
		out = append(out, i)
	}
	return out
}

// library writes twelve documents of ten leaves.
func (s *system) library() {
	for d := range 12 {
		s.write(fmt.Sprintf("doc%02d", d), d, span(0, 10)...)
	}
}

// nodesByID returns what readers see.
func (s *system) nodesByID() map[tree.ID]*tree.Node {
	s.t.Helper()
	record, err := s.records.Corpora().Load(context.Background(), corpusName)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[tree.ID]*tree.Node{}
	err = s.nodes.Each(context.Background(), corpusName, store.AnyLevel().VisibleAt(record.Generation), store.Fields{Text: true}, func(n *tree.Node) error {
		out[n.ID] = n
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// checkTree holds what every published tree promises: no orphan, no cluster over the cap, levels that shrink, no text of what
// is gone, and no summary that has seen too little.
func (s *system) checkTree() error {
	nodes := s.nodesByID()
	parents := map[tree.ID]int{}
	count := map[string]map[int]int{}
	of := func(n *tree.Node) string {
		if s.rule.Scope == tree.ScopeCorpus {
			return tree.CorpusTree
		}
		return n.DocumentID
	}
	words := map[string]bool{}
	for _, n := range nodes {
		if count[of(n)] == nil {
			count[of(n)] = map[int]int{}
		}
		count[of(n)][n.Level]++
		for _, c := range n.Children {
			parents[c]++
		}
		if n.IsLeaf() {
			for _, w := range strings.Fields(n.Text) {
				words[w] = true
			}
		}
	}
	for id, n := range nodes {
		levels := count[of(n)]
		if levels[n.Level+1] > 0 && parents[id] == 0 {
			return fmt.Errorf("level %d: node %s has no parent", n.Level, id)
		}
		if n.IsLeaf() {
			continue
		}
		tokens := 0
		for _, c := range n.Children {
			child := nodes[c]
			if child == nil || child.Level != n.Level-1 {
				return fmt.Errorf("level %d: node %s has a child that isn't there", n.Level, id)
			}
			tokens += child.Tokens
		}
		if len(n.Children) > 1 && tokens > s.grow.MaxClusterTokens {
			return fmt.Errorf("level %d: node %s has %d tokens below it", n.Level, id, tokens)
		}
		if n.Carried() && float64(n.Unseen) > s.stale*float64(6*n.NLeaves) {
			return fmt.Errorf("level %d: node %s has not seen %d tokens of %d", n.Level, id, n.Unseen, 6*n.NLeaves)
		}
		for _, w := range strings.Fields(n.Text) {
			if !words[w] {
				return fmt.Errorf("level %d: node %s has the word %s of a text that is gone", n.Level, id, w)
			}
		}
	}
	for document, levels := range count {
		for level := 1; levels[level] > 0; level++ {
			if levels[level] < 2 || 10*levels[level] > 7*levels[level-1] {
				return fmt.Errorf("tree of %s: %d nodes on level %d over %d", document, levels[level], level, levels[level-1])
			}
		}
	}
	return nil
}

// plan is what a build would do.
func (s *system) plan() api.Estimate {
	s.t.Helper()
	c, err := coordinator.New(coordinator.Config{
		Corpus: corpusName, Rule: s.rule, MinChunks: 4, Recipe: s.recipe, Holder: "plan", Incremental: true, Stale: s.stale, Clustering: *s.grow,
	}, coordinator.Deps{
		Store: s.nodes, Corpora: s.records.Corpora(), Builds: s.records, Barrier: s.records, Plans: s.records, Queue: s.queue,
		Dry: s.dry,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	estimate, err := c.Plan(context.Background(), false)
	if err != nil {
		s.t.Fatal(err)
	}
	return estimate
}

func (s *system) mustGrow(req coordinator.Request) api.BuildReport {
	s.t.Helper()
	report := s.build(req)
	if err := s.checkTree(); err != nil {
		s.t.Fatal(err)
	}
	return report
}

// TestGrowthCostsWhatChanged: nothing changed, no call and the same tree; a document more, a few calls; a leaf edited, its
// ancestors; and by force in full what it always cost.
func TestGrowthCostsWhatChanged(t *testing.T) {
	s := growing(t)
	s.library()
	first := s.mustGrow(coordinator.Request{})
	before := s.visible()
	again := s.mustGrow(coordinator.Request{Force: true})
	if again.Calls != 0 || again.Carried != 0 || again.Reused != first.Calls {
		t.Errorf("nothing changed: %d calls, %d carried, %d reused of %d", again.Calls, again.Carried, again.Reused, first.Calls)
	}
	if diff := cmp.Diff(before, s.visible()); diff != "" {
		t.Errorf("nothing changed, and the tree did:\n%s", diff)
	}
	s.write("doc03", 3, 0, 1, 2, 3, 40, 5, 6, 7, 8, 9)
	edited := s.mustGrow(coordinator.Request{Force: true})
	if most := 2 * len(edited.Levels); edited.Calls == 0 || edited.Calls > most {
		t.Errorf("one leaf edited: %d calls for %d levels", edited.Calls, len(edited.Levels))
	}
	s.write("doc12", 12, span(0, 10)...)
	grown := s.mustGrow(coordinator.Request{Force: true})
	if grown.Calls == 0 || grown.Calls > first.Calls/3 || grown.Carried == 0 {
		t.Errorf("a document more: %d calls, %d carried; a build in full took %d", grown.Calls, grown.Carried, first.Calls)
	}
	s.erase("doc07")
	s.mustGrow(coordinator.Request{Force: true}) // whose texts checkTree looks at
}

// TestSettleMakesWhatIsCarried: after it no summary has unseen tokens, and what was paid for stays.
func TestSettleMakesWhatIsCarried(t *testing.T) {
	s := growing(t)
	s.library()
	s.build(coordinator.Request{})
	s.write("more", 2, 20)
	if report := s.mustGrow(coordinator.Request{Force: true}); report.Carried == 0 {
		t.Fatalf("nothing was carried: %+v", report)
	}
	report := s.mustGrow(coordinator.Request{Restale: true})
	if report.Calls == 0 {
		t.Errorf("settled without a call: %+v", report)
	}
	for id, n := range s.nodesByID() {
		if n.Carried() || n.Unseen > 0 {
			t.Errorf("level %d: %s is carried (%t), %d tokens unseen", n.Level, id, n.Carried(), n.Unseen)
		}
	}
}

// TestFullBuildForgetsHistory: after --full the tree is that of the same documents built at once.
func TestFullBuildForgetsHistory(t *testing.T) {
	s, once := growing(t), growing(t)
	s.library()
	s.build(coordinator.Request{})
	s.write("more", 2, span(20, 30)...)
	s.mustGrow(coordinator.Request{Force: true})
	s.mustGrow(coordinator.Request{Full: true})
	once.library()
	once.write("more", 2, span(20, 30)...)
	once.build(coordinator.Request{})
	if diff := cmp.Diff(once.visible(), s.visible()); diff != "" {
		t.Errorf("another tree:\n%s", diff)
	}
}

// TestGrowthKilledAtEveryCall kills a build that grows at each of its calls, before and after the effect: the next process
// ends with the same tree.
func TestGrowthKilledAtEveryCall(t *testing.T) {
	begun := func() *system {
		s := growing(t)
		s.library()
		s.build(coordinator.Request{})
		s.write("more", 2, span(20, 26)...)
		s.write("doc05", 5, span(3, 10)...)
		s.erase("doc09")
		return s
	}
	want := begun()
	counting := &killSwitch{}
	if _, err := want.process(counting).run(context.Background(), coordinator.Request{Force: true}); err != nil {
		t.Fatal(err)
	}
	grown, undisturbed := want.nodesByID(), want.endpoint.total()
	for at := 1; at <= counting.calls; at++ {
		for _, after := range []bool{false, true} {
			s := begun()
			_, _ = s.process(&killSwitch{at: at, after: after}).run(context.Background(), coordinator.Request{Force: true})
			s.queue.Restart()
			s.checkEquation()
			s.build(coordinator.Request{})
			if diff := cmp.Diff(grown, s.nodesByID()); diff != "" {
				t.Errorf("killed at call %d (after it: %t), another tree than undisturbed:\n%s", at, after, diff)
			}
			if most := undisturbed + s.slots; s.endpoint.total() > most {
				t.Errorf("killed at call %d: %d calls were paid for, at most %d", at, s.endpoint.total(), most)
			}
		}
	}
}

// TestGrowthForeseen: what plan says of level 1 is what the build does, and the whole is near.
func TestGrowthForeseen(t *testing.T) {
	s := growing(t)
	s.library()
	s.build(coordinator.Request{})
	s.write("more", 2, span(20, 30)...)
	s.write("doc05", 5, span(3, 10)...)
	estimate := s.plan()
	report := s.mustGrow(coordinator.Request{Force: true})
	if estimate.Incremental == nil || estimate.Full == nil {
		t.Fatalf("%+v", estimate)
	}
	e, l := estimate.Levels[0], report.Levels[0]
	if e.Calls != l.Calls || e.Reused != l.Reused || e.Carried != l.Carried || e.Estimate {
		t.Errorf("level 1: foreseen %+v, done %+v", e, l)
	}
	if calls := estimate.Incremental.Calls; 5*calls < 4*report.Calls || 5*calls > 6*report.Calls {
		t.Errorf("%d calls foreseen, %d made", calls, report.Calls)
	}
	if in := estimate.Incremental.InputTokens; 5*in < 4*below(s, report) || 5*in > 6*below(s, report) {
		t.Errorf("%d tokens foreseen, %d were read", in, below(s, report))
	}
	if !estimate.Full.Estimate || estimate.Incremental.Estimate {
		t.Errorf("%+v, %+v", estimate.Full, estimate.Incremental)
	}
	full := s.build(coordinator.Request{Full: true})
	if calls := full.Calls + full.Reused; 5*estimate.Full.Calls < 4*calls || 5*estimate.Full.Calls > 6*calls {
		t.Errorf("in full %d calls foreseen, %d summaries made", estimate.Full.Calls, calls)
	}
	if again := s.plan(); again.Full.Calls != 0 || again.Full.Kept != calls(full) {
		t.Errorf("after a build in full another one would make %+v", again.Full)
	}
}

func calls(r api.BuildReport) int { return r.Calls + r.Reused }

// below is how many tokens the summaries that a build has made were made from.
func below(s *system, r api.BuildReport) int {
	nodes := s.nodesByID()
	tokens := 0
	for _, n := range nodes {
		if n.Born != r.Generation || n.Carried() || n.IsLeaf() {
			continue
		}
		for _, c := range n.Children {
			tokens += nodes[c].Tokens
		}
	}
	return tokens
}
