package llm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

func extract(t testing.TB, limit int, texts ...string) string {
	t.Helper()
	e := llm.NewExtractive(llm.ExtractiveConfig{Counter: counter{}})
	a, err := e.Summarize(t.Context(), mapreduce.Call{Texts: texts, MaxOutputTokens: limit})
	if err != nil {
		t.Fatal(err)
	}
	return a.Text
}

// The sentence that shares most with the others is central; the outsider is not.
func TestExtractiveTakesTheCentralSentence(t *testing.T) {
	got := extract(t, 14,
		"The reactor uses water as a coolant.",
		"A pump moves the coolant water through the reactor core.",
		"Heat from the reactor core turns the water into steam.",
		"Penguins live on ice.",
	)
	if !strings.Contains(got, "reactor") || strings.Contains(got, "Penguins") {
		t.Errorf("got %q", got)
	}
}

func TestExtractiveKeepsTheOrderOfThePassages(t *testing.T) {
	first := "Zebras graze on the open plains of the savanna in large herds."
	second := "The savanna has large herds of grazing zebras and antelopes on its plains every year."
	third := "Antelopes share the plains of the savanna with the zebras in the dry season."
	got := extract(t, 200, first, second, third)
	if zebras, antelopes := strings.Index(got, "Zebras"), strings.Index(got, "Antelopes"); zebras < 0 || antelopes < zebras {
		t.Errorf("got %q", got)
	}
}

func TestExtractiveSaysNothingTwice(t *testing.T) {
	texts := []string{
		"The committee approved the new budget for schools on Monday.",
		"The committee approved the new budget for schools on Monday evening.",
		"On Monday the committee approved the new budget for schools.",
		"Teachers had asked for smaller classes and better books in all schools.",
	}
	got := extract(t, 300, texts...)
	if n := strings.Count(got, "approved"); n != 1 {
		t.Errorf("%d sentences on the budget: %q", n, got)
	}
	if !strings.Contains(got, "Teachers") {
		t.Errorf("the other sentence is missing: %q", got)
	}
}

func TestExtractiveInOtherScripts(t *testing.T) {
	got := extract(t, 24, "所有权是 Rust 的核心概念。每个值都有一个所有者。", "借用让函数可以使用值而不取得所有权。所有权规则由编译器检查。")
	if got == "" || !strings.HasSuffix(got, "。") || strings.Contains(got, "。 ") || (counter{}).Count(got) > 24 {
		t.Errorf("got %q", got)
	}
	if got := extract(t, 100, "यह पहला वाक्य है जो भाषा के बारे में है। यह दूसरा वाक्य है।"); !strings.Contains(got, "।") {
		t.Errorf("got %q", got)
	}
}

// A sentence that alone is over the limit is cut after a clause, else after a word, else after a rune.
func TestExtractiveCutsALongSentenceWithCare(t *testing.T) {
	clause := "The valley was settled early by farmers from the north, who built terraces, canals and granaries that are in use to this day"
	if got, want := extract(t, 16, clause), "The valley was settled early by farmers from the north,"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	words := "one two three four five six seven eight nine ten eleven twelve"
	if got := extract(t, 7, words); !strings.HasPrefix(words, got+" ") {
		t.Errorf("got %q", got)
	}
	if got := extract(t, 5, strings.Repeat("界", 900)); got != "界界界界界" {
		t.Errorf("got %q", got)
	}
	if got := extract(t, 3, strings.Repeat("x", 9000)); got != strings.Repeat("x", 18) { // six letters are a token
		t.Errorf("got %q", got)
	}
}

func TestExtractiveBlankInput(t *testing.T) {
	e := llm.NewExtractive(llm.ExtractiveConfig{Counter: counter{}})
	_, err := e.Summarize(t.Context(), mapreduce.Call{Texts: []string{" ", "\n"}, MaxOutputTokens: 10})
	if !errors.Is(err, mapreduce.ErrNoText) {
		t.Errorf("got %v", err)
	}
	if got := extract(t, 10, "***", "---"); got == "" {
		t.Error("punctuation has no summary")
	}
}

func TestExtractiveUsage(t *testing.T) {
	e := llm.NewExtractive(llm.ExtractiveConfig{Counter: counter{}})
	text := "One short sentence is here."
	a, err := e.Summarize(t.Context(), mapreduce.Call{Texts: []string{text}, MaxOutputTokens: 50})
	if err != nil {
		t.Fatal(err)
	}
	n := (counter{}).Count(text)
	if diff := cmp.Diff(mapreduce.Answer{Text: text, Usage: tree.Usage{Calls: 1, InputTokens: n, OutputTokens: n}}, a); diff != "" {
		t.Error(diff)
	}
}

var vocabulary = strings.Fields(`the a of and in to river stone city market trade ship harbor winter summer king law book garden
	music painter bridge tower coin bread water light signal engine paper letter 语言 程序 城市 市场 воды город शहर नदी`)

// Whatever the passages: never empty, never over the limit, whole sentences in order unless the limit is too small for any,
// the same each time.
func TestExtractiveProperties(t *testing.T) {
	sentenceGen := rapid.Custom(func(rt *rapid.T) string {
		n := rapid.IntRange(1, 14).Draw(rt, "words")
		var words []string
		for range n {
			words = append(words, rapid.SampledFrom(vocabulary).Draw(rt, "word"))
		}
		return "Z" + strings.Join(words, " ") + rapid.SampledFrom([]string{".", "!", "?", "。"}).Draw(rt, "end")
	})
	rapid.Check(t, func(rt *rapid.T) {
		var texts, sentences []string
		for range rapid.IntRange(1, 8).Draw(rt, "passages") {
			list := rapid.SliceOfN(sentenceGen, 1, 6).Draw(rt, "sentences")
			texts = append(texts, strings.Join(list, " "))
			sentences = append(sentences, list...)
		}
		limit := rapid.IntRange(1, 120).Draw(rt, "limit")
		got := extract(t, limit, texts...)
		if strings.TrimSpace(got) == "" {
			rt.Fatal("empty")
		}
		if n := (counter{}).Count(got); n > limit && len([]rune(got)) > 1 {
			rt.Fatalf("%d tokens, limit %d: %q", n, limit, got)
		}
		if again := extract(t, limit, texts...); again != got {
			rt.Fatalf("%q, then %q", got, again)
		}
		shortest := limit + 1
		for _, s := range sentences {
			shortest = min(shortest, (counter{}).Count(s))
		}
		if shortest > limit {
			return // a sentence had to be cut
		}
		// The answer is made of sentences of the passages, in their order.
		rest := got
		for _, s := range sentences {
			if after, ok := strings.CutPrefix(rest, s); ok {
				rest = strings.TrimPrefix(after, " ")
			}
		}
		if rest != "" {
			rt.Fatalf("%q remains of the answer %q", rest, got)
		}
	})
}

func BenchmarkExtractive(b *testing.B) {
	var texts []string
	tokens := 0
	for i, r := range medical(b) {
		if tokens > 3500 {
			break
		}
		texts = append(texts, fmt.Sprintf("%s %d.", r.Leaf, i))
		tokens += (counter{}).Count(r.Leaf)
	}
	e := llm.NewExtractive(llm.ExtractiveConfig{Counter: counter{}})
	for b.Loop() {
		if _, err := e.Summarize(b.Context(), mapreduce.Call{Texts: texts, MaxOutputTokens: 200, InputTokens: tokens}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/cluster")
}
