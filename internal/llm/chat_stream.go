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
	"unicode/utf8"
)

// Streamer is the chat model for people who wait for the answer: they can read it while it is written. It keeps
// to the limits, and tries again what another moment may cure, as long as nothing has been read of the answer.
type Streamer struct {
	chat *Chat
	deps Deps
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
	to, err := newEndpoint(endpointConfig{
		section: "summaries", base: cfg.BaseURL, key: key, timeout: cfg.Timeout, limit: maxChatReply, caFile: cfg.CAFile, headers: cfg.Headers,
		transport: deps.Transport,
	})
	if err != nil {
		return nil, err
	}
	return &Streamer{chat: newChat(cfg, to, deps), deps: deps}, nil
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
func Examine(r *Reply) Reason { return examine(r, nil) }

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
	try := attempt{parameters: c.chat.known.get()}
	for {
		c.gate.held = ""
		reply, err := c.once(ctx, req, &try.parameters)
		switch {
		case err == nil:
			c.chat.keep(try.parameters)
			return reply, nil
		case c.gate.open:
			c.broken = err
			return c.chat.counted(req, reply), nil
		case !try.without(err):
			return Reply{}, err
		}
	}
}

func (c *streamCall) once(ctx context.Context, req Request, p *parameters) (Reply, error) {
	body := c.chat.body(req, p)
	if !p.sends("stream") {
		body, err := c.chat.to.post(ctx, "/chat/completions", body)
		if err != nil {
			return Reply{}, err
		}
		return c.whole(req, body)
	}
	body["stream"] = true
	if _, own := body["stream_options"]; !own && p.sends("stream_options") {
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
	reply, err := c.chat.readEvents(in, c.gate.write)
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
	req.Header = e.header.Clone()
	req.Header.Set("Accept", "text/event-stream, application/json")
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

// readEvents puts the events of an answer together and hands its text on as it comes. Errors that are not *Error are those
// of the connection.
func (c *Chat) readEvents(from io.Reader, on func(text string)) (Reply, error) {
	in := bufio.NewReader(from)
	var r Reply
	var said strings.Builder
	for {
		line, err := in.ReadBytes('\n')
		data, isData := bytes.CutPrefix(bytes.TrimPrefix(line, []byte("\ufeff")), []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case isData && string(data) == "[DONE]", errors.Is(err, io.EOF) && r.Finish != "" && !isData:
			r.Text = said.String()
			return r, c.disguised(r)
		case errors.Is(err, io.EOF) && !isData:
			r.Text = said.String()
			return r, &Error{Kind: Transient, Endpoint: c.to.name, Sent: true, Message: "the stream ended before the answer did"}
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
		on(delta)
	}
}

// take adds an event to a reply, but for its text, which is returned. An event may hold a whole answer.
func (c *Chat) take(r *Reply, data []byte) (string, error) {
	p, err := decode(data)
	if err != nil || !utf8.Valid(data) {
		return "", c.to.notJSON(bytes.ToValidUTF8(data, []byte("?")), "an event of the stream isn't JSON in UTF-8")
	}
	if present(p.Error) {
		return "", c.to.refused(200, nil, data)
	}
	p.Usage.bill(r)
	if len(p.Choices) == 0 {
		return "", nil
	}
	first := p.Choices[0]
	if present(first.Error) {
		return "", c.to.refused(200, nil, []byte(`{"error":`+string(first.Error)+`}`))
	}
	said := ""
	for _, m := range []message{first.Delta, first.Message} {
		r.Refusal += text(m.Refusal)
		r.Reasoning += scalar(m.ReasoningContent) + scalar(m.Reasoning)
		said += content(m.Content)
	}
	if finish := scalar(first.FinishReason); finish != "" {
		r.Finish = finish
	}
	return said, nil
}
