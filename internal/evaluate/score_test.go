package evaluate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

func leafHit(document string, chunk int, text string) retrieve.Hit {
	id := tree.LeafID("c", document, chunk, text)
	return retrieve.Hit{
		ID: id, Text: text, Tokens: len(strings.Fields(text)), DocumentIDs: []string{document},
		SourceIDs: []tree.ID{id}, NSources: 1, ChunkIndex: chunk,
	}
}

func summaryHit(text string, of ...retrieve.Hit) retrieve.Hit {
	h := retrieve.Hit{Level: 1, Text: text, Tokens: len(strings.Fields(text)), DocumentIDs: []string{"d"}, NSources: len(of), ChunkIndex: -1}
	for _, leaf := range of {
		h.SourceIDs = append(h.SourceIDs, leaf.ID)
	}
	return h
}

func TestContentWords(t *testing.T) {
	got := contentWords("The treatment of BCC is surgery, or the patient's own surgery.", "What is the treatment for BCC?")
	if diff := cmp.Diff([]string{"surgery", "patient"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswerCoverage(t *testing.T) {
	q := Question{Question: "What treats BCC?", Answer: Answers{"Surgery treats BCC, with radiation and creams."}}
	key := newKey(&q)
	for _, c := range []struct {
		hits     []retrieve.Hit
		coverage float64
		answered float64
	}{
		{nil, 0, 0},
		{[]retrieve.Hit{leafHit("d", 0, "BCC treats")}, 0, 0}, // words of the question say nothing
		{[]retrieve.Hit{leafHit("d", 0, "SURGERY first.")}, 1.0 / 3, 0},
		{[]retrieve.Hit{leafHit("d", 0, "surgery"), leafHit("d", 1, "creams, surgery")}, 2.0 / 3, 1},
		{[]retrieve.Hit{leafHit("d", 0, "surgery"), summaryHit("radiation creams")}, 1, 1},
	} {
		s := key.score(c.hits, 0.5)
		near(t, "coverage", s.Coverage, c.coverage, 1e-12)
		near(t, "answered", s.Answered, c.answered, 0)
		if !math.IsNaN(s.Recall) || !math.IsNaN(s.NDCG) {
			t.Errorf("without evidence recall is %v and nDCG %v", s.Recall, s.NDCG)
		}
	}
	echo := Question{Question: "Is it BCC?", Answer: Answers{"It is BCC."}}
	key = newKey(&echo)
	if s := key.score(nil, 0.5); !math.IsNaN(s.Coverage) || !math.IsNaN(s.Answered) {
		t.Errorf("an answer that repeats the question is covered by %v", s.Coverage)
	}
}

func TestHitsAreCounted(t *testing.T) {
	key := newKey(&Question{Question: "q", Answer: Answers{"a b"}})
	s := key.score([]retrieve.Hit{leafHit("d", 0, "one two"), summaryHit("three"), summaryHit("four five")}, 0.5)
	near(t, "summaries", s.Summaries, 2.0/3, 1e-12)
	if s.Hits != 3 || s.Tokens != 5 {
		t.Errorf("%d hits with %d tokens, want 3 with 5", s.Hits, s.Tokens)
	}
}

func TestEvidenceRecall(t *testing.T) {
	a, b := leafHit("d", 0, "sun and moon"), leafHit("d", 1, "rain")
	q := Question{Question: "q", Evidence: []string{a.ID.String(), "d#1", "the moon over water"}}
	key := newKey(&q)
	for _, c := range []struct {
		hits []retrieve.Hit
		want float64
	}{
		{nil, 0},
		{[]retrieve.Hit{leafHit("e", 1, "rain")}, 0},             // another document's chunk 1
		{[]retrieve.Hit{b}, 1.0 / 3},                             // by document and chunk
		{[]retrieve.Hit{a}, (1 + 0.5) / 3},                       // by id, and half of the passage
		{[]retrieve.Hit{a, b, summaryHit("water", a)}, 1},        // a summary's words count too
		{[]retrieve.Hit{summaryHit("nothing of it", a, b)}, 0},   // but its sources are not found by it
		{[]retrieve.Hit{leafHit("d", 9, "moon water"), a, b}, 1}, // passages may come from several hits
	} {
		near(t, "recall", key.score(c.hits, 0.5).Recall, c.want, 1e-12)
	}
}

// The ideal list of two leaves has 1 + 1/log2(3).
func TestNDCG(t *testing.T) {
	a, b, c := leafHit("d", 0, "a"), leafHit("d", 1, "b"), leafHit("d", 2, "c")
	q := Question{Question: "q", Evidence: []string{a.ID.String(), b.ID.String()}}
	key := newKey(&q)
	ideal := 1 + 1/math.Log2(3)
	for _, x := range []struct {
		hits []retrieve.Hit
		want float64
	}{
		{[]retrieve.Hit{a, b}, 1},
		{[]retrieve.Hit{b, a, c}, 1},
		{[]retrieve.Hit{c, a}, 1 / math.Log2(3) / ideal},
		{[]retrieve.Hit{c}, 0},
		{[]retrieve.Hit{summaryHit("s", a, b), c}, 1 / ideal},                         // all its sources are evidence
		{[]retrieve.Hit{summaryHit("s", a, c)}, 0.5 / ideal},                          // half of them
		{[]retrieve.Hit{a, summaryHit("s", a, b), b}, (1 + 0.5/math.Log2(3)) / ideal}, // no leaf twice
	} {
		near(t, "nDCG", key.score(x.hits, 0.5).NDCG, x.want, 1e-12)
	}
}

func TestReadQuestions(t *testing.T) {
	got, err := ReadQuestions(strings.NewReader(`{"id":"1","question":"why?","answer":"so","type":"t","other":3}

{"id":"2","question":"how?","evidence":["d#0"]}`))
	want := []Question{
		{ID: "1", Question: "why?", Answer: Answers{"so"}, Type: "t"},
		{ID: "2", Question: "how?", Answer: Answers{}, Evidence: []string{"d#0"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, says := range map[string]string{
		"": "there is none",
		"{\"question\":\"q\",\"answer\":\"a\"}\n{": "line 2",
		`{"answer":"a"}`:   "line 1: it has no question",
		`{"question":"q"}`: "neither an answer nor evidence",
		`{"id":"x","question":"q","answer":"a"}` + "\n" + `{"id":"x","question":"q","answer":"a"}`: `line 2: the id "x" stands in line 1 too`,
	} {
		if _, err := ReadQuestions(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error is %v, want one that says %q", text, err, says)
		}
	}
	// Every bad row is told of, and of very many some.
	bad := strings.Repeat("{}\n", 12) + `{"id":"1","question":"q","answer":"a"}`
	_, err = ReadQuestions(strings.NewReader(bad))
	var rows *QuestionsError
	if !errors.As(err, &rows) || len(rows.Rows) != 12 || !strings.Contains(err.Error(), "line 10: it has no question; and 2 more bad rows") {
		t.Errorf("error is %v", err)
	}
}
