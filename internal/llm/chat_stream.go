package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode"
)

// Streamer is the chat model for people who wait for the answer: they can read it while it is written. It keeps
// to the limits, and tries again what another moment may cure, as long as nothing has been read of the answer.
type Streamer struct {
	chat *Chat
	deps Deps

	// What the endpoint has taught us.
	noOptions atomic.Bool // it takes no stream_options
	noStream  atomic.Bool // it doesn't stream
}

// NewStreamer returns the configured chat model. Its provider is ProviderOpenAI: the built-in one doesn't chat.
func NewStreamer(cfg SummariesConfig, deps Deps) (*Streamer, error) {
	deps = deps.filled()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Provider != ProviderOpenAI {
		return nil, fmt.Errorf("summaries.provider is %q: it must be %s for a chat", cfg.Provider, ProviderOpenAI)
	}
	key, err := readKey("summaries", cfg.APIKey, cfg.APIKeyFile)
	if err != nil {
		return nil, err
	}
	to, err := newEndpoint("summaries", cfg.BaseURL, key, cfg.Timeout, maxChatReply, deps.Transport)
	if err != nil {
		return nil, err
	}
	return &Streamer{chat: newChat(cfg, to, deps.Counter), deps: deps}, nil
}

// Complete makes one call. With on, the answer is handed on as it comes, less the reasoning that leads it; without, or
// where the endpoint doesn't stream, it comes in one piece. The reply holds all of it, and has not been checked
// ([Examine]). When the answer breaks off, the error comes with the part that was handed on.
func (s *Streamer) Complete(ctx context.Context, req Request, on func(text string)) (Reply, error) {
	name, model := s.chat.to.name, s.chat.cfg.Model
	if on == nil {
		return newPatient(s.chat, name, model, s.deps).Complete(ctx, req)
	}
	call := &streamCall{Streamer: s, gate: thoughtGate{on: on}}
	reply, err := newPatient(call, name, model, s.deps).Complete(ctx, req)
	if err == nil {
		err = call.broken
	}
	return reply, err
}

// Examine puts a reply through the checks of summaries: it takes the reasoning off the text, and says why the rest is no answer;
// "" if it is one.
func Examine(r *Reply) Reason { return examine(r) }

// streamCall is one answer that somebody reads.
type streamCall struct {
	*Streamer
	gate thoughtGate
	// broken is why the answer broke off after a part of it was read. For a Patient that is no error: the call
	// must not be made again, and it has its price.
	broken error
}

// Complete makes the call, and again without what the endpoint turns out not to take.
func (c *streamCall) Complete(ctx context.Context, req Request) (Reply, error) {
	for {
		c.gate.held = ""
		reply, err := c.once(ctx, req)
		switch {
		case err == nil:
			return reply, nil
		case c.gate.open:
			c.broken = err
			return c.chat.counted(req, reply), nil
		case !c.chat.learn(err) && !c.learn(err):
			return Reply{}, err
		}
	}
}

// learn reports whether the endpoint refuses to stream, or the options of that, and goes without from now on.
func (s *Streamer) learn(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Kind != Invalid {
		return false
	}
	switch text := strings.ToLower(e.Message); {
	case strings.Contains(text, "stream_options"):
		return s.noOptions.CompareAndSwap(false, true)
	case strings.Contains(text, "stream"):
		return s.noStream.CompareAndSwap(false, true)
	}
	return false
}

func (c *streamCall) once(ctx context.Context, req Request) (Reply, error) {
	if c.noStream.Load() {
		body, err := c.chat.to.post(ctx, "/chat/completions", c.chat.body(req))
		if err != nil {
			return Reply{}, err
		}
		return c.whole(req, body)
	}
	body := c.chat.body(req)
	body["stream"] = true
	if _, own := body["stream_options"]; !own && !c.noOptions.Load() {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	to := c.chat.to
	call, cancel := context.WithTimeout(ctx, to.timeout)
	defer cancel()
	res, err := to.open(ctx, call, body)
	if err != nil {
		return Reply{}, err
	}
	defer res.Body.Close()
	in := io.LimitReader(res.Body, to.limit)
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		raw, err := io.ReadAll(in)
		if err != nil {
			return Reply{}, to.broken(ctx, call, err)
		}
		return c.whole(req, raw)
	}
	reply, err := c.read(bufio.NewReader(in))
	if err == nil {
		return c.chat.counted(req, reply), nil
	}
	var e *Error
	if !errors.As(err, &e) {
		err = to.broken(ctx, call, err)
	}
	return reply, err
}

// whole reads a reply that came in one piece.
func (c *streamCall) whole(req Request, body []byte) (Reply, error) {
	reply, err := c.chat.parse(req, body)
	if err == nil {
		c.gate.write(reply.Text)
	}
	return reply, err
}

// open sends a request and returns the reply, whose status is 200, unread. call is ctx with the time-out.
func (e *endpoint) open(ctx, call context.Context, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("llm: %w", err)
	}
	to := *e.url
	to.Path += "/chat/completions"
	req, err := http.NewRequestWithContext(call, http.MethodPost, to.String(), bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("llm: %w", e.scrub(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "aerie")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	res, err := e.client.Do(req)
	if err != nil {
		return nil, e.broken(ctx, call, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, e.limit))
	if err != nil {
		return nil, e.broken(ctx, call, err)
	}
	return nil, e.refused(res.StatusCode, res.Header, said)
}

// piece is the part of an event that is read.
type piece struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Delta struct {
			Content          json.RawMessage `json:"content"`
			Refusal          json.RawMessage `json:"refusal"`
			ReasoningContent json.RawMessage `json:"reasoning_content"`
			Reasoning        json.RawMessage `json:"reasoning"`
		} `json:"delta"`
		FinishReason json.RawMessage `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// read puts the events of an answer together. Errors that are not *Error are those of the connection.
func (c *streamCall) read(in *bufio.Reader) (Reply, error) {
	var r Reply
	var said strings.Builder
	for {
		line, err := in.ReadBytes('\n')
		data, isData := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case isData && string(data) == "[DONE]", errors.Is(err, io.EOF) && r.Finish != "" && !isData:
			r.Text = said.String()
			if isErrorText(r.Text) {
				return r, c.chat.to.refused(200, nil, []byte(strings.TrimSpace(r.Text)))
			}
			return r, nil
		case errors.Is(err, io.EOF) && !isData:
			r.Text = said.String()
			return r, &Error{Kind: Transient, Endpoint: c.chat.to.name, Sent: true, Message: "the stream ended before the answer did"}
		case err != nil && !errors.Is(err, io.EOF):
			r.Text = said.String()
			return r, err
		case !isData || len(data) == 0: // a comment, another field, or the end of an event
			continue
		}
		delta, err := c.take(&r, data)
		if err != nil {
			r.Text = said.String()
			return r, err
		}
		said.WriteString(delta)
		c.gate.write(delta)
	}
}

// take adds an event to a reply, but for its text, which is returned.
func (c *streamCall) take(r *Reply, data []byte) (string, error) {
	var p piece
	if err := json.Unmarshal(data, &p); err != nil {
		return "", c.chat.to.notJSON(data, "an event of the stream isn't JSON")
	}
	if present(p.Error) {
		return "", c.chat.to.refused(200, nil, data)
	}
	if p.Usage != nil && p.Usage.Prompt > 0 {
		r.InputTokens, r.OutputTokens = p.Usage.Prompt, p.Usage.Completion
	}
	if len(p.Choices) == 0 {
		return "", nil
	}
	d := p.Choices[0].Delta
	r.Refusal += text(d.Refusal)
	r.Reasoning += scalar(d.ReasoningContent) + scalar(d.Reasoning)
	if finish := scalar(p.Choices[0].FinishReason); finish != "" {
		r.Finish = finish
	}
	return content(d.Content), nil
}

// counted returns a reply with its tokens, estimated if the endpoint didn't count them.
func (c *Chat) counted(req Request, r Reply) Reply {
	if r.InputTokens > 0 {
		return r
	}
	r.Estimated = true
	if r.InputTokens = req.PromptTokens; r.InputTokens == 0 {
		r.InputTokens = c.counter.Count(req.Prompt)
	}
	r.OutputTokens = c.counter.Count(r.Text) + c.counter.Count(r.Reasoning)
	return r
}

// thoughtGate keeps back the white space and the blocks of reasoning that lead an answer.
type thoughtGate struct {
	on   func(string)
	held string
	open bool
}

func (g *thoughtGate) write(s string) {
	if s == "" {
		return
	}
	if g.open {
		g.on(s)
		return
	}
	g.held = strings.TrimLeftFunc(g.held+s, unicode.IsSpace)
	for g.held != "" {
		name, after, ok := leadingTag(g.held)
		if !ok {
			break
		}
		_, end := findClosing(after, name)
		if end < 0 {
			return
		}
		g.held = strings.TrimLeftFunc(after[end:], unicode.IsSpace)
	}
	if g.held == "" || mayLead(g.held) {
		return
	}
	g.open = true
	g.on(g.held)
	g.held = ""
}

// mayLead reports whether a text may become an opening tag.
func mayLead(s string) bool {
	for _, name := range thoughtTags {
		if tag := "<" + name + ">"; len(s) < len(tag) && strings.EqualFold(s, tag[:len(s)]) {
			return true
		}
	}
	return false
}
