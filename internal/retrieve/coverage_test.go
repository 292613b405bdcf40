package retrieve

import (
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/tree"
)

func candidates(nodes ...tree.Node) []*candidate {
	var out []*candidate
	for _, n := range nodes {
		out = append(out, &candidate{node: n, score: cosineToQuery(n), loaded: true})
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
	relevance(pool, len(pool), 3, 0.8)
	return texts(packCoverage(pool, budget, topK))
}

// Scores 0.8, 0.6, 0.4, 0.2: their standard deviation is sqrt(0.05).
func TestRelevance(t *testing.T) {
	var pool []*candidate
	for i, score := range []float64{0.8, 0.6, 0.4, 0.2} {
		pool = append(pool, &candidate{score: score, node: tree.Node{Level: i / 3}})
	}
	relevance(pool, 4, 3, 0.8)
	step := math.Exp(-3 * 0.2 / (4 * math.Sqrt(0.05)))
	for i, want := range []float64{1, step, step * step, 0.8 * step * step * step} {
		if got := pool[i].parts.Relevance; math.Abs(got-want) > 1e-12 {
			t.Errorf("relevance %d is %v, want %v", i, got, want)
		}
	}
	same := []*candidate{{score: 0.5}, {score: 0.5}}
	relevance(same, 2, 3, 0.8)
	if same[0].parts.Relevance != 1 || same[1].parts.Relevance != 1 {
		t.Errorf("equal scores are equally relevant, got %v and %v", same[0].parts.Relevance, same[1].parts.Relevance)
	}
	relevance(nil, 10, 3, 0.8)
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

func TestTerms(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              nil,
		" ,;- !":                        nil,
		"The patient's 2.5 mg, don’t":   {"the", "patient", "2.5", "mg", "don’t"},
		"ＦＵＬＬ ﬁne Ünï":                  {"full", "fine", "ünï"},
		"所有权规则":                         {"所有", "有权", "权规", "规则"},
		"权":                             {"权"},
		"Rust 的所有权。下":                   {"rust", "的所", "所有", "有权", "下"},
		"ひらがなカタカナ":                      {"ひら", "らが", "がな", "カタカナ"},
		"ภาษาไทย":                       {"ภา", "าษ", "ษา", "าไ", "ไท", "ทย"},
		"العربية لغة":                   {"العربية", "لغة"},
		"हिन्दी भाषा":                   {"हिन्दी", "भाषा"},
		"émigré e\u0301migre\u0301":     {"émigré", "émigré"},
		"snake_case fmt.Println x86-64": {"snake_case", "fmt.println", "x86", "64"},
	} {
		var got []string
		EachTerm(text, func(term string) { got = append(got, term) })
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
