package llm

import (
	"context"
	"log/slog"
	"maps"

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

// Chat is a Model behind /chat/completions. It makes no second try but for one cause: when the endpoint says that it
// doesn't take a parameter which others require, the call is made without it, and so are those that follow.
type Chat struct {
	cfg     SummariesConfig
	to      *endpoint
	counter mapreduce.Counter
	log     *slog.Logger
	known   known
}

func newChat(cfg SummariesConfig, to *endpoint, deps Deps) *Chat {
	return &Chat{cfg: cfg, to: to, counter: deps.Counter, log: deps.Log}
}

// Complete makes one call.
func (c *Chat) Complete(ctx context.Context, req Request) (Reply, error) {
	try := attempt{parameters: c.known.get()}
	for {
		body, err := c.to.post(ctx, "/chat/completions", c.body(req, &try.parameters))
		if err == nil {
			c.keep(try.parameters)
			return c.parse(req, body)
		}
		if !try.without(err) {
			return Reply{}, err
		}
	}
}

// keep notes what a call has succeeded without, and says so once.
func (c *Chat) keep(p parameters) {
	if c.known.keep(p) {
		c.log.Info("the endpoint doesn't take all parameters; calls go without them from now on", "endpoint", c.to.name,
			"max_completion_tokens", p.completionTokens, "temperature", p.sends("temperature"), "stream", p.sends("stream"))
	}
}

func (c *Chat) body(req Request, p *parameters) map[string]any {
	body := map[string]any{
		"model":    c.cfg.Model,
		"messages": []map[string]string{{"role": "user", "content": req.Prompt}},
	}
	if p.sends("stream") {
		body["stream"] = false
	}
	if p.sends("temperature") {
		body["temperature"] = c.cfg.Temperature
	}
	maps.Copy(body, c.cfg.Extra)
	if p.completionTokens {
		body["max_completion_tokens"] = req.MaxOutputTokens
	} else {
		body["max_tokens"] = req.MaxOutputTokens
	}
	return body
}

var _ Model = (*Chat)(nil)
