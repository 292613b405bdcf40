package mapreduce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// words counts a token for each word.
type words struct{}

func (words) Count(s string) int { return len(strings.Fields(s)) }

// model answers with the first words of its passages, as many as it may, and checks each call.
type model struct {
	t        testing.TB
	cfg      mapreduce.Config
	calls    int
	in, out  int
	texts    [][]string
	tooLong  int // refuses prompts of more words
	verbose  int // words of each answer, instead of the bound
	failWith error
}

type tooLongError struct{}

func (tooLongError) Error() string { return "context length exceeded" }
func (tooLongError) TooLong() bool { return true }

func (m *model) Summarize(_ context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	prompt := mapreduce.Render(call.Prompt, call.Texts, call.MaxOutputTokens)
	n := words{}.Count(prompt)
	if m.failWith != nil {
		return mapreduce.Answer{}, m.failWith
	}
	if m.tooLong > 0 && n > m.tooLong {
		return mapreduce.Answer{}, fmt.Errorf("endpoint: %w", tooLongError{})
	}
	if worst := mapreduce.Worst(words{}, prompt, m.cfg.Margin); worst+call.MaxOutputTokens > m.cfg.ContextTokens {
		m.t.Errorf("a call of %d tokens and %d for the answer doesn't fit into %d", worst, call.MaxOutputTokens, m.cfg.ContextTokens)
	}
	m.calls++
	m.in += n
	m.texts = append(m.texts, call.Texts)
	fields := strings.Fields(strings.Join(call.Texts, " "))
	limit := call.MaxOutputTokens
	if m.verbose > 0 {
		limit = m.verbose
	}
	fields = fields[:min(len(fields), limit)]
	m.out += len(fields)
	return mapreduce.Answer{Text: strings.Join(fields, " "), Usage: tree.Usage{Calls: 1, InputTokens: n, OutputTokens: len(fields)}}, nil
}

func text(n int) string { return strings.TrimSpace(strings.Repeat("wor ", n)) }

func children(tokens ...int) []mapreduce.Child {
	var out []mapreduce.Child
	for i, n := range tokens {
		out = append(out, mapreduce.Child{Text: fmt.Sprintf("c%d %s", i, text(n-1)), Tokens: n})
	}
	return out
}

func config() mapreduce.Config {
	return mapreduce.Config{ContextTokens: 400, MaxOutputTokens: 40, Prompt: "Summarize: {chunks}", Margin: 0.2, Counter: words{}}
}

func TestAClusterThatFitsIsOneCall(t *testing.T) {
	cfg := config()
	m := &model{t: t, cfg: cfg}
	got, err := mapreduce.Summarize(t.Context(), m, cfg, children(20, 30, 40))
	if err != nil {
		t.Fatal(err)
	}
	if m.calls != 1 || got.Usage.Calls != 1 || !strings.HasPrefix(got.Text, "c0 ") {
		t.Errorf("%d calls, answer %q", m.calls, got.Text)
	}
	if diff := cmp.Diff([]string{"c0", "c1", "c2"}, heads(m.texts[0])); diff != "" {
		t.Error(diff)
	}
}

// One child alone is still summarized: its node must have a text of the model's.
func TestASingleChildIsOneCall(t *testing.T) {
	cfg := config()
	m := &model{t: t, cfg: cfg}
	if _, err := mapreduce.Summarize(t.Context(), m, cfg, children(3)); err != nil || m.calls != 1 {
		t.Errorf("%d calls, %v", m.calls, err)
	}
}

func heads(texts []string) []string {
	var out []string
	for _, s := range texts {
		out = append(out, strings.Fields(s)[0])
	}
	return out
}

// The window has room for (400 - 32 - 80)/1.2 - 1 = 239 tokens of passages, each with 2 for its separator, so four of
// 50 (208) fit and five (260) don't. Ten children make three batches; their answers, each counted as 40*1.2+2 = 50,
// fit into one more call.
// FAULTS: infiniflow/ragflow 5457.
func TestBatchesByHand(t *testing.T) {
	cfg := config()
	m := &model{t: t, cfg: cfg}
	got, err := mapreduce.Summarize(t.Context(), m, cfg, children(50, 50, 50, 50, 50, 50, 50, 50, 50, 50))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"c0", "c1", "c2", "c3"}, {"c4", "c5", "c6", "c7"}, {"c8", "c9"}, {"c0", "c4", "c8"}}
	var have [][]string
	for _, texts := range m.texts {
		have = append(have, heads(texts))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tree.Usage{Calls: 4, InputTokens: m.in, OutputTokens: m.out}, got.Usage); diff != "" {
		t.Error(diff)
	}
}

func TestEstimateAgreesWithSummarize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		cfg.Margin = 0.3 // so that 1.3 tokens a word, one of Worst's rules, is no surprise
		cfg.ContextTokens = rapid.IntRange(300, 3000).Draw(rt, "context")
		cfg.MaxOutputTokens = rapid.IntRange(5, 80).Draw(rt, "output")
		for cfg.Validate() != nil {
			cfg.ContextTokens += 50
		}
		tokens := rapid.SliceOfN(rapid.IntRange(1, 120), 1, 120).Draw(rt, "tokens")
		for i := range tokens { // a child that must be cut is cut where its sentences end: not a matter of tokens alone
			tokens[i] = min(tokens[i], cfg.ContextTokens/4)
		}
		m := &model{t: t, cfg: cfg}
		got, err := mapreduce.Summarize(context.Background(), m, cfg, children(tokens...))
		if err != nil {
			rt.Fatal(err)
		}
		if m.calls != got.Usage.Calls {
			rt.Fatalf("%d calls are said to be %d", m.calls, got.Usage.Calls)
		}
		if m.calls > 2*len(tokens) {
			rt.Fatalf("%d calls for %d children", m.calls, len(tokens))
		}
	})
}

// FAULTS: infiniflow/ragflow 10406.
func TestPackProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 100), 0, 80).Draw(rt, "sizes")
		budget := rapid.IntRange(1, 300).Draw(rt, "budget")
		batches := mapreduce.Pack(sizes, budget)
		at := 0
		for _, b := range batches {
			if b.From != at || b.To <= b.From {
				rt.Fatalf("batches %v leave out or reorder items", batches)
			}
			at = b.To
			sum := 0
			for _, s := range sizes[b.From:b.To] {
				sum += s
			}
			if sum > budget && b.Len() > 1 {
				rt.Fatalf("batch %v holds %d, budget %d", b, sum, budget)
			}
		}
		if at != len(sizes) {
			rt.Fatalf("batches %v of %d items", batches, len(sizes))
		}
		if want := fewest(sizes, budget); len(batches) != want {
			rt.Fatalf("%d batches, %d would do", len(batches), want)
		}
	})
}

// fewest is the least number of batches, by dynamic programming.
func fewest(sizes []int, budget int) int {
	best := make([]int, len(sizes)+1)
	for i := 1; i <= len(sizes); i++ {
		best[i] = 1 + best[i-1]
		sum := sizes[i-1]
		for j := i - 1; j > 0; j-- {
			if sum += sizes[j-1]; sum > budget {
				break
			}
			best[i] = min(best[i], 1+best[j-1])
		}
	}
	return best[len(sizes)]
}

func TestPackEvensOut(t *testing.T) {
	got := mapreduce.Pack([]int{10, 10, 10, 10, 10, 10}, 50)
	if diff := cmp.Diff([]mapreduce.Batch{{From: 0, To: 3}, {From: 3, To: 6}}, got); diff != "" {
		t.Error(diff)
	}
}

// A text over the window is cut at sentences, and no word of it is lost on the way to the model.
func TestALongChildIsCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		n := rapid.IntRange(1, 1500).Draw(rt, "words")
		every := rapid.IntRange(1, 600).Draw(rt, "sentence length")
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "w%d", i)
			if (i+1)%every == 0 {
				b.WriteString(".")
			}
			b.WriteString(" ")
		}
		m := &model{t: t, cfg: cfg}
		if _, err := mapreduce.Summarize(context.Background(), m, cfg, []mapreduce.Child{{Text: b.String()}}); err != nil {
			rt.Fatal(err)
		}
		var seen []string
		for _, texts := range m.texts {
			for _, s := range texts {
				if fields := strings.Fields(s); strings.TrimRight(fields[0], ".") == fmt.Sprintf("w%d", len(seen)) {
					seen = append(seen, fields...)
				}
			}
		}
		if !slices.Equal(seen, strings.Fields(b.String())) {
			rt.Fatalf("%d of %d words reached the model in order: %v", len(seen), n, m.texts)
		}
	})
}

// runes counts a token for each rune but white space, as some tokenizers do for some scripts.
type runes struct{}

func (runes) Count(s string) int { return len([]rune(strings.Join(strings.Fields(s), ""))) }

type anyModel func(call mapreduce.Call) (mapreduce.Answer, error)

func (f anyModel) Summarize(_ context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	return f(call)
}

func TestATextWithoutWhiteSpaceIsCutBetweenRunes(t *testing.T) {
	cfg := mapreduce.Config{ContextTokens: 4096, MaxOutputTokens: 100, Prompt: "{chunks}", Margin: 0.2, Counter: runes{}}
	long := strings.Repeat("界", 60_000)
	var got int
	calls := 0
	_, err := mapreduce.Summarize(t.Context(), anyModel(func(call mapreduce.Call) (mapreduce.Answer, error) {
		calls++
		joined := strings.Join(call.Texts, "")
		if n := (runes{}).Count(joined); float64(n)*1.2+100 > 4096 {
			t.Errorf("a call of %d runes", n)
		}
		got += strings.Count(joined, "界")
		return mapreduce.Answer{Text: "summary"}, nil
	}), cfg, []mapreduce.Child{{Text: long}})
	if err != nil || got != 60_000 {
		t.Errorf("%d runes reached the model in %d calls: %v", got, calls, err)
	}
}

// The counter sees one word where a tokenizer may see hundreds of marks; what is sent must fit for both.
func TestTablesAreHalvedUntilTheyFit(t *testing.T) {
	cfg := config()
	var in []mapreduce.Child
	for i := range 6 {
		in = append(in, mapreduce.Child{Text: fmt.Sprintf("t%d ", i) + strings.Repeat("=", 90)})
	}
	var got []string
	_, err := mapreduce.Summarize(t.Context(), anyModel(func(call mapreduce.Call) (mapreduce.Answer, error) {
		prompt := mapreduce.Render(call.Prompt, call.Texts, call.MaxOutputTokens)
		if marks := strings.Count(prompt, "="); marks+2*call.MaxOutputTokens > cfg.ContextTokens {
			t.Errorf("a call with %d marks", marks)
		}
		got = append(got, heads(call.Texts)...)
		return mapreduce.Answer{Text: "tables"}, nil
	}), cfg, in)
	if diff := cmp.Diff([]string{"t0", "t1", "t2", "t3", "t4", "t5", "tables", "tables"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// An endpoint with a smaller window than configured says so; the batch is halved and nothing is lost.
func TestTooLongIsHalved(t *testing.T) {
	cfg := config()
	m := &model{t: t, cfg: cfg, tooLong: 90}
	got, err := mapreduce.Summarize(t.Context(), m, cfg, children(50, 50, 50, 50))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, texts := range m.texts {
		for _, h := range heads(texts) {
			seen[h] = true
		}
	}
	if len(seen) < 4 || got.Text == "" {
		t.Errorf("only %v reached the model", seen)
	}
}

func TestTooLongForEverEnds(t *testing.T) {
	_, err := mapreduce.Summarize(t.Context(), anyModel(func(mapreduce.Call) (mapreduce.Answer, error) {
		return mapreduce.Answer{}, tooLongError{}
	}), config(), children(50, 50, 50))
	if !errors.As(err, &tooLongError{}) {
		t.Errorf("got %v", err)
	}
}

// A model that ignores the bound and answers with more than it was given must not keep a build going for ever.
func TestNoProgressIsAnError(t *testing.T) {
	cfg := config()
	calls := 0
	_, err := mapreduce.Summarize(t.Context(), anyModel(func(call mapreduce.Call) (mapreduce.Answer, error) {
		calls++
		return mapreduce.Answer{Text: text(220), Usage: tree.Usage{Calls: 1}}, nil
	}), cfg, children(100, 100, 100, 100, 100, 100))
	if !errors.Is(err, mapreduce.ErrNoProgress) {
		t.Errorf("got %v after %d calls", err, calls)
	}
	if calls > 30 {
		t.Errorf("%d calls", calls)
	}
}

func TestErrorsAndBlanks(t *testing.T) {
	boom := errors.New("boom")
	if _, err := mapreduce.Summarize(t.Context(), &model{t: t, failWith: boom}, config(), children(3)); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	blank := []mapreduce.Child{{Text: " \n "}, {}}
	if _, err := mapreduce.Summarize(t.Context(), &model{t: t}, config(), blank); !errors.Is(err, mapreduce.ErrNoText) {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*mapreduce.Config)
		want   string // "" is valid
	}{
		"default":            {func(*mapreduce.Config) {}, ""},
		"no placeholder":     {func(c *mapreduce.Config) { c.Prompt = "Summarize." }, "summaries.prompt holds {chunks} 0 times"},
		"two placeholders":   {func(c *mapreduce.Config) { c.Prompt = "{chunks} {chunks}" }, "summaries.prompt holds {chunks} 2 times"},
		"no output":          {func(c *mapreduce.Config) { c.MaxOutputTokens = 0 }, "summaries.max_output_tokens is 0"},
		"output over window": {func(c *mapreduce.Config) { c.MaxOutputTokens = 500 }, "summaries.context_tokens is 400"},
		"prompt over window": {func(c *mapreduce.Config) { c.Prompt = text(600) + " {chunks}" }, "summaries.context_tokens is 400"},
		"margin":             {func(c *mapreduce.Config) { c.Margin = -1 }, "token margin is -1"},
	} {
		cfg := config()
		tc.change(&cfg)
		err := cfg.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// The message names the least window; that window must be valid and the next smaller one not.
func TestTheLeastWindowIsTight(t *testing.T) {
	cfg := config()
	cfg.ContextTokens = 1
	var tokens, output, least int
	_, err := fmt.Sscanf(cfg.Validate().Error(), "summaries.context_tokens is 1: with a prompt of %d tokens and summaries.max_output_tokens %d it must be at least %d", &tokens, &output, &least)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ContextTokens = least
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.ContextTokens = least - 1
	if cfg.Validate() == nil {
		t.Errorf("%d is valid too", least-1)
	}
}
