package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// message is the part of a choice that is read, whole or as the pieces of a stream.
type message struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
}

// choice is one answer: Message of a reply in one piece, Delta of an event.
type choice struct {
	Message      message         `json:"message"`
	Delta        message         `json:"delta"`
	FinishReason json.RawMessage `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

// completion is the part of a reply, or of an event of a stream, that is read.
type completion struct {
	Error   json.RawMessage `json:"error"`
	Choices []choice        `json:"choices"`
	Usage   usage           `json:"usage"`
}

// usage is what an endpoint says that a call took. What can't be read is 0: an answer isn't lost because of its bill.
type usage struct{ prompt, completion, total int }

// UnmarshalJSON reads what is there.
func (u *usage) UnmarshalJSON(raw []byte) error {
	var fields struct {
		Prompt     json.RawMessage `json:"prompt_tokens"`
		Completion json.RawMessage `json:"completion_tokens"`
		Total      json.RawMessage `json:"total_tokens"`
		Input      json.RawMessage `json:"input_tokens"`
		Output     json.RawMessage `json:"output_tokens"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	*u = usage{
		prompt:     max(tokenCount(fields.Prompt), tokenCount(fields.Input)),
		completion: max(tokenCount(fields.Completion), tokenCount(fields.Output)),
		total:      tokenCount(fields.Total),
	}
	return nil
}

// tokenCount reads a number as it is written by some: whole, with a fraction, or in quotes. Anything else is 0.
func tokenCount(raw json.RawMessage) int {
	v, err := strconv.ParseFloat(strings.TrimSpace(scalar(raw)), 64)
	if err != nil || !(v > 0) || v > math.MaxInt32 {
		return 0
	}
	return int(math.Ceil(v))
}

// output is what is billed as output: some endpoints count reasoning in the total alone.
func (u usage) output() int { return max(u.completion, u.total-u.prompt) }

// bill notes in a reply what a call took, if the endpoint says so.
func (u usage) bill(r *Reply) {
	if u.prompt > 0 {
		r.InputTokens, r.OutputTokens = u.prompt, u.output()
	}
}

// decode reads a reply in one piece. A byte order mark and white space before it don't count.
func decode(body []byte) (completion, error) {
	var got completion
	err := json.Unmarshal(bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\ufeff"))), &got)
	return got, err
}

// isStream reports whether a reply is a stream of events, whatever was asked for and whatever its header says.
func isStream(body []byte) bool {
	body = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\ufeff")))
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(body, []byte(field)) {
			return true
		}
	}
	return false
}

// parse reads a reply that came in one piece.
func (c *Chat) parse(req Request, body []byte) (Reply, error) {
	if !utf8.Valid(body) {
		return Reply{}, c.to.notJSON(bytes.ToValidUTF8(body, []byte("?")), "the reply isn't UTF-8")
	}
	if isStream(body) {
		r, err := c.readEvents(bytes.NewReader(body), func(string) {})
		if err != nil {
			return Reply{}, err
		}
		return c.counted(req, r), nil
	}
	got, err := decode(body)
	if err != nil {
		if isErrorText(string(body)) {
			return Reply{}, c.to.refused(statusIn(string(body)), nil, body)
		}
		return Reply{}, c.to.notJSON(body, "the reply isn't JSON")
	}
	if len(got.Choices) == 0 || present(got.Error) {
		return Reply{}, c.to.refused(200, nil, body)
	}
	if failed := got.Choices[0].Error; present(failed) {
		return Reply{}, c.to.refused(200, nil, []byte(`{"error":`+string(failed)+`}`))
	}
	m := got.Choices[0].Message
	r := Reply{
		Text: content(m.Content), Refusal: text(m.Refusal), Finish: scalar(got.Choices[0].FinishReason),
		Reasoning: scalar(m.ReasoningContent) + scalar(m.Reasoning),
	}
	got.Usage.bill(&r)
	return c.counted(req, r), c.disguised(r)
}

// disguised returns the error that an answer's text is, or nil.
func (c *Chat) disguised(r Reply) error {
	if !isErrorText(r.Text) {
		return nil
	}
	said := strings.TrimSpace(r.Text)
	return c.to.refused(statusIn(said), nil, []byte(said))
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
