package evaluate

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// scripted answers each question by arm.
type scripted map[string]map[string]Given

var errDown = errors.New("the model is down")

func (s scripted) Ask(_ context.Context, req retrieve.Request) (Given, error) {
	given, ok := s[req.Query][req.Corpus]
	if !ok {
		return Given{Calls: 1, InputTokens: 7}, errDown
	}
	return given, nil
}

// TestRunAsk (Seeds 8): answers are scored by rules, alternatives are as good as one another, abstentions count as right or wrong, and
// a question that fails doesn't stop the run.
func TestRunAsk(t *testing.T) {
	questions, err := ReadQuestions(strings.NewReader(`{"id":"one","question":"who?","answer":"The Grey Heron"}
{"id":"two","question":"which?","answer":["a kite","red kite"]}
{"id":"three","question":"when?","answer":null}
{"id":"four","question":"why?","answer":"hunger"}
{"id":"five","question":"where?","answer":"a pond in winter"}`))
	if err != nil {
		t.Fatal(err)
	}
	arms := []Arm{{Name: "base", Request: retrieve.Request{Corpus: "x"}}, {Name: "other", Request: retrieve.Request{Corpus: "y"}}}
	asker := scripted{
		"who?":   {"x": {Text: "grey heron.", Calls: 1, InputTokens: 10, OutputTokens: 2}, "y": {Text: "It is the grey heron [1]."}},
		"which?": {"x": {Text: "Kite"}, "y": {Text: "nothing is said", Abstained: true}},
		"when?":  {"x": {Text: "in 1998"}, "y": {Text: "nothing is said", Abstained: true}},
		"why?":   {"x": {Text: "cold"}},
		"where?": {"x": {Text: "in a pond"}, "y": {Text: "a winter pond in"}},
	}
	report, err := RunAsk(t.Context(), NewConfig(), asker, questions, arms)
	if err != nil {
		t.Fatal(err)
	}
	if report.Questions != 5 || report.Wanted != 4 || len(report.Replies) != 10 {
		t.Fatalf("%+v", report)
	}
	base, other := report.Arms[0], report.Arms[1]
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("exact", base.Exact, 2.0/4)
	near("contains", base.Contains, 2.0/4)
	near("F1", base.F1, (1+1+0+2.0*2/5)/4)
	if base.RightAbstentions != 0 || base.WrongAbstentions != 0 || base.Failed != 0 || base.Calls != 1 || base.InputTokens != 10 || base.OutputTokens != 2 || base.P != nil {
		t.Errorf("%+v", base)
	}
	near("exact of the other", other.Exact, 0)
	near("contains of the other", other.Contains, 1.0/4)
	near("F1 of the other", other.F1, (2.0*2/(5+2)+0+0+1)/4)
	near("difference", other.Difference, other.F1-base.F1)
	if other.RightAbstentions != 1 || other.WrongAbstentions != 1 || other.Failed != 1 || other.P == nil || other.Calls != 1 {
		t.Errorf("%+v", other)
	}
	if failed := report.Replies[7]; failed.Error != errDown.Error() || *failed.F1 != 0 {
		t.Errorf("%+v", failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunAsk(ctx, NewConfig(), asker, questions, arms); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestC22: a list of answers holds alternatives, null says that there is none, and bad lines are named and left out.
func TestC22(t *testing.T) {
	questions, err := ReadQuestions(strings.NewReader(`{"question":"a?","answer":["x","y"]}
{"question":"b?","answer":[]}
{"question":"c?","answer":null}
{"question":"d?","answer":{"text":"z"}}
{"question":"e?","answer":null,"evidence":["d#0"]}
{"question":"f?","answer":[" ","z"]}`))
	var bad *QuestionsError
	if !errors.As(err, &bad) || len(bad.Rows) != 3 {
		t.Fatalf("%v", err)
	}
	for i, says := range []string{"line 2: it has neither", "line 4: answer must be a text, a list", "line 5: its answer is null"} {
		if !strings.HasPrefix(bad.Rows[i], says) {
			t.Errorf("row %q, want %q", bad.Rows[i], says)
		}
	}
	if len(questions) != 3 || len(questions[0].Answer) != 2 || !questions[1].Unanswerable() || len(questions[2].Answer) != 1 {
		t.Errorf("%+v", questions)
	}
	key := newKey(&questions[0])
	hit := retrieve.Hit{Text: "only y stands here"}
	if s := key.score([]retrieve.Hit{hit}, 0.8); s.Coverage != 1 || s.Answered != 1 {
		t.Errorf("one of two alternatives: %+v", s)
	}
}
