package llmtest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"unicode"
)

// Tokens is how the endpoint counts: a token for each run of letters or digits up to six characters long, for each further six,
// and for each other character that isn't white space; ideographs count one by one. On English prose that is
// about 1.4 tokens a word, more than most vocabularies need.
func Tokens(text string) int {
	n, run := 0, 0
	for _, r := range text {
		switch {
		case r >= 0x2e80 && unicode.IsLetter(r):
			n, run = n+1, 0
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if run%6 == 0 {
				n++
			}
			run++
		case unicode.IsSpace(r):
			run = 0
		default:
			n, run = n+1, 0
		}
	}
	return n
}

func (s *Server) chat(w http.ResponseWriter, body []byte) {
	s.count(func(c *Counts) { c.Chat++ })
	if s.limited(w) {
		return
	}
	var req struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
		MaxTokens           int  `json:"max_tokens"`
		MaxCompletionTokens int  `json:"max_completion_tokens"`
		Stream              bool `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil || len(req.Messages) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "The request can't be read.")
		return
	}
	var prompt strings.Builder
	for _, m := range req.Messages {
		prompt.WriteString(m.Content)
	}
	limit := max(req.MaxTokens, req.MaxCompletionTokens)
	tokens := s.cfg.Count(prompt.String())
	violation := tokens+limit > s.cfg.ContextTokens
	s.count(func(c *Counts) {
		c.LargestPrompt = max(c.LargestPrompt, tokens+limit)
		if violation {
			c.Violations++
		}
	})
	if violation {
		fail(w, http.StatusBadRequest, "context_length_exceeded", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion).",
			s.cfg.ContextTokens, tokens+limit, tokens, limit))
		return
	}
	hash, nth := s.turn(body)
	fault := s.pick(hash, nth, chatFaults)
	if common(w, fault, hash) {
		return
	}
	text := Summary(prompt.String(), limit)
	if s.cfg.Chat != nil {
		text = s.cfg.Chat(prompt.String(), limit)
	}
	message, finish := map[string]any{"role": "assistant", "content": text}, "stop"
	spent := s.cfg.Count(text)
	if s.cfg.Reasons > 0 {
		message["reasoning_content"] = "The passages speak of several things."
		if spent += s.cfg.Reasons; spent > limit {
			message, finish, spent = thoughts(5), "length", limit
			fault = OnlyReasoning
		}
	}
	switch fault {
	case EmptyAnswer:
		message["content"] = ""
	case OnlyReasoning:
		if s.cfg.Reasons == 0 {
			message = thoughts(hash + uint64(nth))
		}
	case CutOff:
		message["content"], finish = text[:len(text)/2], "length"
		message["content"] = strings.ToValidUTF8(text[:len(text)/2], "")
	case Refuse:
		message["content"] = "I'm sorry, but I can't help with that."
	default:
		s.count(func(c *Counts) { c.ChatOK++ })
		s.mu.Lock()
		s.good[promptHash(prompt.String())]++
		s.mu.Unlock()
	}
	usage := map[string]any{"prompt_tokens": tokens, "completion_tokens": spent, "total_tokens": tokens + spent}
	if req.Stream {
		stream(w, message, finish, usage)
		return
	}
	reply(w, map[string]any{
		"object":  "chat.completion",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		"usage":   usage,
	})
}

// Summary is the answer to a prompt: sentences of its passages, spread evenly, as many as fit into three quarters of the
// limit by [Tokens]. It is never empty.
func Summary(prompt string, limit int) string {
	if i := strings.LastIndex(prompt, "<passages>"); i >= 0 {
		prompt = prompt[i+len("<passages>"):]
	}
	if i := strings.LastIndex(prompt, "</passages>"); i >= 0 {
		prompt = prompt[:i]
	}
	var sentences []string
	for _, s := range strings.FieldsFunc(prompt, func(r rune) bool { return strings.ContainsRune(".!?。！？\n", r) }) {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			sentences = append(sentences, s+".")
		}
	}
	budget := max(1, limit*3/4)
	taken := make([]bool, len(sentences))
	for i, misses := 0, 0; i < len(sentences) && misses < 8; i++ {
		at := spread(i, len(sentences))
		if n := Tokens(sentences[at]); n <= budget && !taken[at] {
			taken[at] = true
			budget -= n
		} else {
			misses++
		}
	}
	var out []string
	for i, s := range sentences {
		if taken[i] {
			out = append(out, s)
		}
	}
	if len(out) == 0 { // no sentence is short enough: the beginning of the first
		for _, s := range sentences {
			r := []rune(s)
			return strings.TrimSpace(string(r[:min(len(r), budget)])) + "."
		}
		return "Text."
	}
	return strings.Join(out, " ")
}

// spread is the ith of n places in an order that fills them evenly: the fractional part of i times the golden ratio.
func spread(i, n int) int {
	_, f := math.Modf(float64(i) * 0.6180339887498949)
	return int(f * float64(n))
}
