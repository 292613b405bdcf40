package llm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// words counts a token for each word.
type words struct{}

func (words) Count(s string) int { return len(strings.Fields(s)) }

// script is a Model that answers and fails as it is told, one entry for each call.
type script struct {
	mu    sync.Mutex
	steps []func(Request) (Reply, error)
	asked []Request
}

func (s *script) Complete(_ context.Context, req Request) (Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, req)
	if len(s.asked) > len(s.steps) {
		return Reply{}, errors.New("the script has no further step")
	}
	return s.steps[len(s.asked)-1](req)
}

func says(text, finish string) func(Request) (Reply, error) {
	return func(Request) (Reply, error) {
		return Reply{Text: text, Finish: finish, InputTokens: 100, OutputTokens: 10}, nil
	}
}

func fails(e Error) func(Request) (Reply, error) {
	return func(Request) (Reply, error) { return Reply{}, &e }
}

func testDeps() Deps {
	return Deps{
		Limiter: exact(LimiterConfig{}), Counter: words{}, Stats: &Stats{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Jitter: func() float64 { return 1 },
	}.filled()
}

func patience(deps Deps, steps ...func(Request) (Reply, error)) (*Patient, *script) {
	s := &script{steps: steps}
	return newPatient(s, where, "m", deps), s
}

func TestPatientWaitsOutThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deps := testDeps()
		p, s := patience(deps,
			fails(Error{Kind: Throttled, RetryAfter: 90 * time.Second}),
			fails(Error{Kind: Throttled, RetryAfter: 45 * time.Second}),
			fails(Error{Kind: Transient}),
			fails(Error{Kind: Throttled, RetryAfter: 30 * time.Second}),
			says("fine", "stop"))
		start := time.Now()
		r, err := p.Complete(t.Context(), Request{Prompt: "a b c", MaxOutputTokens: 9})
		if err != nil || r.Text != "fine" {
			t.Errorf("got %q, %v", r.Text, err)
		}
		if took := time.Since(start); took != 165*time.Second+500*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if s.asked[0].PromptTokens != 3 {
			t.Errorf("the prompt was not counted: %+v", s.asked[0])
		}
		if n := deps.Stats.Throttled.Load(); n != 3 {
			t.Errorf("%d throttled", n)
		}
	})
}

// An endpoint that throttles for ever must not keep a worker's slot for ever.
func TestPatientGivesBackAfterLongThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := patience(testDeps(), fails(Error{Kind: Throttled, RetryAfter: time.Hour}))
		_, err := p.Complete(t.Context(), Request{Prompt: "a"})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Throttled || e.RetryAfter != time.Hour {
			t.Errorf("got %v", err)
		}
	})
}

func TestPatientTriesTransientFailuresAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := fails(Error{Kind: Transient, Message: "no luck"})
		p, _ := patience(testDeps(), bad, bad, says("fine", "stop"))
		if r, err := p.Complete(t.Context(), Request{Prompt: "a"}); err != nil || r.Text != "fine" {
			t.Errorf("got %q, %v", r.Text, err)
		}
		q, s := patience(testDeps(), bad, bad, bad, bad, bad)
		if _, err := q.Complete(t.Context(), Request{Prompt: "a"}); kindOf(err) != Transient || len(s.asked) != clientTries {
			t.Errorf("%d calls, %v", len(s.asked), err)
		}
	})
}

// What ran into its time-out may have been paid for; asking again at once would pay again.
// FAULTS: HKUDS/LightRAG 2316, 2415, 2232.
func TestPatientDoesNotRepeatTimeouts(t *testing.T) {
	deps := testDeps()
	p, s := patience(deps, fails(Error{Kind: Transient, Sent: true, TimedOut: true}))
	if _, err := p.Complete(t.Context(), Request{Prompt: "a"}); kindOf(err) != Transient || len(s.asked) != 1 {
		t.Errorf("%d calls, %v", len(s.asked), err)
	}
	if n := deps.Stats.MaybePaid.Load(); n != 1 {
		t.Errorf("%d maybe paid", n)
	}
}

func TestPatientFailsAtOnceWhereWaitingIsNoUse(t *testing.T) {
	for _, kind := range []Kind{Auth, Quota, Invalid, TooLong, BadAnswer} {
		p, s := patience(testDeps(), fails(Error{Kind: kind}))
		if _, err := p.Complete(t.Context(), Request{Prompt: "a"}); kindOf(err) != kind || len(s.asked) != 1 {
			t.Errorf("%s: %d calls, %v", kind, len(s.asked), err)
		}
	}
}

func TestPatientKeepsTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(BudgetConfig{MaxTokens: 400})
		deps := testDeps()
		deps.Budget = budget
		p, s := patience(deps, fails(Error{Kind: Transient}), says("fine", "stop"), says("fine", "stop"), says("fine", "stop"), says("fine", "stop"))
		for i := range 3 {
			if _, err := p.Complete(t.Context(), Request{Prompt: "a", Build: "b", MaxOutputTokens: 100}); err != nil && i < 3 {
				t.Fatal(err)
			}
		}
		if tokens, _ := budget.Spent("b"); tokens != 330 {
			t.Errorf("%d tokens booked", tokens)
		}
		_, err := p.Complete(t.Context(), Request{Prompt: "a", Build: "b", MaxOutputTokens: 100})
		if !errors.Is(err, ErrBudget) || len(s.asked) != 4 {
			t.Errorf("%d calls, %v", len(s.asked), err)
		}
	})
}

func TestPatientStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := patience(testDeps(), fails(Error{Kind: Throttled, RetryAfter: time.Minute}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Complete(ctx, Request{Prompt: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func checkedConfig() SummariesConfig {
	cfg := DefaultSummaries()
	cfg.Provider, cfg.ContextTokens, cfg.MaxOutputTokens = ProviderOpenAI, 1000, 100
	return cfg
}

func checking(steps ...func(Request) (Reply, error)) (*Checked, *script, Deps) {
	s := &script{steps: steps}
	deps := testDeps()
	return newChecked(s, checkedConfig(), deps), s, deps
}

func call() mapreduce.Call {
	return mapreduce.Call{Prompt: "Sum: {chunks}", Texts: []string{strings.Repeat("word ", 50)}, MaxOutputTokens: 100, Build: "b"}
}

func outputs(s *script) []int {
	var out []int
	for _, r := range s.asked {
		out = append(out, r.MaxOutputTokens)
	}
	return out
}

func TestCheckedAsksOnceMoreWithMoreRoom(t *testing.T) {
	for name, bad := range map[string]func(Request) (Reply, error){
		"empty": says("", "stop"), "reasoning": says("<think>hm", "length"), "cut off": says("It is", "length"),
	} {
		c, s, deps := checking(bad, says("<think>ok</think> Good.", "stop"))
		a, err := c.Summarize(t.Context(), call())
		if err != nil {
			t.Fatal(err)
		}
		want := mapreduce.Answer{Text: "Good.", Usage: tree.Usage{Calls: 2, InputTokens: 200, OutputTokens: 20, Refused: 1}}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		second := 200
		if name == "reasoning" { // all that the window has room for, which is less than ten times as much
			second = c.room(s.asked[0])
		}
		if diff := cmp.Diff([]int{100, second}, outputs(s)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if deps.Stats.SecondTries.Load() != 1 || deps.Stats.Refused() != 1 {
			t.Errorf("%s: not counted", name)
		}
	}
}

// Where a model cuts off as a rule, the second try is the last; where it is an exception, more are worth their price.
// FAULTS: Martian-Engineering/lossless-claw 877.
func TestCheckedGivesUp(t *testing.T) {
	bad := says("It is", "length") // no sentence that could be kept
	c, s, _ := checking(bad, bad, bad, bad, bad, bad, bad, says("Good.", "stop"))
	c.bad.Store(10)
	_, err := c.Summarize(t.Context(), call())
	var e *Error
	if !errors.As(err, &e) || e.Kind != BadAnswer || e.Reason != CutOff || e.Cause() != "cut_off" || len(s.asked) != 2 {
		t.Errorf("%d calls, %v", len(s.asked), err)
	}
	if !strings.Contains(err.Error(), "summaries.max_output_tokens") {
		t.Errorf("no advice: %v", err)
	}
	c, s, _ = checking(bad, bad, bad, bad, bad, bad)
	c.good.Store(100)
	if _, err := c.Summarize(t.Context(), call()); kindOf(err) != BadAnswer {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]int{100, 200, 400, 400, 400}, outputs(s)); diff != "" {
		t.Error(diff)
	}
}

// No try may exceed the window: by the rule of thumb of 1.3 tokens a word, 600 words leave 1000 - 32 - 781 = 187.
func TestCheckedStaysWithinTheWindow(t *testing.T) {
	bad := says("", "stop")
	c, s, _ := checking(bad, says("Good.", "stop"))
	k := call()
	k.Texts = []string{strings.TrimSpace(strings.Repeat("wo ", 600))}
	if _, err := c.Summarize(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	prompt := mapreduce.Render(k.Prompt, k.Texts, 100)
	if want := 1000 - mapreduce.MessageTokens - mapreduce.Guess(prompt); want < 180 || want > 190 || s.asked[1].MaxOutputTokens != want {
		t.Errorf("the second try has %d, want %d", s.asked[1].MaxOutputTokens, want)
	}
}

// FAULTS: infiniflow/ragflow 9317.
func TestCheckedRefusalsAreFinal(t *testing.T) {
	c, s, deps := checking(says("I can't help with that.", "stop"))
	_, err := c.Summarize(t.Context(), call())
	var e *Error
	if !errors.As(err, &e) || e.Reason != Refusal || len(s.asked) != 1 || deps.Stats.Refused(Refusal) != 1 {
		t.Errorf("%d calls, %v", len(s.asked), err)
	}
}

func TestCheckedCountsLongAnswersAndShortenedPrompts(t *testing.T) {
	c, _, deps := checking(says(strings.Repeat("long ", 100), "stop"), func(Request) (Reply, error) {
		return Reply{Text: "Fine.", InputTokens: 300}, nil
	})
	if _, err := c.Summarize(t.Context(), call()); err != nil || deps.Stats.Longer.Load() != 1 {
		t.Errorf("%d longer, %v", deps.Stats.Longer.Load(), err)
	}
	k := call()
	k.InputTokens = 2000
	if _, err := c.Summarize(t.Context(), k); err != nil || deps.Stats.Shortened.Load() != 1 {
		t.Errorf("%d shortened, %v", deps.Stats.Shortened.Load(), err)
	}
}

// Seeds 5: a model that always reasons, for 1,000 tokens, with the defaults: once one answer is there, no call is made for
// less than that takes.
func TestCheckedLearnsThatAModelReasons(t *testing.T) {
	reasons := func(req Request) (Reply, error) {
		if req.MaxOutputTokens < 1100 {
			return Reply{Text: "<think>hm", Finish: "length", InputTokens: 100, OutputTokens: req.MaxOutputTokens}, nil
		}
		return Reply{Text: "<think>hm</think>Good.", Finish: "stop", InputTokens: 100, OutputTokens: 1100}, nil
	}
	s := &script{}
	for range 60 {
		s.steps = append(s.steps, reasons)
	}
	cfg := checkedConfig()
	cfg.ContextTokens, cfg.MaxOutputTokens = DefaultSummaries().ContextTokens, DefaultSummaries().MaxOutputTokens
	c := newChecked(s, cfg, testDeps())
	for range 40 {
		k := call()
		k.MaxOutputTokens = cfg.MaxOutputTokens
		if a, err := c.Summarize(t.Context(), k); err != nil || a.Text != "Good." {
			t.Fatalf("%q, %v", a.Text, err)
		}
	}
	if want := 2 + 39; len(s.asked) != want {
		t.Errorf("%d calls, want %d", len(s.asked), want)
	}
}

// What was learned of a model doesn't lead beyond its window.
func TestCheckedStartsWithinTheWindow(t *testing.T) {
	bad := says("<think>hm", "length")
	c, s, _ := checking(bad, bad, bad, bad, bad, bad)
	c.start.Store(10)
	// A prompt that leaves less room than that gets what there is.
	k := call()
	k.Texts = []string{strings.TrimSpace(strings.Repeat("wo ", 650))}
	if _, err := c.Summarize(t.Context(), k); kindOf(err) != BadAnswer {
		t.Errorf("got %v", err)
	}
	if got := s.asked[0].MaxOutputTokens; got < 100 || got > 130 {
		t.Errorf("started with %d", got)
	}
}
