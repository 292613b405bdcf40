package llm

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// Parameters of further tries.
const (
	// largerOutput and largestOutput are the factors by which the output tokens grow with the second and the third try,
	// where the window has room.
	largerOutput  = 2
	largestOutput = 4
	// answerTries is how often an answer is asked for that was empty, cut off or only reasoning, as long as that is the
	// exception with this model. Where it is the rule, the second try is the last.
	answerTries = 5
	// rescues is how many answers must have needed the second or third try, and be three in four of all, before calls start
	// with the output tokens that these took.
	rescues = 6
)

// Checked is a Summarizer that asks a Model and examines what it answers. An answer that is empty, cut off or only
// reasoning is asked for once more with more output tokens. If that fails too, and most answers of the model are good,
// it is asked for a few times more: then the fault lies in the moment and not in the text. A refusal is final.
//
// A model that reasons before each answer would be asked twice each time; once that is clear, calls start with the larger
// number of tokens. What it says doesn't change by that: what was refused before was cut off.
type Checked struct {
	model   Model
	window  int // tokens
	margin  float64
	counter mapreduce.Counter
	stats   *Stats
	log     *slog.Logger

	good, bad atomic.Int64 // answers that were taken, and those that were given up
	rescued   atomic.Int64 // of the good, those that needed more output tokens
	start     atomic.Int64 // the factor of the output tokens that calls start with; 0 is 1
}

func newChecked(model Model, cfg SummariesConfig, deps Deps) *Checked {
	return &Checked{model: model, window: cfg.ContextTokens, margin: cfg.margin(), counter: deps.Counter, stats: deps.Stats, log: deps.Log}
}

// Summarize returns an answer that has passed every check.
func (c *Checked) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	req := Request{
		Prompt:       mapreduce.Render(call.Prompt, call.Texts, call.MaxOutputTokens),
		PromptTokens: call.InputTokens, MaxOutputTokens: call.MaxOutputTokens, Build: call.Build,
	}
	if req.PromptTokens == 0 {
		req.PromptTokens = c.counter.Count(req.Prompt)
	}
	req.MaxOutputTokens = max(call.MaxOutputTokens, min(int(c.start.Load())*call.MaxOutputTokens, c.room(req)))
	var usage mapreduce.Usage
	for try := 1; ; try++ {
		reply, err := c.model.Complete(ctx, req)
		if err != nil {
			return mapreduce.Answer{Usage: usage}, err
		}
		usage = usage.Add(mapreduce.Usage{Calls: 1, InputTokens: reply.InputTokens, OutputTokens: reply.OutputTokens})
		c.watchInput(req, reply)
		reason := examine(&reply)
		if reason == "" {
			c.learn(req.MaxOutputTokens, call.MaxOutputTokens)
			c.watchLength(call, reply)
			return mapreduce.Answer{Text: reply.Text, Usage: usage}, nil
		}
		c.stats.refused(reason)
		larger := c.larger(req, call.MaxOutputTokens, try)
		if reason == Refusal || !c.again(try, larger > req.MaxOutputTokens) {
			c.bad.Add(1)
			c.log.Warn("an answer is refused for good", "reason", string(reason), "tries", try, "max_output_tokens", req.MaxOutputTokens, "build", call.Build)
			return mapreduce.Answer{Usage: usage}, &Error{Kind: BadAnswer, Reason: reason, Message: advice(reason, reply)}
		}
		c.stats.SecondTries.Add(1)
		c.log.Warn("an answer is refused and asked for again", "reason", string(reason), "try", try, "max_output_tokens", larger, "build", call.Build)
		req.MaxOutputTokens = larger
	}
}

// again reports whether another try is worth its price. Beyond the second, it is as long as fewer than one answer in
// five was given up.
func (c *Checked) again(try int, larger bool) bool {
	if try == 1 {
		return larger || c.exceptional()
	}
	return try < answerTries && c.exceptional()
}

func (c *Checked) exceptional() bool { return 4*c.bad.Load() <= c.good.Load() }

// larger returns the output tokens of the next try: within the window, for whatever tokenizer the model has.
func (c *Checked) larger(req Request, first, try int) int {
	factor := largerOutput
	if try > 1 {
		factor = largestOutput
	}
	return max(req.MaxOutputTokens, min(factor*first, c.room(req)))
}

// room returns what the window leaves for output.
func (c *Checked) room(req Request) int {
	prompt := max(int(math.Ceil(float64(req.PromptTokens)*(1+c.margin))), mapreduce.Guess(req.Prompt))
	return c.window - mapreduce.MessageTokens - prompt
}

// learn counts a good answer and what it took.
func (c *Checked) learn(took, first int) {
	good := c.good.Add(1)
	if took <= first {
		return
	}
	n := c.rescued.Add(1)
	if c.start.Load() == 0 && n >= rescues && 4*n >= 3*good {
		c.start.Store(int64((took + first - 1) / first))
		c.log.Warn("the model needs more output tokens than it may use; calls start with more from now on, which costs less than asking twice",
			"max_output_tokens", first, "start", took)
	}
}

// advice returns what a person is told of an answer that is refused for a reason.
func advice(reason Reason, reply Reply) string {
	switch reason {
	case Refusal:
		if reply.Refusal != "" {
			return oneLine(reply.Refusal)
		}
		if reply.Text == "" {
			return "the provider's filter (finish_reason " + reply.Finish + ")"
		}
		return oneLine(reply.Text)
	case CutOff, OnlyReasoning:
		return "raise summaries.max_output_tokens, or turn the model's reasoning off in summaries.extra"
	}
	return ""
}

// watchLength counts answers that are longer than what they summarize.
func (c *Checked) watchLength(call mapreduce.Call, r Reply) {
	n := 0
	for _, t := range call.Texts {
		n += len(t)
	}
	if len(r.Text) > n {
		c.stats.Longer.Add(1)
		c.log.Warn("a summary is longer than its input", "input_bytes", n, "summary_bytes", len(r.Text), "build", call.Build)
	}
}

// watchInput counts prompts of which the endpoint reports less than half. Some servers cut what doesn't fit into
// their own window, say nothing, and let the model summarize the rest.
func (c *Checked) watchInput(req Request, r Reply) {
	if r.Estimated || req.PromptTokens < 1000 || 2*r.InputTokens > req.PromptTokens {
		return
	}
	if c.stats.Shortened.Add(1) == 1 {
		c.log.Warn("the endpoint reports that it read less than half of a prompt; does it cut prompts at a smaller window than summaries.context_tokens?",
			"prompt_tokens", req.PromptTokens, "reported", r.InputTokens)
	}
}

var _ mapreduce.Summarizer = (*Checked)(nil)
