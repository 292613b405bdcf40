package llm

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Parameters of further tries.
const (
	// largerOutput and largestOutput are the factors by which the output tokens grow with the second and the third try,
	// where the window has room.
	largerOutput  = 2
	largestOutput = 4
	// thinkingOutput is the factor once an answer was only reasoning: models that reason take some thousand tokens before
	// they begin, and what they don't use costs nothing. The try after that may use all that the window has room for.
	thinkingOutput = 10
	// answerTries is how often an answer is asked for that was empty, cut off or only reasoning, as long as that is the
	// exception with this model. Where it is the rule, the second try is the last.
	answerTries = 5
	// rescues is how many answers must have needed the second or third try, and be three in four of all, before calls start
	// with the output tokens that these took, or, where answers had to be trimmed, before no second try is made for that.
	rescues = 6
	// foreignWords is the share of an answer's words that its source must have for it to be the same as another one.
	foreignWords = 0.5
)

// What to do with an answer that is cut off at the second try too: SummariesConfig.CutOff.
const (
	CutOffTrim   = "trim"   // keep it up to the end of its last sentence
	CutOffRefuse = "refuse" // bury the task
)

// Checked is a Summarizer that asks a Model and examines what it answers. An answer that is empty, cut off or only
// reasoning is asked for once more with more output tokens. If that fails too, and most answers of the model are good,
// it is asked for a few times more: then the fault lies in the moment and not in the text. A refusal is final. An answer
// without reasoning that is cut off to the end is trimmed ([CutOffTrim]).
//
// A model that reasons before each answer would be asked twice each time; once that is clear, calls start with the larger
// number of tokens. What it says doesn't change by that: what was refused before was cut off.
type Checked struct {
	model   Model
	cfg     SummariesConfig
	margin  float64
	counter mapreduce.Counter
	split   func(string) []string
	stats   *Stats
	log     *slog.Logger

	good, bad atomic.Int64 // answers that were taken, and those that were given up
	rescued   atomic.Int64 // of the good, those that needed more output tokens
	trims     atomic.Int64 // of the good, those that were trimmed
	start     atomic.Int64 // the factor of the output tokens that calls start with; 0 is 1
	said      answers
	prompts   promptCounts
}

func newChecked(model Model, cfg SummariesConfig, deps Deps) *Checked {
	split := deps.Sentences
	if split == nil {
		split = mapreduce.Sentences
	}
	return &Checked{model: model, cfg: cfg, margin: cfg.margin(), counter: deps.Counter, split: split, stats: deps.Stats, log: deps.Log}
}

// Summarize returns an answer that has passed every check. With an error comes what its refused answers have cost.
func (c *Checked) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	req := Request{
		Prompt:       mapreduce.Render(call.Prompt, call.Texts, call.MaxOutputTokens),
		PromptTokens: call.InputTokens, MaxOutputTokens: call.MaxOutputTokens, Build: call.Build,
	}
	if req.PromptTokens == 0 {
		req.PromptTokens = c.counter.Count(req.Prompt)
	}
	spoken, insisted := languageOf(call.Texts), false
	if note := spoken.note(); note != "" {
		req.Prompt, req.PromptTokens = req.Prompt+note, req.PromptTokens+c.counter.Count(note)
	}
	req.MaxOutputTokens = max(call.MaxOutputTokens, min(int(c.start.Load())*call.MaxOutputTokens, c.room(req)))
	var usage tree.Usage
	for try := 1; ; try++ {
		reply, err := c.model.Complete(ctx, req)
		if err != nil {
			return mapreduce.Answer{Usage: usage}, err
		}
		usage = usage.Add(tree.Usage{Calls: 1, InputTokens: reply.InputTokens, OutputTokens: reply.OutputTokens, CutPrompts: c.watchInput(req, reply, spoken)})
		reason := c.examine(&reply, call.Texts)
		if reason == "" && spoken.differs(reply.Text) && !insisted {
			insisted = true
			usage.Refused++
			c.stats.SecondTries.Add(1)
			req.Prompt, req.PromptTokens = req.Prompt+spoken.insist(), req.PromptTokens+c.counter.Count(spoken.insist())
			continue
		}
		if reason == "" {
			if spoken.differs(reply.Text) {
				usage.OtherLanguage++
				c.log.Warn("a summary is in another language than its passages, also when asked again", "wanted", spoken.name, "build", call.Build)
			}
			c.learn(req.MaxOutputTokens, call.MaxOutputTokens)
			c.watchLength(call, reply)
			return mapreduce.Answer{Text: reply.Text, Usage: usage}, nil
		}
		c.stats.refused(reason)
		usage.Refused++
		larger := c.larger(req, call.MaxOutputTokens, try, reply)
		last := reason == Refusal || !c.again(reason, try, larger > req.MaxOutputTokens)
		if (last || c.trimsAt(try)) && c.trim(&reply, reason, call) {
			usage.Refused--
			usage.Trimmed++
			return mapreduce.Answer{Text: reply.Text, Usage: usage}, nil
		}
		if last {
			c.bad.Add(1)
			c.log.Warn("an answer is refused for good", "reason", string(reason), "tries", try, "max_output_tokens", req.MaxOutputTokens, "build", call.Build)
			return mapreduce.Answer{Usage: usage}, &Error{Kind: BadAnswer, Reason: reason, Message: advice(reason, reply)}
		}
		c.stats.SecondTries.Add(1)
		c.log.Warn("an answer is refused and asked for again", "reason", string(reason), "try", try, "max_output_tokens", larger, "build", call.Build)
		req.MaxOutputTokens = larger
	}
}

// examine runs the checks, and compares the answer with those to other texts.
func (c *Checked) examine(r *Reply, texts []string) Reason {
	if reason := examine(r, texts); reason != "" {
		return reason
	}
	if c.said.others(r.Text, texts) > 0 && shared(r.Text, texts) < foreignWords {
		return SameAnswer
	}
	return ""
}

// again reports whether another try is worth its price. Beyond the second, it is as long as fewer than one answer in
// five was given up, or while there is room for a model that reasons.
func (c *Checked) again(reason Reason, try int, larger bool) bool {
	if reason == OnlyReasoning && larger {
		return try < answerTries
	}
	if try == 1 {
		return larger || c.exceptional()
	}
	return try < answerTries && c.exceptional()
}

func (c *Checked) exceptional() bool { return 4*c.bad.Load() <= c.good.Load() }

// trimsAt reports whether a further try for an answer that is cut off is money lost: after the second, unless nearly all
// others come to an end, and after the first, where answers of this model have to be trimmed as a rule.
func (c *Checked) trimsAt(try int) bool {
	n, whole := c.trims.Load(), c.good.Load()-c.trims.Load()
	return try >= 2 && 4*(n+1) > whole || n >= rescues && n >= 3*whole
}

// trim makes an answer of one that is cut off, where that is wanted and something is left that stands by itself.
func (c *Checked) trim(r *Reply, reason Reason, call mapreduce.Call) bool {
	if c.cfg.CutOff == CutOffRefuse || reason != CutOff && !(reason == Loops && endOf(r.Finish) == endCutOff) || strings.TrimSpace(r.Reasoning) != "" {
		return false
	}
	kept := Reply{Text: trimmed(r.Text, c.split, c.counter.Count, call.MaxOutputTokens)}
	if c.examine(&kept, call.Texts) != "" {
		return false
	}
	c.good.Add(1)
	c.trims.Add(1)
	if c.stats.Trimmed.Add(1) == 1 {
		c.log.Warn("an answer that was cut off is kept up to the end of its last sentence; summaries.cut_off: refuse buries such tasks instead", "build", call.Build)
	}
	r.Text = kept.Text
	return true
}

// larger returns the output tokens of the next try: within the window, for whatever tokenizer the model has.
func (c *Checked) larger(req Request, first, try int, r Reply) int {
	factor := largerOutput
	switch {
	case strings.TrimSpace(r.Reasoning) != "" && req.MaxOutputTokens < thinkingOutput*first:
		factor = thinkingOutput
	case strings.TrimSpace(r.Reasoning) != "":
		factor = c.room(req)/first + 1
	case try > 1:
		factor = largestOutput
	}
	return max(req.MaxOutputTokens, min(factor*first, c.room(req)))
}

// room returns what the window leaves for output.
func (c *Checked) room(req Request) int {
	prompt := max(int(math.Ceil(float64(req.PromptTokens)*(1+c.margin))), mapreduce.Guess(req.Prompt))
	return c.cfg.ContextTokens - mapreduce.MessageTokens - prompt
}

// learn counts a good answer and what it took. A model that needs room for its reasoning needs it each time.
func (c *Checked) learn(took, first int) {
	good := c.good.Add(1)
	if took <= first {
		return
	}
	n := c.rescued.Add(1)
	factor := int64((took + first - 1) / first)
	if before := c.start.Load(); before < factor && (factor >= thinkingOutput || n >= rescues && 4*n >= 3*good) && c.start.CompareAndSwap(before, factor) {
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
			return "the provider's filter (finish_reason " + oneLine(reply.Finish) + ")"
		}
		return oneLine(reply.Text)
	case OnlyReasoning:
		return "raise summaries.context_tokens if the model's window is larger, or turn its reasoning off in summaries.extra"
	case CutOff:
		return "raise summaries.max_output_tokens"
	case Failed:
		return "finish_reason " + oneLine(reply.Finish)
	case Planning, AsksBack, Loops, SameAnswer:
		return oneLine(reply.Text)
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

// watchInput counts prompts that the endpoint seems to have cut: it reports much less than was sent, or the same for
// prompts of different lengths. Some servers cut what doesn't fit into their own window, say nothing, and let the model
// summarize the rest.
func (c *Checked) watchInput(req Request, r Reply, spoken language) (cut int) {
	least := 8         // tenths of our count
	if !spoken.latin { // tokenizers differ most on other scripts
		least = 5
	}
	if r.Estimated || req.PromptTokens < shortPrompt || r.InputTokens >= req.PromptTokens*least/10 && !c.prompts.same(req.PromptTokens, r.InputTokens) {
		return 0
	}
	if c.stats.Shortened.Add(1) == 1 {
		c.log.Warn("the endpoint reports that it read only a part of a prompt; does it cut prompts at a smaller window than summaries.context_tokens?",
			"prompt_tokens", req.PromptTokens, "reported", r.InputTokens)
	}
	return 1
}

// shortPrompt is the length up to which counts of prompts tell nothing.
const shortPrompt = 1000

// promptCounts remembers which counts an endpoint has reported for which prompts.
type promptCounts struct {
	mu   sync.Mutex
	last map[int][2]int // by the reported count: the least and the most that prompts had by our own
}

// same reports whether prompts that differ by a tenth were reported with this same count.
func (p *promptCounts) same(prompt, reported int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || len(p.last) > 4096 {
		p.last = map[int][2]int{}
	}
	seen, ok := p.last[reported]
	if !ok {
		seen = [2]int{prompt, prompt}
	}
	seen = [2]int{min(seen[0], prompt), max(seen[1], prompt)}
	p.last[reported] = seen
	return seen[1]*10 > seen[0]*11
}

// answers remembers which texts had which answer, as hashes.
type answers struct {
	mu   sync.Mutex
	seen map[[32]byte]map[[32]byte]bool
}

// mostAnswers bounds what is remembered.
const mostAnswers = 1 << 16

// others notes an answer and returns how many other texts have had it.
func (a *answers) others(answer string, texts []string) int {
	words := wordsOf(answer)
	if len(words) == 0 {
		return 0
	}
	said := sha256.Sum256([]byte(strings.Join(words, " ")))
	of := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil || len(a.seen) >= mostAnswers {
		a.seen = map[[32]byte]map[[32]byte]bool{}
	}
	m := a.seen[said]
	if m == nil {
		m = map[[32]byte]bool{}
		a.seen[said] = m
	}
	if len(m) < 2 { // more tell nothing more
		m[of] = true
	}
	n := len(m)
	if m[of] {
		n--
	}
	return n
}

var _ mapreduce.Summarizer = (*Checked)(nil)
