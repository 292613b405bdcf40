package openai

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// chatRequest is what is read of a request for a completion.
type chatRequest struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a text, or the texts of a list of parts: a corpus has no eyes for others.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return &wrong{"messages", "the content of a message must be a text, or a list of parts"}
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// question is the last thing that the person said, with what was said before; system messages are instructions for a model that
// there may not be, and how answers are made is the configuration's.
func question(messages []message) (text string, earlier []api.Turn, err error) {
	last := -1
	for i, m := range messages {
		if m.Role == "user" && strings.TrimSpace(string(m.Content)) != "" {
			last = i
		}
	}
	if last < 0 {
		return "", nil, &wrong{"messages", "messages hold no question: one with the role user and a text is needed"}
	}
	for _, m := range messages[:last] {
		if said := strings.TrimSpace(string(m.Content)); said != "" && (m.Role == "user" || m.Role == "assistant") {
			earlier = append(earlier, api.Turn{Role: m.Role, Text: withoutSources(said)})
		}
	}
	return strings.TrimSpace(string(messages[last].Content)), earlier, nil
}

// usage is what a completion took.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func usageOf(a api.Answer) usage {
	return usage{Prompt: a.InputTokens, Completion: a.OutputTokens, Total: a.InputTokens + a.OutputTokens}
}

// chatReply is a completion, or with another object a piece of one.
type chatReply struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
	// Event is for Open WebUI, which shows sources by it; other programs pass it over.
	Event any `json:"event,omitempty"`
}

type choice struct {
	Index   int     `json:"index"`
	Message *said   `json:"message,omitempty"`
	Delta   *said   `json:"delta,omitempty"`
	Finish  *string `json:"finish_reason"`
}

type said struct {
	Role        string       `json:"role,omitempty"`
	Content     *string      `json:"content,omitempty"`
	Annotations []annotation `json:"annotations,omitempty"`
}

func (h *handler) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := h.read(w, r, &req); err != nil {
		h.fail(w, r, err)
		return
	}
	corpus, err := h.corpus(r.Context(), req.Model)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	text, earlier, err := question(req.Messages)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	out := &completion{handler: h, w: w, r: r, corpus: corpus, stream: req.Stream, usage: req.StreamOptions.IncludeUsage, reply: chatReply{
		ID: "chatcmpl-" + rand.Text(), Object: "chat.completion", Created: h.now().Unix(), Model: req.Model,
	}}
	if done, ok := chore(text, req.Messages); ok { // what is asked about the conversation, the corpus doesn't know
		out.end(done, nil, "stop", usage{})
		return
	}
	var on func(answer.Sentence)
	if req.Stream {
		on = func(s answer.Sentence) { out.say(s.Gap + s.Text) }
	}
	a, err := h.service.Ask(r.Context(), corpus, api.Ask{Query: api.Query{Query: text}, History: earlier}, on)
	if err != nil {
		out.fail(err)
		return
	}
	out.finish(a)
}

// completion writes one answer, whole or in pieces.
type completion struct {
	*handler
	w      http.ResponseWriter
	r      *http.Request
	corpus string
	stream bool
	usage  bool
	reply  chatReply
	begun  bool
	said   strings.Builder // what was sent
}

// piece sends a chunk of a stream.
func (c *completion) piece(delta said, finish *string, event any) {
	if !c.begun {
		c.begun = true
		c.w.Header().Set("Content-Type", "text/event-stream")
		c.w.Header().Set("X-Accel-Buffering", "no")
		c.reply.Object = "chat.completion.chunk"
		delta.Role = "assistant"
	}
	chunk := c.reply
	chunk.Choices, chunk.Event = []choice{{Delta: &delta, Finish: finish}}, event
	c.data(chunk)
}

func (c *completion) data(v any) {
	_, _ = fmt.Fprint(c.w, "data: ") // who doesn't read it has gone
	c.encode(c.w, v)
	_, _ = fmt.Fprint(c.w, "\n")
	_ = http.NewResponseController(c.w).Flush()
}

func (c *completion) say(text string) {
	c.said.WriteString(text)
	c.piece(said{Content: &text}, nil, nil)
}

// fail tells of an error: by the status, or at the end of what was begun.
func (c *completion) fail(err error) {
	if !c.begun {
		c.handler.fail(c.w, c.r, err)
		return
	}
	f, _ := c.failureOf(c.r.Context(), err)
	c.data(map[string]any{"error": f})
}

// finish completes an answer with its sources.
func (c *completion) finish(a api.Answer) {
	sources := c.sources(a)
	text := a.Text + listed(sources)
	if c.begun { // what was streamed can't be taken back: positions count it
		text = c.said.String() + listed(sources)
	}
	finish := "stop"
	if a.CutOff {
		finish = "length"
	}
	c.end(text, sources, finish, usageOf(a))
}

// end sends what is not sent yet of a text, its sources and the end.
func (c *completion) end(text string, sources []source, finish string, used usage) {
	marks := annotations(text, sources)
	if !c.stream {
		c.reply.Usage = &used
		c.reply.Choices = []choice{{Message: &said{Role: "assistant", Content: &text, Annotations: marks}, Finish: &finish}}
		c.write(c.w, c.reply)
		return
	}
	if rest := strings.TrimPrefix(text, c.said.String()); rest != "" {
		c.say(rest)
	}
	for _, s := range sources {
		c.piece(said{}, nil, s.event())
	}
	c.piece(said{Annotations: marks}, &finish, nil)
	if c.usage {
		last := c.reply
		last.Choices, last.Usage = []choice{}, &used
		c.data(last)
	}
	_, _ = fmt.Fprint(c.w, "data: [DONE]\n\n")
}

// sources are the hits that an answer cites.
func (c *completion) sources(a api.Answer) []source {
	var all []source
	for _, cited := range a.Citations {
		hit := retrieve.Hit{}
		if cited.N <= len(a.Hits) {
			hit = a.Hits[cited.N-1]
		}
		all = append(all, source{N: cited.N, Title: titleOf(cited), URL: c.Link(c.r, c.corpus, cited.ID), Text: hit.Text})
	}
	return all
}
