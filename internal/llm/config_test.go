package llm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestValidateSummaries(t *testing.T) {
	if err := llm.DefaultSummaries().Validate(); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		change func(*llm.SummariesConfig)
		want   string
	}{
		"provider":      {func(c *llm.SummariesConfig) { c.Provider = "magic" }, `summaries.provider is "magic": it must be extractive or openai`},
		"no address":    {func(c *llm.SummariesConfig) { c.BaseURL = "" }, "summaries.base_url is empty"},
		"bad address":   {func(c *llm.SummariesConfig) { c.BaseURL = "somewhere" }, `summaries.base_url is "somewhere"`},
		"no model":      {func(c *llm.SummariesConfig) { c.Model = "" }, "summaries.model is empty"},
		"output":        {func(c *llm.SummariesConfig) { c.MaxOutputTokens = 0 }, "summaries.max_output_tokens is 0: it must be at least 1"},
		"window":        {func(c *llm.SummariesConfig) { c.ContextTokens = 200 }, "summaries.context_tokens is 200: it must be larger than summaries.max_output_tokens, which is 200"},
		"temperature":   {func(c *llm.SummariesConfig) { c.Temperature = 2.5 }, "summaries.temperature is 2.5: it must be within 0 to 2"},
		"prompt":        {func(c *llm.SummariesConfig) { c.Prompt = "Sum it up." }, "summaries.prompt holds {chunks} 0 times"},
		"time-out":      {func(c *llm.SummariesConfig) { c.Timeout = 0 }, "summaries.timeout is 0s: it must be above 0"},
		"extra":         {func(c *llm.SummariesConfig) { c.Extra = map[string]any{"max_tokens": 9} }, `summaries.extra holds "max_tokens"`},
		"extra, no way": {func(c *llm.SummariesConfig) { c.Extra = map[string]any{"f": func() {}} }, "summaries.extra can't be sent as JSON"},
		"margin":        {func(c *llm.SummariesConfig) { c.Margin = 3 }, "margin is 3"},
	} {
		cfg := summaries("http://127.0.0.1:8000")
		tc.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if _, err := llm.NewSummarizer(cfg, llm.Deps{Counter: counter{}}); err == nil {
			t.Errorf("%s: a summarizer is made of it", name)
		}
	}
}

func TestValidateEmbeddings(t *testing.T) {
	if err := llm.DefaultEmbeddings().Validate(); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		change func(*llm.EmbeddingsConfig)
		want   string
	}{
		"provider": {func(c *llm.EmbeddingsConfig) { c.Provider = "magic" }, `embeddings.provider is "magic": it must be lexical or openai`},
		"address":  {func(c *llm.EmbeddingsConfig) { c.BaseURL = "" }, "embeddings.base_url is empty"},
		"model":    {func(c *llm.EmbeddingsConfig) { c.Model = "" }, "embeddings.model is empty"},
		"items":    {func(c *llm.EmbeddingsConfig) { c.BatchItems = 0 }, "embeddings.batch_items is 0"},
		"tokens":   {func(c *llm.EmbeddingsConfig) { c.BatchTokens = -1 }, "embeddings.batch_tokens is -1"},
		"width":    {func(c *llm.EmbeddingsConfig) { c.Width = -1 }, "the width is -1"},
		"attempts": {func(c *llm.EmbeddingsConfig) { c.MaxAttempts = -1 }, "attempts is -1"},
		"section":  {func(c *llm.EmbeddingsConfig) { c.Section, c.Model = "summaries.embeddings", "" }, "summaries.embeddings.model is empty"},
		"extra":    {func(c *llm.EmbeddingsConfig) { c.Extra = map[string]any{"input": 9} }, `embeddings.extra holds "input"`},
	} {
		cfg := embeddings("http://127.0.0.1:8000")
		tc.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// A recipe changes with whatever changes a text or a vector, and with nothing else: a new recipe makes every summary anew.
func TestRecipeFields(t *testing.T) {
	recipe := func(s llm.SummariesConfig, e llm.EmbeddingsConfig) string {
		return tree.Recipe(slices.Concat(s.RecipeFields(), e.RecipeFields())...)
	}
	s, e := summaries("http://a"), embeddings("http://a")
	base := recipe(s, e)
	for name, change := range map[string]func(*llm.SummariesConfig, *llm.EmbeddingsConfig){
		"address":        func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.BaseURL = "http://b" },
		"key":            func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.APIKey = "k" },
		"time-out":       func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Timeout = 1 },
		"default prompt": func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Prompt = mapreduce.DefaultPrompt },
		"query prefix":   func(_ *llm.SummariesConfig, e *llm.EmbeddingsConfig) { e.QueryPrefix = "q: " },
		"batches":        func(_ *llm.SummariesConfig, e *llm.EmbeddingsConfig) { e.BatchItems = 3 },
	} {
		s2, e2 := s, e
		if change(&s2, &e2); recipe(s2, e2) != base {
			t.Errorf("%s changes the recipe", name)
		}
	}
	for name, change := range map[string]func(*llm.SummariesConfig, *llm.EmbeddingsConfig){
		"provider":    func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Provider = llm.ProviderExtractive },
		"model":       func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Model = "m2" },
		"prompt":      func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Prompt = "{chunks}" },
		"window":      func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.ContextTokens++ },
		"output":      func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.MaxOutputTokens++ },
		"temperature": func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Temperature = 1 },
		"extra":       func(s *llm.SummariesConfig, _ *llm.EmbeddingsConfig) { s.Extra = map[string]any{"seed": 1} },
		"embedder":    func(_ *llm.SummariesConfig, e *llm.EmbeddingsConfig) { e.Model = "e2" },
		"lexical":     func(_ *llm.SummariesConfig, e *llm.EmbeddingsConfig) { e.Provider = llm.ProviderLexical },
		"prefix":      func(_ *llm.SummariesConfig, e *llm.EmbeddingsConfig) { e.PassagePrefix = "p: " },
	} {
		s2, e2 := s, e
		if change(&s2, &e2); recipe(s2, e2) == base {
			t.Errorf("%s doesn't change the recipe", name)
		}
	}
	// The built-in provider reads no prompt.
	x := llm.DefaultSummaries()
	y := x
	y.Prompt, y.Temperature, y.Model = "Other: {chunks}", 1, "m"
	if !slices.Equal(x.RecipeFields(), y.RecipeFields()) {
		t.Error("what the extractive summarizer doesn't read changes the recipe")
	}
}

// The exact check of the window needs the tokenizer.
func TestMapReduceConfig(t *testing.T) {
	cfg := summaries("http://127.0.0.1:8000")
	cfg.ContextTokens = 600
	_, err := cfg.MapReduce(counter{}, nil)
	if err == nil || !strings.Contains(err.Error(), "summaries.context_tokens is 600") || !strings.Contains(err.Error(), "at least") {
		t.Errorf("got %v", err)
	}
	cfg.ContextTokens = 4096
	got, err := cfg.MapReduce(counter{}, nil)
	if err != nil || got.Margin != mapreduce.DefaultMargin || got.Prompt != mapreduce.DefaultPrompt || got.PromptTokens < 100 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := llm.DefaultSummaries().MapReduce(counter{}, nil); err != nil || got.Margin != 0 || got.PromptTokens != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoPriceForABudgetInMoney(t *testing.T) {
	budget := llm.NewBudget(llm.BudgetConfig{MaxCost: 1, Prices: map[string]llm.Price{"other": {Input: 1}}})
	_, err := llm.NewSummarizer(summaries("http://127.0.0.1:8000"), llm.Deps{Counter: counter{}, Budget: budget})
	if err == nil || !strings.Contains(err.Error(), "prices has no price for fake") {
		t.Errorf("got %v", err)
	}
}
