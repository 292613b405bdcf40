package llm

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// Model makes one call. Its answer has not been checked.
type Model interface {
	// Complete returns what the model said. Errors are *Error, ErrBudget, or those of ctx.
	Complete(ctx context.Context, req Request) (Reply, error)
}

// Request is one prompt, filled in.
type Request struct {
	Prompt string
	// PromptTokens are those of Prompt by aerie's tokenizer, for limits and budgets; 0 means that they aren't known.
	PromptTokens int
	// MaxOutputTokens bounds the answer with its reasoning.
	MaxOutputTokens int
	// Build names the build that pays.
	Build string
}

// Reply is what came back.
type Reply struct {
	Text      string
	Reasoning string // from a field of its own
	Refusal   string // from a field of its own
	Finish    string // finish_reason
	// InputTokens and OutputTokens are as the endpoint counts them, or, if it doesn't (Estimated), as aerie does.
	InputTokens, OutputTokens int
	Estimated                 bool
}

// Chat is a Model behind /chat/completions. It makes no second try but one: when the endpoint says that it doesn't take
// a parameter which others require, the call is made without it, and so are those that follow.
type Chat struct {
	cfg     SummariesConfig
	to      *endpoint
	counter mapreduce.Counter

	// What the endpoint has taught us.
	completionTokens atomic.Bool // it wants max_completion_tokens for max_tokens
	noTemperature    atomic.Bool // it takes no temperature
}

func newChat(cfg SummariesConfig, to *endpoint, counter mapreduce.Counter) *Chat {
	return &Chat{cfg: cfg, to: to, counter: counter}
}

// Complete makes one call.
func (c *Chat) Complete(ctx context.Context, req Request) (Reply, error) {
	for {
		body, err := c.to.post(ctx, "/chat/completions", c.body(req))
		if err == nil {
			return c.parse(req, body)
		}
		if !c.learn(err) {
			return Reply{}, err
		}
	}
}

func (c *Chat) body(req Request) map[string]any {
	body := map[string]any{
		"model":    c.cfg.Model,
		"messages": []map[string]string{{"role": "user", "content": req.Prompt}},
		"stream":   false,
	}
	if !c.noTemperature.Load() {
		body["temperature"] = c.cfg.Temperature
	}
	maps.Copy(body, c.cfg.Extra)
	if c.completionTokens.Load() {
		body["max_completion_tokens"] = req.MaxOutputTokens
	} else {
		body["max_tokens"] = req.MaxOutputTokens
	}
	return body
}

// learn reports whether an error names a parameter that can be left out or renamed, and does so from now on.
func (c *Chat) learn(err error) bool {
	e, ok := err.(*Error)
	if !ok {
		return false
	}
	switch e.parameter {
	case "max_tokens":
		return c.completionTokens.CompareAndSwap(false, true)
	case "max_completion_tokens":
		return c.completionTokens.CompareAndSwap(true, false)
	case "temperature":
		return c.noTemperature.CompareAndSwap(false, true)
	}
	return false
}

// completion is the part of a reply that is read.
type completion struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Message struct {
			Content          json.RawMessage `json:"content"`
			Refusal          json.RawMessage `json:"refusal"`
			ReasoningContent json.RawMessage `json:"reasoning_content"`
			Reasoning        json.RawMessage `json:"reasoning"`
		} `json:"message"`
		FinishReason json.RawMessage `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

func (c *Chat) parse(req Request, body []byte) (Reply, error) {
	var got completion
	if err := json.Unmarshal(body, &got); err != nil {
		if isErrorText(string(body)) {
			return Reply{}, c.to.refused(200, nil, body)
		}
		return Reply{}, c.to.notJSON(body, "the reply isn't JSON")
	}
	if len(got.Choices) == 0 || present(got.Error) {
		return Reply{}, c.to.refused(200, nil, body)
	}
	m := got.Choices[0].Message
	r := Reply{
		Text: content(m.Content), Refusal: text(m.Refusal), Finish: scalar(got.Choices[0].FinishReason),
		Reasoning: scalar(m.ReasoningContent) + scalar(m.Reasoning),
	}
	if isErrorText(r.Text) {
		return Reply{}, c.to.refused(200, nil, []byte(strings.TrimSpace(r.Text)))
	}
	if got.Usage != nil && got.Usage.Prompt > 0 {
		r.InputTokens, r.OutputTokens = got.Usage.Prompt, got.Usage.Completion
		return r, nil
	}
	r.Estimated = true
	r.InputTokens = req.PromptTokens
	if r.InputTokens == 0 {
		r.InputTokens = c.counter.Count(req.Prompt)
	}
	r.OutputTokens = c.counter.Count(r.Text) + c.counter.Count(r.Reasoning)
	return r, nil
}

// present reports whether a field of a reply holds something. Some servers send an empty error with every answer.
func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "{}", "[]", "false", "0":
		return false
	}
	return true
}

// text reads a JSON string; anything else is none.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// content reads a message's content: a string, or a list of parts of which those of type text count.
func content(raw json.RawMessage) string {
	if s := text(raw); s != "" {
		return s
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" || p.Type == "" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// isErrorText reports whether an answer is an error in disguise: a JSON object with an error in it, or nothing but the
// words of a proxy. A text that goes on after such words is a text about errors.
func isErrorText(s string) bool {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") {
		var o map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &o) != nil {
			return false
		}
		raw, ok := o["error"]
		return ok && present(raw) || scalar(o["object"]) == "error" || scalar(o["type"]) == "error"
	}
	return utf8.RuneCountInString(s) <= 240 && errorLine.MatchString(s)
}

var errorLine = regexp.MustCompile(`(?is)^(?:error:? *|openai\S*error:? *|http(?:/[0-9.]+)? *)?(?:` +
	`(?:error code: *)?(?:429|5\d\d)\b(?: *[-:] *\{.*|[a-z :-]{0,40}[.!]?$)` +
	`|rate[ _-]?limit(?:s|ed)? *(?:has been |was )?(?:exceeded|reached|error)\b.*` +
	`|(?:you have |you've )(?:exceeded|reached) (?:your|the) [a-z ]*(?:rate|limit|quota).*` +
	`|too many requests[.!,;:]?(?: *(?:please|try|retry|wait).*)?$` +
	`|(?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|upstream (?:error|timeout))[.!]?$` +
	`|(?:the )?(?:server|model|engine|service) is (?:currently )?(?:overloaded|busy|unavailable)[^.]*[.!]?(?: *(?:please|try).*)?$` +
	`)|^<(?:!doctype )?html.*`)

var _ Model = (*Chat)(nil)
