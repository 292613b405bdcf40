package llm

import (
	"bytes"
	"errors"
	"testing"
	"time"
	"unicode/utf8"
)

// fuzzChat is a client whose endpoint is never asked.
func fuzzChat(f *testing.F) *Chat {
	f.Helper()
	cfg := SummariesConfig{Provider: ProviderOpenAI, BaseURL: "http://127.0.0.1:1/v1", Model: "m", Timeout: time.Second}
	to, err := newEndpoint(endpointConfig{section: "summaries", base: cfg.BaseURL, timeout: cfg.Timeout, limit: maxChatReply})
	if err != nil {
		f.Fatal(err)
	}
	return newChat(cfg, to, Deps{Counter: byteCounter{}})
}

// byteCounter takes every byte for a token.
type byteCounter struct{}

func (byteCounter) Count(text string) int { return len(text) }

// sound holds what a parser of replies gives to an answer in UTF-8, or an error that says what to do about it.
func sound(t *testing.T, reply Reply, err error) {
	t.Helper()
	var e *Error
	switch {
	case err != nil && !errors.As(err, &e):
		t.Errorf("%T: %v", err, err)
	case err != nil && e.Kind == "":
		t.Errorf("%+v", e)
	case err == nil && !utf8.ValidString(reply.Text):
		t.Errorf("%q", reply.Text)
	case err == nil && (reply.InputTokens < 0 || reply.OutputTokens < 0):
		t.Errorf("%d tokens in, %d out", reply.InputTokens, reply.OutputTokens)
	}
}

// FuzzReply reads any bytes as the reply of a chat endpoint.
func FuzzReply(f *testing.F) {
	c := fuzzChat(f)
	f.Add([]byte(`{"choices":[{"message":{"content":"A."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1.5,"completion_tokens":"2","total_tokens":-3}}`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"A."}]},"error":{"code":429}}],"error":null}`))
	f.Add([]byte("\xef\xbb\xbf[1]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := c.parse(Request{MaxOutputTokens: 10}, body)
		sound(t, reply, err)
	})
}

// FuzzEvents reads any bytes as a stream of server-sent events.
func FuzzEvents(f *testing.F) {
	c := fuzzChat(f)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n"))
	f.Add([]byte(": hello\nevent: x\ndata:{\"error\":{}}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		heard := 0
		reply, err := c.readEvents(bytes.NewReader(body), func(text string) { heard += len(text) })
		sound(t, reply, err)
		if err == nil && heard != len(reply.Text) {
			t.Errorf("%d bytes were handed on of %d", heard, len(reply.Text))
		}
	})
}
