package retrieve

import (
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/tree"
)

// leaf makes a leaf; one word is one token.
func leaf(document string, index int, text string, vector []float32) tree.Node {
	return tree.Node{
		ID: tree.LeafID("c", document, index, text), DocumentID: document, ChunkIndex: index, Text: text,
		Tokens: len(strings.Fields(text)), Vector: vector,
	}
}

// summary makes a summary.
func summary(text string, vector []float32, children ...tree.Node) tree.Node {
	n := leaf(tree.CorpusTree, -1, text, vector)
	n.Level = 1
	for _, c := range children {
		n.Children = append(n.Children, c.ID)
	}
	return n
}

// at returns a vector whose similarity is c.
func at(c float64) []float32 { return []float32{float32(c)} }

func candidates(nodes ...tree.Node) []*candidate {
	var out []*candidate
	for _, n := range nodes {
		out = append(out, &candidate{node: n, score: float64(n.Vector[0]), loaded: true})
	}
	sortCandidates(out)
	return out
}

func texts(cs []*candidate) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.node.Text)
	}
	return out
}

func packed(budget, topK int, nodes ...tree.Node) []string {
	pool := candidates(nodes...)
	yard := yardstick(pool, true)
	relevance(pool, yard, len(pool), testRequest, 0.8)
	return texts(packCoverage(newCover(pool, yard, vocabulary{}), budget, topK))
}

var testRequest = &Request{Options: Options{Sharpness: new(3.0), Context: new(0.0)}}

func TestRelevance(t *testing.T) {
	pool := func() (out []*candidate) {
		for i, score := range []float64{0.8, 0.6, 0.4, 0.2} {
			out = append(out, &candidate{score: score, node: tree.Node{Level: i / 3}})
		}
		return out
	}
	check := func(name string, pool []*candidate, want ...float64) {
		t.Helper()
		for i, c := range pool {
			if math.Abs(c.parts.Relevance-want[i]) > 1e-12 {
				t.Errorf("%s: relevance %d is %v, want %v", name, i, c.parts.Relevance, want[i])
			}
		}
	}
	// The standard deviation of all four is sqrt(0.05), that of the three leaves sqrt(0.08/3).
	equal := pool()
	relevance(equal, yardstick(equal, false), 4, testRequest, 1)
	step := math.Exp(-3 * 0.2 / (4 * math.Sqrt(0.05)))
	check("all alike", equal, 1, step, step*step, step*step*step)
	mixed := pool()
	relevance(mixed, yardstick(mixed, true), 4, testRequest, 0.8)
	step = math.Exp(-3 * 0.2 / (4 * math.Sqrt(0.08/3)))
	check("leaves first", mixed, 1, step, step*step, 0.8*step*step*step)
	same := []*candidate{{score: 0.5}, {score: 0.5}}
	relevance(same, yardstick(same, true), 2, testRequest, 0.8)
	check("the same scores", same, 1, 1)
	relevance(nil, nil, 10, testRequest, 0.8)
}

// What stands beside a relevant leaf in its document is lifted, up to two chunks away; summaries are not.
func TestLeavesSpeakForTheirNeighbors(t *testing.T) {
	node := func(document string, chunk, level int) tree.Node {
		return tree.Node{DocumentID: document, ChunkIndex: chunk, Level: level}
	}
	pool := []*candidate{
		{score: 0.9, node: node("a", 5, 0)},
		{score: 0.6, node: node("a", 7, 0)}, // two beside the first
		{score: 0.5, node: node("a", 8, 0)}, // three beside it, one beside the second
		{score: 0.4, node: node("b", 6, 0)},
		{score: 0.3, node: node("a", 4, 1)},
		{score: 0.1, node: node("c", 0, 0)},
	}
	got := inContext(pool, 0.1, 0.5)
	for i, want := range []float64{0.9 + 0.25, 0.6 + 0.4, 0.5 + 0.25, 0.4, 0.3, 0.1} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("score %d is lifted to %v, want %v", i, got[i], want)
		}
	}
}

func TestCoverageDoesNotRepeatItself(t *testing.T) {
	got := packed(6, 0,
		leaf("d", 0, "sun moon stars", at(0.9)),
		leaf("d", 1, "moon sun stars", at(0.89)),
		leaf("d", 2, "rain snow hail", at(0.7)),
	)
	if diff := gocmp.Diff([]string{"sun moon stars", "rain snow hail"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCoverageLeavesOutASummaryOfChosenChildren(t *testing.T) {
	a, b := leaf("d", 0, "sun moon", at(0.9)), leaf("d", 1, "rain snow", at(0.85))
	s := summary("sun moon rain snow", at(0.9), a, b)
	far := leaf("e", 0, "quite another thing", at(0.1))
	if diff := gocmp.Diff([]string{a.Text, b.Text, far.Text}, packed(100, 0, a, b, s, far)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// With no child at hand the summary is worth its tokens.
	if diff := gocmp.Diff([]string{s.Text, far.Text}, packed(100, 0, s, far)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A budget makes a short node worth more than a long one that adds the same; a bound on hits alone doesn't.
func TestCoverageCountsWhatABoundIsOn(t *testing.T) {
	long := leaf("d", 0, "sun moon "+strings.Repeat("the ", 20), at(0.9))
	short := leaf("d", 1, "rain", at(0.9))
	if diff := gocmp.Diff([]string{short.Text}, packed(22, 0, long, short)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{long.Text}, packed(0, 1, long, short)); diff != "" {
		t.Errorf("top-k (-want +got):\n%s", diff)
	}
}
