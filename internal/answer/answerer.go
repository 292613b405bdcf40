package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Abstention is the answer where there is none.
const Abstention = "The corpus holds nothing relevant to this question."

// Model completes a prompt. With on, it hands its text on as it comes. A *llm.Streamer is one.
type Model interface {
	Complete(ctx context.Context, req llm.Request, on func(text string)) (llm.Reply, error)
}

// Config says how to answer.
type Config struct {
	// Name is that of the model, for people.
	Name string
	// ContextTokens is the model's window, prompt and answer together; at least 1.
	ContextTokens int
	// MaxOutputTokens bounds an answer, at least 1. One without any text is asked for again with twice as many.
	MaxOutputTokens int
	// Margin is the share by which the model's tokenizer may count more than ours; 0 means mapreduce.DefaultMargin.
	Margin float64
	// Floor is the least similarity of the best hit, -1 to 1, below which the words must be shared ([WordsFloor]); see
	// the function Floor for what fits which embedder.
	Floor float64
}

// Validate reports the first value out of its range.
func (c Config) Validate() error {
	switch {
	case c.MaxOutputTokens < 1:
		return fmt.Errorf("answer: an answer may have %d tokens: it must be at least 1", c.MaxOutputTokens)
	case c.ContextTokens <= c.MaxOutputTokens:
		return fmt.Errorf("answer: the window has %d tokens: it must be more than the answer's %d", c.ContextTokens, c.MaxOutputTokens)
	case !(c.Floor >= -1 && c.Floor <= 1):
		return fmt.Errorf("answer: the floor of similarity is %v: it must be between -1 and 1", c.Floor)
	case !(c.Margin >= 0 && c.Margin <= 1):
		return fmt.Errorf("answer: the margin is %v: it must be between 0 and 1", c.Margin)
	}
	return nil
}

// Answerer answers questions. Its methods may be called from many goroutines.
type Answerer struct {
	cfg     Config
	model   Model
	counter mapreduce.Counter
}

// New returns an answerer. Without a model it quotes the hits. It panics if cfg is not valid.
func New(cfg Config, model Model, counter mapreduce.Counter) *Answerer {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if cfg.Margin == 0 {
		cfg.Margin = mapreduce.DefaultMargin
	}
	return &Answerer{cfg: cfg, model: model, counter: counter}
}

// Citation is a hit that an answer cites.
type Citation struct {
	N           int      `json:"n"` // its number, from 1: its place among the hits
	ID          tree.ID  `json:"id"`
	Level       int      `json:"level"`
	DocumentIDs []string `json:"document_ids"`
	// Context is what the hit stands under in its document; "" if nothing.
	Context string `json:"context,omitempty"`
}

// Answer is the answer to a question. It marshals to the JSON of `aerie ask`.
type Answer struct {
	Question string `json:"question"`
	// Text is all sentences, or Abstention.
	Text string `json:"answer"`
	// Sentences are those of the answer, none if it abstains. Never nil.
	Sentences []Sentence `json:"sentences"`
	// Citations are the hits that sentences cite, by number. Never nil.
	Citations []Citation `json:"citations"`
	// Hits are what was found, in order of score; citations count them from 1. Never nil.
	Hits []retrieve.Hit `json:"hits"`
	// Abstained says that there is no answer, and Why.
	Abstained bool   `json:"abstained"`
	Why       string `json:"why,omitempty"`
	// Quoted says that no model wrote the answer: its sentences are those of the hits.
	Quoted bool `json:"quoted"`
	// CutOff says that the answer ran into its bound of tokens; the unfinished sentence is left out if there are others.
	CutOff bool `json:"cut_off"`

	Corpus     string        `json:"corpus"`
	Generation int           `json:"generation"`
	Mode       retrieve.Mode `json:"mode"`
	// Tokens is the sum over the hits, and HitsRead how many of them the model read: the others didn't fit.
	Tokens   int `json:"tokens"`
	HitsRead int `json:"hits_read"`
	// Model is the chat model; "" if none is configured.
	Model string `json:"model"`
	// Calls were made to it, and took so many tokens.
	Calls        int      `json:"calls"`
	InputTokens  int      `json:"input_tokens"`
	OutputTokens int      `json:"output_tokens"`
	Notes        []string `json:"notes,omitempty"`
}

// Answer answers the query of a result from its hits. With on, each sentence is handed on once it is complete; the rest of an
// answer that turns out to be none, such as a refusal, is then an error after the fact. When the model puts reasoning before
// its answer in a way that shows only at its end, the sentences handed on begin with it, and the answer's don't.
// Errors are those of the model.
func (a *Answerer) Answer(ctx context.Context, found retrieve.Result, on func(Sentence)) (Answer, error) {
	out := Answer{
		Question: found.Query, Sentences: []Sentence{}, Citations: []Citation{}, Hits: found.Hits, Corpus: found.Corpus, Generation: found.Generation,
		Mode: found.Mode, Tokens: found.Tokens, Model: a.cfg.Name, Notes: slices.Clone(found.Notes),
	}
	if out.Hits == nil {
		out.Hits = []retrieve.Hit{}
	}
	if why := irrelevant(found.Query, found.Hits, a.cfg.Floor); why != "" {
		return out.abstain(why), nil
	}
	if a.model == nil {
		out.Quoted, out.HitsRead = true, len(found.Hits)
		out.finish(quote(found.Query, found.Hits, a.cfg.MaxOutputTokens, a.counter))
		for _, s := range out.Sentences {
			if on != nil {
				on(s)
			}
		}
		if len(out.Sentences) == 0 {
			return out.abstain("the hits hold no sentence"), nil
		}
		return out, nil
	}
	sentences, err := a.ask(ctx, &out, on)
	switch {
	case err != nil:
		return out, err
	case sentences == nil:
		return out.abstain("the model found no answer in the passages"), nil
	}
	out.finish(sentences)
	if note := unsupported(out.Sentences); note != "" {
		out.Notes = append(out.Notes, note)
	}
	if foundByAerie(out.Sentences) {
		out.Notes = append(out.Notes, "some citations were found by comparing words: the model had named none")
	}
	return out, nil
}

func (out Answer) abstain(why string) Answer {
	out.Abstained, out.Why, out.Text = true, why, Abstention
	return out
}

// finish sets what follows from the sentences.
func (out *Answer) finish(sentences []Sentence) {
	var text strings.Builder
	numbers := map[int]bool{}
	for _, s := range sentences {
		text.WriteString(s.Gap + s.Text)
		for _, n := range s.Citations {
			numbers[n] = true
		}
	}
	out.Text, out.Sentences = text.String(), append(out.Sentences, sentences...)
	for i := range out.Hits {
		if h := &out.Hits[i]; numbers[i+1] {
			out.Citations = append(out.Citations, Citation{N: i + 1, ID: h.ID, Level: h.Level, DocumentIDs: h.DocumentIDs, Context: h.Context})
		}
	}
}

// mostTries is how often an answer is asked for that comes back empty or with nothing but reasoning.
const mostTries = 3

// ask asks the model, and again where that may help. No sentences mean that the model found no answer.
func (a *Answerer) ask(ctx context.Context, out *Answer, on func(Sentence)) ([]Sentence, error) {
	hits := out.Hits
	room := a.cfg.ContextTokens - mapreduce.MessageTokens - a.cfg.MaxOutputTokens
	// A second try with twice the output must fit too, unless that takes most of the window.
	most := a.cfg.MaxOutputTokens
	if room > 4*a.cfg.MaxOutputTokens {
		most, room = 2*most, room-most
	}
	output, tries := a.cfg.MaxOutputTokens, 1
	for {
		p, err := a.write(out.Question, hits, room)
		if err != nil {
			return nil, err
		}
		out.HitsRead = p.hits
		r := reader{n: p.hits, evidence: newEvidence(out.Hits[:p.hits]), on: on}
		var hear func(string)
		if on != nil {
			hear = r.write
		}
		reply, err := a.model.Complete(ctx, llm.Request{Prompt: p.text, PromptTokens: p.tokens, MaxOutputTokens: output}, hear)
		out.Calls++
		out.InputTokens += reply.InputTokens
		out.OutputTokens += reply.OutputTokens
		var failed *llm.Error
		if errors.As(err, &failed) && failed.TooLong() && p.hits > 1 {
			hits = hits[:p.hits/2]
			continue
		}
		if err != nil {
			return nil, err
		}
		reason := llm.Examine(&reply)
		switch {
		case reason == "" || reason == llm.CutOff:
			if n := len(out.Hits) - p.hits; n > 0 {
				out.Notes = append(out.Notes, fmt.Sprintf("%d of %d hits didn't fit into the model's window", n, len(out.Hits)))
			}
			out.CutOff = reason == llm.CutOff
			return r.close(reply.Text, out.CutOff), nil
		case reason == llm.Refusal || tries == mostTries:
			return nil, refused(reason, reply)
		}
		output = most
		tries++
	}
}

// refused is the error of a reply that is no answer.
func refused(reason llm.Reason, reply llm.Reply) error {
	e := &llm.Error{Kind: llm.BadAnswer, Reason: reason, Message: "raise summaries.max_output_tokens, or turn the model's reasoning off in summaries.extra"}
	if reason == llm.Refusal {
		e.Message = strings.Join(strings.Fields(printable.Text(reply.Refusal+" "+reply.Text)), " ")
	}
	return e
}

// reader makes sentences of a text as it comes.
type reader struct {
	n         int // hits that can be cited
	evidence  *evidence
	on        func(Sentence)
	split     splitter
	heard     strings.Builder
	sentences []Sentence
	gap       string
	none      bool // the model says that there is no answer
}

func (r *reader) write(text string) {
	r.heard.WriteString(text)
	for _, raw := range r.split.write(text) {
		r.take(raw)
	}
}

func (r *reader) take(raw string) {
	if r.none || strings.TrimSpace(raw) == "" {
		return
	}
	if len(r.sentences) == 0 && saysNoAnswer(raw) {
		r.none = true
		return
	}
	body := strings.TrimLeftFunc(raw, unicode.IsSpace)
	s := judge(raw, r.n)
	if r.evidence != nil {
		r.evidence.cite(&s)
	}
	if len(r.sentences) > 0 {
		s.Gap = gapOf(r.gap + raw[:len(raw)-len(body)])
	}
	r.gap = body[len(strings.TrimRightFunc(body, unicode.IsSpace)):]
	r.sentences = append(r.sentences, s)
	if r.on != nil {
		r.on(s)
	}
}

// gapOf is what stands between two sentences: a paragraph's end, a line's, or a space. Some scripts have nothing there.
func gapOf(white string) string {
	switch n := strings.Count(white, "\n"); {
	case n > 1:
		return "\n\n"
	case n == 1:
		return "\n"
	case white == "":
		return ""
	}
	return " "
}

// close returns the sentences of the whole text, which has been heard unless it came in one piece, or its beginning proved to be
// no part of it. Of one that was cut off, the last sentence is left out if there are others.
func (r *reader) close(text string, cutOff bool) []Sentence {
	if strings.TrimSpace(r.heard.String()) != strings.TrimSpace(text) {
		whole := reader{n: r.n, evidence: r.evidence}
		if r.heard.Len() == 0 {
			whole.on = r.on
		}
		whole.write(text)
		return whole.close(text, cutOff)
	}
	rest := r.split.rest()
	if !cutOff || len(r.sentences) == 0 || finished(rest) {
		r.take(rest)
	}
	if r.none {
		return nil
	}
	return r.sentences
}

// finished reports whether a sentence has its full stop.
func finished(sentence string) bool {
	text := strings.TrimRight(citation.ReplaceAllString(sentence, ""), " \t\r\n\"'”’»)")
	return text != "" && strings.ContainsRune(".!?。！？…।؟", []rune(text)[len([]rune(text))-1])
}
