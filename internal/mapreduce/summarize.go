package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aerie-rag/aerie/internal/tree"
)

// ErrNoText: there is nothing to summarize.
var ErrNoText = errors.New("mapreduce: no text to summarize")

// ErrNoProgress: a round of calls left as many tokens as there were.
var ErrNoProgress = errors.New("mapreduce: the model's answers are not shorter than its input")

// Child is one text of a cluster.
type Child struct {
	Text   string
	Tokens int // by Config.Counter; 0 means that it is counted
}

// Summarize makes one text of the children, in their order, by as many calls to s as the window demands, one after the
// other. A cluster that fits is exactly one call. Blank children are passed over. The answer's usage is that of all
// calls, also beside an error. Errors of s are returned as they are, but for one that says it was given too much text (a method
// TooLong() bool that returns true): then the batch is halved.
func Summarize(ctx context.Context, s Summarizer, cfg Config, children []Child) (Answer, error) {
	r := run{s: s, cfg: cfg, room: cfg.room()}
	for _, c := range children {
		r.add(c)
	}
	if len(r.parts) == 0 {
		return Answer{}, ErrNoText
	}
	for first := true; ; first = false {
		if len(r.parts) == 1 && !first {
			return Answer{Text: r.parts[0].text, Usage: r.usage}, nil
		}
		count, before := len(r.parts), r.total()
		batches := Pack(sizes(r.parts), r.room.text)
		if err := r.round(ctx, batches); err != nil {
			return Answer{Usage: r.usage}, err
		}
		stuck := !first && len(r.parts) >= count && r.total() >= before
		if stuck || r.calls > callsPerText*r.texts {
			return Answer{Usage: r.usage}, fmt.Errorf("%w (%d parts, %d tokens)", ErrNoProgress, count, before)
		}
	}
}

// run is the work on one cluster.
type run struct {
	s     Summarizer
	cfg   Config
	room  room
	parts []part
	texts int // children and the pieces that they were cut into
	calls int // successful ones
	usage tree.Usage
}

// callsPerText bounds the calls for a cluster. A reduction by pairs, the least that a window allows, makes fewer than
// two for each text.
const callsPerText = 4

// part is a text with the size that packing gives it.
type part struct {
	text string
	size int // tokens with separator; of an answer at least what it might have had
}

func (r *run) add(c Child) {
	if strings.TrimSpace(c.Text) == "" {
		return
	}
	if c.Tokens <= 0 {
		c.Tokens = r.cfg.Counter.Count(c.Text)
	}
	budget := r.room.text - separatorTokens
	if c.Tokens <= budget {
		r.texts++
		r.parts = append(r.parts, part{text: c.Text, size: c.Tokens + separatorTokens})
		return
	}
	for _, piece := range r.cfg.split(c.Text, budget) {
		r.texts++
		r.parts = append(r.parts, part{text: piece, size: r.cfg.Counter.Count(piece) + separatorTokens})
	}
}

func (r *run) total() int {
	n := 0
	for _, p := range r.parts {
		n += p.size
	}
	return n
}

// round replaces the parts by the answers to the batches.
func (r *run) round(ctx context.Context, batches []Batch) error {
	var next []part
	for _, b := range batches {
		in := r.parts[b.From:b.To]
		if passes(len(batches), b, in[0].size, r.room) {
			next = append(next, part{text: in[0].text, size: max(in[0].size, r.answerSize(0))})
			continue
		}
		out, err := r.call(ctx, in)
		if err != nil {
			return err
		}
		next = append(next, out...)
	}
	r.parts = next
	return nil
}

// passes reports whether a batch goes to the next round as it is: one text, no larger than an answer, where others are
// still to be joined with it.
func passes(batches int, b Batch, size int, r room) bool {
	return batches > 1 && b.Len() == 1 && size <= r.part+separatorTokens
}

// answerSize is what an answer of so many tokens counts for.
func (r *run) answerSize(tokens int) int { return max(tokens, r.room.part) + separatorTokens }

// call summarizes one batch, halving it while it is too long for the model.
func (r *run) call(ctx context.Context, in []part) ([]part, error) {
	texts := make([]string, len(in))
	tokens := r.cfg.promptTokens()
	for i, p := range in {
		texts[i] = p.text
		tokens += p.size - separatorTokens + 1
	}
	if r.overflows(texts) {
		if halves := r.halve(in); halves != nil {
			return r.each(ctx, halves)
		}
	}
	answer, err := r.s.Summarize(ctx, Call{
		Prompt: r.cfg.Prompt, Texts: texts, MaxOutputTokens: r.cfg.MaxOutputTokens, InputTokens: tokens, Build: r.cfg.Build, Corpus: r.cfg.Corpus,
	})
	r.usage = r.usage.Add(answer.Usage)
	if err != nil {
		var long interface{ TooLong() bool }
		if errors.As(err, &long) && long.TooLong() {
			if halves := r.halve(in); halves != nil {
				return r.each(ctx, halves)
			}
		}
		return nil, err
	}
	r.calls++
	size := r.answerSize(r.cfg.Counter.Count(answer.Text))
	return []part{{text: answer.Text, size: size}}, nil
}

func (r *run) each(ctx context.Context, halves [][]part) ([]part, error) {
	var out []part
	for _, h := range halves {
		parts, err := r.call(ctx, h)
		if err != nil {
			return nil, err
		}
		out = append(out, parts...)
	}
	return out, nil
}

// overflows reports whether a call might not fit into the window for some tokenizer. Packing has seen to it that it fits
// by the counter's measure.
func (r *run) overflows(texts []string) bool {
	if r.cfg.Margin == 0 {
		return false
	}
	prompt := Render(r.cfg.Prompt, texts, r.cfg.MaxOutputTokens)
	return Guess(prompt)+MessageTokens+r.room.reserve > r.cfg.ContextTokens
}

// leastHalf is the size in runes below which a text isn't halved any more: then it is not the text that is too long.
const leastHalf = 64

// halve cuts a batch in two, or a single text; nil if that can't be.
func (r *run) halve(in []part) [][]part {
	if len(in) > 1 {
		total, sum, at := 0, 0, 0
		for _, p := range in {
			total += p.size
		}
		for at = 0; at < len(in)-1 && (at == 0 || 2*(sum+in[at].size) <= total); at++ {
			sum += in[at].size
		}
		return [][]part{in[:at], in[at:]}
	}
	text := in[0].text
	if len([]rune(text)) < 2*leastHalf {
		return nil
	}
	pieces := r.cfg.split(text, max(1, (in[0].size-separatorTokens+1)/2))
	if len(pieces) < 2 {
		return nil
	}
	var out [][]part
	for _, p := range pieces {
		r.texts++
		out = append(out, []part{{text: p, size: r.cfg.Counter.Count(p) + separatorTokens}})
	}
	return out
}

func sizes(parts []part) []int {
	out := make([]int, len(parts))
	for i, p := range parts {
		out[i] = p.size
	}
	return out
}
