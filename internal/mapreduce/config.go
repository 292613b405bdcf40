package mapreduce

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Counter counts the tokens of a text. Package corpus has one.
type Counter interface {
	Count(text string) int
}

// DefaultMargin is what is added to a count because the model's tokenizer is not ours. On English prose the tokenizers
// in use, and the rules of thumb (four characters, or 3/4 of a word, a token), lie within 20 % of each other.
const DefaultMargin = 0.2

// MessageTokens is reserved for what an endpoint wraps around a prompt: roles, begin and end marks, a system line.
const MessageTokens = 32

// Config says what fits into one call. Its users name the keys of aerie.yaml in brackets.
type Config struct {
	// ContextTokens is the model's window: prompt and output together [summaries.context_tokens].
	ContextTokens int
	// MaxOutputTokens bounds each answer, at least 1 [summaries.max_output_tokens].
	MaxOutputTokens int
	// Prompt is the template; it holds [Placeholder] once [summaries.prompt].
	Prompt string
	// PromptTokens are those of Prompt without its passages. 0 means that they are counted with every use;
	// [Config.Prepare] counts them once.
	PromptTokens int
	// Margin is the share added to counts of Counter, 0 to 1. 0 says that the model counts as Counter does, which is
	// true of package llm's extractive summarizer only: then [Guess] has no say either.
	Margin float64
	// Counter counts tokens. Required.
	Counter Counter
	// Sentences cuts a text into sentences, which joined are the text; nil means [Sentences].
	Sentences func(text string) []string
	// Build names the build that pays; it is handed on in each [Call].
	Build string
	// Corpus is that of the build; it is handed on as Build is.
	Corpus string
}

// Prepare validates the configuration and returns it with PromptTokens filled in.
func (c Config) Prepare() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	c.PromptTokens = c.promptTokens()
	return c, nil
}

// Validate reports the first setting that can't work, in one sentence with its key, value and range.
func (c Config) Validate() error {
	switch n := strings.Count(c.Prompt, Placeholder); {
	case c.Counter == nil:
		panic("mapreduce: Config.Counter is required")
	case n != 1:
		return fmt.Errorf("summaries.prompt holds %s %d times: it must hold it exactly once, where the passages go", Placeholder, n)
	case c.MaxOutputTokens < 1:
		return fmt.Errorf("summaries.max_output_tokens is %d: it must be at least 1", c.MaxOutputTokens)
	case c.Margin < 0 || c.Margin > 1 || math.IsNaN(c.Margin):
		return fmt.Errorf("the token margin is %v: it must be within 0 to 1", c.Margin)
	}
	if least := c.leastContext(); c.ContextTokens < least {
		return fmt.Errorf("summaries.context_tokens is %d: with a prompt of %d tokens and summaries.max_output_tokens %d it must be at least %d",
			c.ContextTokens, c.promptTokens(), c.MaxOutputTokens, least)
	}
	return nil
}

// room is what one call has space for, in tokens of Counter.
type room struct {
	text    int // passages, each with its separator
	reserve int // output, in the model's tokens: twice MaxOutputTokens where the window allows
	part    int // an answer, as large as it may come out by Counter
}

func (c Config) room() room {
	r := room{part: scaleUp(c.MaxOutputTokens, c.Margin), reserve: 2 * c.MaxOutputTokens}
	least := 2 * (r.part + separatorTokens)
	for {
		r.text = int(float64(c.ContextTokens-MessageTokens-r.reserve)/(1+c.Margin)) - c.promptTokens()
		if r.text >= least || r.reserve <= c.MaxOutputTokens {
			return r
		}
		r.reserve = max(c.MaxOutputTokens, r.reserve-max(1, (least-r.text)/2))
	}
}

// leastContext is the smallest window with room for two answers, without which a reduction might not end.
func (c Config) leastContext() int {
	text := c.promptTokens() + 2*(scaleUp(c.MaxOutputTokens, c.Margin)+separatorTokens)
	return c.MaxOutputTokens + MessageTokens + scaleUp(text, c.Margin)
}

func (c Config) promptTokens() int {
	if c.PromptTokens > 0 {
		return c.PromptTokens
	}
	text := Render(c.Prompt, nil, c.MaxOutputTokens)
	if text == "" {
		return 0
	}
	return c.measure(text)
}

// measure counts a text such that, with the margin added, it isn't less than Worst: if the prompt alone were to overflow
// the window by that measure, no batch would be small enough.
func (c Config) measure(text string) int {
	if c.Margin == 0 {
		return c.Counter.Count(text)
	}
	return int(math.Ceil(float64(Worst(c.Counter, text, c.Margin)) / (1 + c.Margin)))
}

func (c Config) sentences(text string) []string {
	if c.Sentences != nil {
		return c.Sentences(text)
	}
	return Sentences(text)
}

func scaleUp(n int, margin float64) int { return int(math.Ceil(float64(n) * (1 + margin))) }

// Worst returns how many tokens a text may have for a tokenizer that isn't known: the counter's with a margin, or [Guess]
// if that is more.
func Worst(c Counter, text string, margin float64) int {
	return max(scaleUp(c.Count(text), margin), Guess(text))
}

// Guess returns the most tokens that the rules of thumb in use find in a text: one for every four characters, 1.3 for
// every word, one for every word and every punctuation mark; in a script without spaces, one for every character.
func Guess(text string) int {
	var letters, wide, marks, words int
	inWord := false
	for _, r := range text {
		if r >= utf8.RuneSelf && isWide(r) {
			wide++
			inWord = false
			continue
		}
		letters++
		word := isWordRune(r)
		switch {
		case word && !inWord:
			words++
		case !word && !isSpace(r):
			marks++
		}
		inWord = word
	}
	return wide + max((letters+3)/4, scaleUp(words, 0.3), words+marks)
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || '\t' <= r && r <= '\r'
	}
	return unicode.IsSpace(r)
}

// isWide reports whether a rune is of a script that is written without spaces, in which a character tends to be a
// token.
func isWide(r rune) bool {
	return r >= 0x0e00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef)
}
