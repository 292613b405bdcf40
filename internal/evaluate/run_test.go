package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// searcher finds as many of the words of an answer as the request's TopK says.
type searcher struct {
	answers    map[string][]string
	asked      []string
	generation int
}

func (s *searcher) Retrieve(_ context.Context, req retrieve.Request) (retrieve.Result, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s %d", req.Query, *req.TopK))
	if req.Query == "broken" {
		return retrieve.Result{}, errors.New("out of order")
	}
	words := s.answers[req.Query]
	text := strings.Join(words[:min(*req.TopK, len(words))], " ")
	return retrieve.Result{Generation: s.generation, Hits: []retrieve.Hit{leafHit("d", 0, text)}}, nil
}

func arm(name, group string, topK int) Arm {
	return Arm{Name: name, Group: group, Request: retrieve.Request{Corpus: "c", Options: retrieve.Options{TopK: &topK}}}
}

// twentyQuestions have four words of answer each, half of them of type "even".
func twentyQuestions() ([]Question, *searcher) {
	s := &searcher{answers: map[string][]string{}, generation: 3}
	var questions []Question
	for i := range 20 {
		words := []string{fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i), fmt.Sprint("d", i)}
		q := Question{ID: fmt.Sprint(i), Question: fmt.Sprint("question", i), Answer: Answers{strings.Join(words, " ")}}
		if i%2 == 0 {
			q.Type = "even"
		}
		s.answers[q.Question] = words
		questions = append(questions, q)
	}
	return questions, s
}

func testConfig() Config {
	cfg := NewConfig()
	cfg.Resamples = 2000
	return cfg
}

func TestRun(t *testing.T) {
	questions, s := twentyQuestions()
	arms := []Arm{arm("one", "g", 1), arm("three", "g", 3), arm("again", "g", 1), arm("four", "h", 4)}
	prepared := 0
	cfg := testConfig()
	cfg.Prepare = func(context.Context, string) error { prepared++; return nil }
	report, err := Run(t.Context(), cfg, s, questions, arms)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 80 || prepared != 20 || s.asked[0] != "question0 1" || s.asked[4] != "question1 3" {
		t.Errorf("%d requests after %d preparations, first %q, fifth %q", len(s.asked), prepared, s.asked[0], s.asked[4])
	}
	for i, want := range []float64{0.25, 0.75, 0.25, 1} {
		a := report.Arms[i]
		near(t, a.Name, a.All.Coverage.Mean, want, 1e-12)
		near(t, a.Name+", even", a.Types[0].Coverage.Mean, want, 1e-12)
		if a.All.Questions != 20 || a.Types[0].Questions != 10 || a.All.Recall != nil || a.All.Tokens != 4*want {
			t.Errorf("%s: %+v", a.Name, a.All)
		}
	}
	if diff := cmp.Diff([]bool{true, false, false, true}, []bool{report.Arms[0].Baseline, report.Arms[1].Baseline, report.Arms[2].Baseline, report.Arms[3].Baseline}); diff != "" {
		t.Errorf("baselines (-want +got):\n%s", diff)
	}
	got := map[string]Comparison{}
	for _, c := range report.Comparisons {
		got[fmt.Sprint(c.Arm, " ", c.Type, " ", c.Metric)] = c
	}
	if len(got) != 8 || len(report.Comparisons) != 8 { // two arms, two metrics, two kinds
		t.Errorf("%d comparisons: %v", len(got), got)
	}
	// All 20 differences are 0.5: two of 2^20 choices of signs are as large, too few to be drawn.
	c := got["three  coverage"]
	wantP := 1.0 / 2001
	if diff := cmp.Diff([]any{20, 20, 0, 0.5, 0.5, 0.5, wantP, 2 * wantP}, []any{c.N, c.Wins, c.Losses, c.Difference, c.Low, c.High, c.P, c.Holm}, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("three (-want +got):\n%s", diff)
	}
	// Of ten, all choices are counted: 2 of 1024.
	c = got["three even coverage"]
	near(t, "p of ten", c.P, 2.0/1024, 1e-12)
	near(t, "Wilcoxon's p of ten", *c.Wilcoxon, 2.0/1024, 1e-12)
	c = got["again  coverage"]
	if c.P != 1 || c.Holm != 1 || c.Difference != 0 {
		t.Errorf("an arm that does the same: %+v", c)
	}
	if c = got["three  answered"]; c.Test != "mcnemar" || c.P != 1 { // 0.75 is below the threshold
		t.Errorf("answered: %+v", c)
	}
	if diff := cmp.Diff([]Tree{{Corpus: "c", Generation: 3}}, report.Trees); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
}

// sweeper is a searcher that finds more words the larger the budget is, and notes what it was asked together.
type sweeper struct {
	searcher
	together []string
}

func (s *sweeper) RetrieveAt(ctx context.Context, req retrieve.Request, budgets []int, each func(int, retrieve.Result)) error {
	s.together = append(s.together, fmt.Sprint(req.Query, " ", budgets))
	for i, budget := range budgets {
		req.Budget, req.TopK = new(budget), new(budget)
		result, err := s.Retrieve(ctx, req)
		if err != nil {
			return err
		}
		each(i, result)
	}
	return nil
}

// Arms that differ by their budget alone are asked together, each in its turn as the first, whose time counts.
func TestArmsOfSeveralBudgets(t *testing.T) {
	questions, plain := twentyQuestions()
	s := &sweeper{searcher: *plain}
	arms := Grid([]Arm{arm("a", "", 1), {Name: "b", Request: retrieve.Request{Corpus: "c"}}}, 1, 2, 4)
	report, err := Run(t.Context(), testConfig(), s, questions, arms)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.25, 0.25, 0.5, 0.5, 1, 1} {
		near(t, report.Arms[i].Name, report.Arms[i].All.Coverage.Mean, want, 1e-12)
	}
	want := []string{"question0 [1 2 4]", "question0 [1 2 4]", "question1 [1 2 4]", "question1 [1 2 4]", "question2 [2 4 1]", "question2 [2 4 1]"}
	if diff := cmp.Diff(want, s.together[:6]); diff != "" || len(s.together) != 40 {
		t.Errorf("%d times (-want +got):\n%s", len(s.together), diff)
	}
	for a, arm := range report.Arms {
		for i, score := range report.Scores[a] {
			if first := i/2%3 == a/2; (score.Latency > 0) != first {
				t.Errorf("%s of %s, question %d: latency %v", arm.Name, arm.Group, i, score.Latency)
			}
		}
	}
}

func TestReportIsPinned(t *testing.T) {
	run := func(change func(*Config, []Question, []Arm)) *Report {
		questions, s := twentyQuestions()
		arms := []Arm{arm("one", "g", 1), arm("two", "g", 2)}
		cfg := testConfig()
		change(&cfg, questions, arms)
		report, err := Run(t.Context(), cfg, s, questions, arms)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	first := run(func(*Config, []Question, []Arm) {})
	latency := cmpopts.IgnoreFields(Summary{}, "P50MS", "P95MS")
	scores := cmpopts.IgnoreFields(Report{}, "Scores")
	config := cmpopts.IgnoreFields(Config{}, "Prepare", "Progress")
	if diff := cmp.Diff(first, run(func(*Config, []Question, []Arm) {}), latency, scores, config); diff != "" {
		t.Errorf("the same again (-first +second):\n%s", diff)
	}
	for name, change := range map[string]func(*Config, []Question, []Arm){
		"seed":     func(c *Config, _ []Question, _ []Arm) { c.Seed++ },
		"an arm":   func(_ *Config, _ []Question, a []Arm) { a[1].Request.Sharpness = new(2.0) },
		"a filter": func(_ *Config, _ []Question, a []Arm) { a[1].Request.MaxLevel = new(int) },
	} {
		if run(change).OptionsHash == first.OptionsHash {
			t.Errorf("%s leaves the hash of the options as it is", name)
		}
	}
	if run(func(_ *Config, q []Question, _ []Arm) { q[3].Answer = Answers{q[3].Answer[0] + " more"} }).QuestionsHash == first.QuestionsHash {
		t.Error("another answer leaves the hash of the questions as it is")
	}
}

func TestRunRefuses(t *testing.T) {
	questions, s := twentyQuestions()
	for says, change := range map[string]func(*Config, *[]Arm){
		"no arm":                 func(_ *Config, a *[]Arm) { *a = nil },
		"has no name":            func(_ *Config, a *[]Arm) { (*a)[0].Name = "" },
		`two arms are named "x"`: func(_ *Config, a *[]Arm) { *a = []Arm{arm("x", "", 1), arm("x", "", 2)} },
		`arm "two": boost is 0`:  func(_ *Config, a *[]Arm) { (*a)[1].Request.Boost = new(0.0) },
		`the baseline "three" is no arm of group "g"`: func(c *Config, _ *[]Arm) { c.Baseline = "three" },
		"resamples is 3":  func(c *Config, _ *[]Arm) { c.Resamples = 3 },
		"threshold is 2":  func(c *Config, _ *[]Arm) { c.Threshold = 2 },
		"confidence is 1": func(c *Config, _ *[]Arm) { c.Confidence = 1 },
	} {
		cfg, arms := testConfig(), []Arm{arm("one", "g", 1), arm("two", "g", 2)}
		change(&cfg, &arms)
		_, err := Run(t.Context(), cfg, s, questions, arms)
		var usage *retrieve.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want a usage error that says %q", err, says)
		}
	}
	_, err := Run(t.Context(), testConfig(), s, []Question{{ID: "q7", Question: "broken", Answer: Answers{"x"}}}, []Arm{arm("one", "", 1)})
	if err == nil || !strings.Contains(err.Error(), "arm one: question q7: out of order") {
		t.Errorf("error is %v", err)
	}
}

func TestATreeThatChangesUnderneath(t *testing.T) {
	questions, s := twentyQuestions()
	cfg := testConfig()
	cfg.Progress = func(done, _ int) { s.generation = 3 + done/10 }
	_, err := Run(t.Context(), cfg, s, questions, []Arm{arm("one", "", 1)})
	if err == nil || !strings.Contains(err.Error(), "from generation 3 to 4") {
		t.Errorf("error is %v", err)
	}
}

func TestReportsAreReadable(t *testing.T) {
	questions, s := twentyQuestions()
	report, err := Run(t.Context(), testConfig(), s, questions, Grid([]Arm{arm("one", "", 1), arm("<two>", "", 2)}, 250, 500))
	if err != nil {
		t.Fatal(err)
	}
	var table, plot bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"20 questions", "250 tokens", "500 tokens", "baseline", "0.2500", "+0.2500", "20-0", "even"} {
		if !strings.Contains(table.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, &table)
		}
	}
	if err := report.WritePlot(&plot, Coverage); err != nil {
		t.Fatal(err)
	}
	circles := 0
	for decoder := xml.NewDecoder(&plot); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 4 {
		t.Errorf("%d dots for 4 arms", circles)
	}
	if err := report.WritePlot(io.Discard, NDCG); err != nil { // nothing to show
		t.Error(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
}

func TestTreeHash(t *testing.T) {
	node := func(text string, died int) tree.Node {
		return tree.Node{ID: tree.LeafID("c", "d", 0, text), Text: text, DocumentID: "d", Died: died, Tokens: 1, Vector: []float32{1}}
	}
	hash := func(nodes ...tree.Node) string {
		s := storetest.NewMemory()
		if err := s.Put(t.Context(), "c", nodes); err != nil {
			t.Fatal(err)
		}
		h, err := TreeHash(t.Context(), s, "c", 1)
		if err != nil || len(h) != 32 {
			t.Fatalf("hash %q, %v", h, err)
		}
		return h
	}
	one := hash(node("a", tree.Alive))
	if one != hash(node("a", tree.Alive), node("gone", 1)) {
		t.Error("a node that readers don't see changes the hash")
	}
	if one == hash(node("b", tree.Alive)) {
		t.Error("another text has the same hash")
	}
}
