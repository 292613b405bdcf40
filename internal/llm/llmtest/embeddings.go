package llmtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
)

func promptHash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

func (s *Server) embeddings(w http.ResponseWriter, body []byte) {
	s.count(func(c *Counts) { c.Embeddings++ })
	if s.limited(w) {
		return
	}
	var req struct {
		Input json.RawMessage `json:"input"`
	}
	var texts []string
	if json.Unmarshal(body, &req) != nil || json.Unmarshal(req.Input, &texts) != nil {
		var one string
		if json.Unmarshal(req.Input, &one) != nil {
			fail(w, http.StatusBadRequest, "invalid_request_error", "The request can't be read.")
			return
		}
		texts = []string{one}
	}
	if s.cfg.MaxInputs > 0 && len(texts) > s.cfg.MaxInputs {
		fail(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("At most %d inputs are allowed.", s.cfg.MaxInputs))
		return
	}
	tokens := 0
	for i, t := range texts {
		n := s.cfg.Count(t)
		if n > s.cfg.ContextTokens {
			fail(w, http.StatusBadRequest, "context_length_exceeded", fmt.Sprintf("Input %d has %d tokens, the maximum context length is %d.", i, n, s.cfg.ContextTokens))
			return
		}
		tokens += n
	}
	hash, nth := s.turn(body)
	fault := s.pick(hash, nth, embeddingFaults)
	if common(w, fault, hash) {
		return
	}
	data := make([]any, 0, len(texts))
	for i, t := range texts {
		if fault == OneTooFew && i == len(texts)-1 {
			break
		}
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": Vector(t, s.cfg.Width)})
	}
	if fault == NaN {
		b, _ := json.Marshal(data)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object": "list", "data": %s}`, strings.Replace(string(b), `"embedding":[`, `"embedding":[NaN,`, 1))
		return
	}
	if fault == "" {
		s.count(func(c *Counts) { c.EmbeddingsOK++ })
	}
	reply(w, map[string]any{"object": "list", "data": data, "usage": map[string]any{"prompt_tokens": tokens, "total_tokens": tokens}})
}

// Vector is the embedding of a text: its words, lower case, each added to a few dimensions by hash; unit length.
func Vector(text string, width int) []float32 {
	v := make([]float64, width)
	add := func(word string) {
		h := promptHash(word)
		for range 4 {
			h = mix(h + 0x9e3779b97f4a7c15)
			sign := 1 - 2*float64(h&1)
			v[(h>>1)%uint64(width)] += sign
		}
	}
	words := strings.Fields(strings.ToLower(text))
	for _, w := range words {
		if w = strings.Trim(w, ".,;:!?()[]\"'"); len(w) > 3 {
			add(w)
		}
	}
	add("\x00") // so that no vector is zero
	var norm float64
	for _, x := range v {
		norm += x * x
	}
	if norm == 0 {
		v[0], norm = 1, 1
	}
	out := make([]float32, width)
	for i, x := range v {
		out[i] = float32(x / math.Sqrt(norm))
	}
	return out
}
