package llm

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// Providers.
const (
	ProviderExtractive = "extractive" // of summaries, built in
	ProviderLexical    = "lexical"    // of embeddings, built in
	ProviderOpenAI     = "openai"     // of both: any OpenAI-compatible endpoint
)

// SummariesConfig says who summarizes, and how. The zero value of a field is not its default; see
// [DefaultSummaries].
type SummariesConfig struct {
	// Provider is ProviderExtractive or ProviderOpenAI.
	Provider string
	// BaseURL is the address of the endpoint, with or without a slash at its end; without a path, /v1 is meant.
	// Required for openai.
	BaseURL string
	// APIKey is sent as a bearer token; empty sends none. It is never logged.
	APIKey string
	// APIKeyFile names a file that holds the key; it is read if APIKey is empty.
	APIKeyFile string
	// Model is required for openai.
	Model string
	// ContextTokens is the model's window for prompt and answer together.
	ContextTokens int
	// MaxOutputTokens bounds an answer, at least 1.
	MaxOutputTokens int
	// Temperature is 0 to 2.
	Temperature float64
	// Prompt holds {chunks} once, and may hold {words}; empty is mapreduce.DefaultPrompt.
	Prompt string
	// Timeout bounds one call; above 0.
	Timeout time.Duration
	// Extra is sent as it is in every request body; it may not hold what aerie itself decides.
	Extra map[string]any
	// CAFile names a file of certificates in PEM of authorities that sign the endpoint's, beside those of the machine.
	CAFile string
	// Headers are sent with every request, such as those that a gateway wants. Their values are never logged.
	Headers map[string]string
	// Margin is the share by which the model's tokenizer may count more than aerie's, 0.05 to 1; 0 means
	// mapreduce.DefaultMargin.
	Margin float64
	// CutOff says what becomes of an answer that is cut off at the second try too: CutOffTrim or CutOffRefuse; empty means
	// CutOffTrim.
	CutOff string
}

// DefaultSummaries returns the defaults of aerie.yaml.
func DefaultSummaries() SummariesConfig {
	return SummariesConfig{Provider: ProviderExtractive, ContextTokens: 8192, MaxOutputTokens: 200, Timeout: 120 * time.Second}
}

// EmbeddingsConfig says who embeds, and how. The zero value of a field is not its default; see [DefaultEmbeddings].
type EmbeddingsConfig struct {
	// Provider is ProviderLexical or ProviderOpenAI.
	Provider string
	// BaseURL, APIKey, APIKeyFile, Model and Extra are as in SummariesConfig.
	BaseURL    string
	APIKey     string
	APIKeyFile string
	Model      string
	Extra      map[string]any
	// CAFile and Headers are as in SummariesConfig.
	CAFile  string
	Headers map[string]string
	// BatchItems and BatchTokens bound one request, at least 1. A single text over BatchTokens is sent alone.
	BatchItems  int
	BatchTokens int
	// QueryPrefix and PassagePrefix are put before texts, as some encoders want it.
	QueryPrefix   string
	PassagePrefix string
	// Width is what vectors must have; 0 takes that of the first one, which all others must agree with.
	Width int
	// Timeout bounds one call; above 0.
	Timeout time.Duration
	// MaxAttempts is how often one request is made that fails for no fault of its own or comes back with bad
	// vectors, at least 1; 0 means 6. Being throttled doesn't count.
	MaxAttempts int
	// Section names the part of aerie.yaml in messages; empty means "embeddings".
	Section string
}

// DefaultEmbeddings returns the defaults of aerie.yaml.
func DefaultEmbeddings() EmbeddingsConfig {
	return EmbeddingsConfig{Provider: ProviderLexical, BatchItems: 64, BatchTokens: 8192, Timeout: 120 * time.Second}
}

// Deps are what the providers need from outside. The zero value works, but for Counter.
type Deps struct {
	// Counter counts tokens. Required.
	Counter mapreduce.Counter
	// Sentences cuts texts into sentences; nil means mapreduce.Sentences.
	Sentences func(text string) []string
	// Journal keeps paid answers; nil keeps none.
	Journal journal.Journal
	// Limiter is shared by all that call the same endpoints; nil means one without limits, which still obeys 429.
	Limiter Limiter
	// Budget bounds what a build spends; nil doesn't.
	Budget Budget
	// Stats counts what happens; nil counts for nobody.
	Stats *Stats
	// Observer is told of each request; nil for nobody.
	Observer Observer
	// Log receives warnings; nil means slog.Default().
	Log *slog.Logger
	// Transport replaces that of HTTP; nil means one that verifies TLS.
	Transport http.RoundTripper
	// Jitter returns a random number in [0, 1) for waits; nil means that of math/rand/v2.
	Jitter func() float64
}

func (d Deps) filled() Deps {
	if d.Counter == nil {
		panic("llm: Deps.Counter is required")
	}
	if d.Stats == nil {
		d.Stats = &Stats{}
	}
	if d.Observer == nil {
		d.Observer = unobserved{}
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Jitter == nil {
		d.Jitter = rand.Float64
	}
	if d.Limiter == nil {
		d.Limiter = NewLimiter(LimiterConfig{Jitter: d.Jitter})
	}
	return d
}

// Validate reports the first setting that can't work, in one sentence with its key, value and range. What depends on
// token counts is checked by [SummariesConfig.MapReduce].
func (c SummariesConfig) Validate() error {
	switch {
	case c.Provider != ProviderExtractive && c.Provider != ProviderOpenAI:
		return fmt.Errorf("summaries.provider is %q: it must be extractive or openai", c.Provider)
	case c.MaxOutputTokens < 1:
		return fmt.Errorf("summaries.max_output_tokens is %d: it must be at least 1", c.MaxOutputTokens)
	case c.ContextTokens <= c.MaxOutputTokens:
		return fmt.Errorf("summaries.context_tokens is %d: it must be larger than summaries.max_output_tokens, which is %d, with room for the prompt and for text", c.ContextTokens, c.MaxOutputTokens)
	case !(c.Temperature >= 0 && c.Temperature <= 2):
		return fmt.Errorf("summaries.temperature is %v: it must be within 0 to 2", c.Temperature)
	case c.Margin != 0 && !(c.Margin >= 0.05 && c.Margin <= 1):
		return fmt.Errorf("the token margin is %v: it must be within 0.05 to 1", c.Margin)
	case c.CutOff != "" && c.CutOff != CutOffTrim && c.CutOff != CutOffRefuse:
		return fmt.Errorf("summaries.cut_off is %q: it must be trim or refuse", c.CutOff)
	}
	if n := strings.Count(c.Prompt, mapreduce.Placeholder); c.Prompt != "" && n != 1 {
		return fmt.Errorf("summaries.prompt holds %s %d times: it must hold it exactly once, where the passages go", mapreduce.Placeholder, n)
	}
	if c.Provider != ProviderOpenAI {
		return nil
	}
	return validateEndpoint("summaries", c.BaseURL, c.Model, c.Timeout, c.Extra,
		"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "tools")
}

// Validate reports the first setting that can't work, in one sentence with its key, value and range.
func (c EmbeddingsConfig) Validate() error {
	s := c.section()
	switch {
	case c.Provider != ProviderLexical && c.Provider != ProviderOpenAI:
		return fmt.Errorf("%s.provider is %q: it must be lexical or openai", s, c.Provider)
	case c.Provider != ProviderOpenAI:
		return nil
	case c.BatchItems < 1:
		return fmt.Errorf("%s.batch_items is %d: it must be at least 1", s, c.BatchItems)
	case c.BatchTokens < 1:
		return fmt.Errorf("%s.batch_tokens is %d: it must be at least 1", s, c.BatchTokens)
	case c.Width < 0:
		return fmt.Errorf("%s: the width is %d: it must not be negative", s, c.Width)
	case c.MaxAttempts < 0:
		return fmt.Errorf("%s: the number of attempts is %d: it must not be negative", s, c.MaxAttempts)
	}
	return validateEndpoint(s, c.BaseURL, c.Model, c.Timeout, c.Extra, "model", "input", "encoding_format")
}

func (c EmbeddingsConfig) section() string {
	if c.Section == "" {
		return "embeddings"
	}
	return c.Section
}

func validateEndpoint(section, base, model string, timeout time.Duration, extra map[string]any, reserved ...string) error {
	if base == "" {
		return fmt.Errorf("%s.base_url is empty: provider openai needs the address of an endpoint, such as http://127.0.0.1:8000/v1", section)
	}
	if _, err := parseBase(section, base); err != nil {
		return err
	}
	if model == "" {
		return fmt.Errorf("%s.model is empty: provider openai needs the name of a model", section)
	}
	if timeout <= 0 {
		return fmt.Errorf("%s.timeout is %s: it must be above 0", section, timeout)
	}
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(reserved, k) {
			return fmt.Errorf("%s.extra holds %q: aerie itself sends that; extra must not hold any of %s", section, k, strings.Join(reserved, ", "))
		}
	}
	if _, err := json.Marshal(extra); err != nil {
		return fmt.Errorf("%s.extra can't be sent as JSON: %v", section, err)
	}
	return nil
}

// readKey returns the key, from its file if it isn't given. What editors and documents add to it on the way is taken off.
func readKey(section, key, file string) (string, error) {
	if key == "" && file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s.api_key_file: %w", section, err)
		}
		key = string(b)
	}
	key = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(key), "\ufeff"))
	if len(key) > len("bearer ") && strings.EqualFold(key[:len("bearer ")], "bearer ") {
		key = strings.TrimSpace(key[len("bearer "):])
	}
	for _, c := range key {
		switch {
		case c == '\r' || c == '\n':
			return "", fmt.Errorf("%s.api_key holds a line break: it must be one line", section)
		case c <= ' ' || c > '~':
			return "", fmt.Errorf("%s.api_key holds %s, which no key has: copy it again, without quotes or spaces", section, strconv.QuoteRuneToASCII(c))
		case c == '"' || c == '\'' || c == '`':
			return "", fmt.Errorf("%s.api_key holds a quotation mark, which no key has: copy it again, without quotes", section)
		}
	}
	return key, nil
}

// MapReduce returns what package mapreduce needs to know about the model, checked against the window. The built-in
// provider reads no prompt and counts as counter does.
func (c SummariesConfig) MapReduce(counter mapreduce.Counter, sentences func(string) []string) (mapreduce.Config, error) {
	out := mapreduce.Config{
		ContextTokens: c.ContextTokens, MaxOutputTokens: c.MaxOutputTokens, Prompt: c.prompt(), Margin: c.margin(),
		Counter: counter, Sentences: sentences,
	}
	return out.Prepare()
}

func (c SummariesConfig) prompt() string {
	switch {
	case c.Provider == ProviderExtractive:
		return mapreduce.Placeholder
	case c.Prompt == "":
		return mapreduce.DefaultPrompt
	default:
		return c.Prompt
	}
}

func (c SummariesConfig) margin() float64 {
	switch {
	case c.Provider == ProviderExtractive:
		return 0
	case c.Margin == 0:
		return mapreduce.DefaultMargin
	default:
		return c.Margin
	}
}

// ModelName names the model for prices, metrics and people.
func (c SummariesConfig) ModelName() string {
	if c.Provider == ProviderExtractive {
		return ExtractiveName
	}
	return c.Model
}

// RecipeFields lists, as name and value in turn, everything that decides the text of a summary, for tree.Recipe. The
// address and the key are no part of it, nor is what the provider doesn't read.
func (c SummariesConfig) RecipeFields() []string {
	fields := []string{
		"summaries.provider", c.Provider,
		"summaries.model", c.ModelName(),
		"summaries.context_tokens", strconv.Itoa(c.ContextTokens),
		"summaries.max_output_tokens", strconv.Itoa(c.MaxOutputTokens),
	}
	if c.Provider == ProviderExtractive {
		return fields
	}
	return append(fields,
		"summaries.prompt", c.prompt(),
		"summaries.temperature", formatFloat(c.Temperature),
		"summaries.extra", canonicalJSON(c.Extra),
		"summaries.margin", formatFloat(c.margin()),
	)
}

// RecipeFields lists, as name and value in turn, everything that decides a passage's vector.
func (c EmbeddingsConfig) RecipeFields() []string {
	fields := []string{"embeddings.name", c.Name()}
	if c.Provider == ProviderLexical {
		return fields
	}
	return append(fields, "embeddings.passage_prefix", c.PassagePrefix, "embeddings.extra", canonicalJSON(c.Extra))
}

// Name is the embedder's, such as "openai/text-embedding-3-small".
func (c EmbeddingsConfig) Name() string {
	if c.Provider == ProviderLexical {
		return LexicalName
	}
	return ProviderOpenAI + "/" + c.Model
}

func formatFloat(v float64) string { return strconv.FormatFloat(v+0, 'g', -1, 64) }

// canonicalJSON has its keys sorted; the empty map and none are the same. It panics on what Validate refuses.
func canonicalJSON(m map[string]any) string {
	if len(m) == 0 {
		return "{}"
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("llm: extra can't be written as JSON: " + err.Error())
	}
	return string(b)
}

// clampDuration keeps a product of durations from overflowing.
func clampDuration(v float64) time.Duration {
	return time.Duration(min(v, float64(math.MaxInt64/2)))
}
