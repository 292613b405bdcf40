package llmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// pieceRunes is how many characters an event of a stream brings: few, so that words and tags are torn apart.
const pieceRunes = 5

// stream sends a message as server-sent events, a few characters at a time, and then its usage.
func stream(w http.ResponseWriter, message map[string]any, finish string, usage map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, map[string]any{"choices": []any{choice(map[string]any{"role": "assistant", "content": ""}, nil)}})
	for _, field := range slices.Sorted(maps.Keys(message)) { // reasoning, if there is any, after an empty content
		text, ok := message[field].(string)
		if !ok || field == "role" {
			continue
		}
		for piece := range slices.Chunk([]rune(text), pieceRunes) {
			event(w, map[string]any{"choices": []any{choice(map[string]any{field: string(piece)}, nil)}})
		}
	}
	event(w, map[string]any{"choices": []any{choice(map[string]any{}, finish)}})
	event(w, map[string]any{"choices": []any{}, "usage": usage})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func choice(delta map[string]any, finish any) map[string]any {
	return map[string]any{"index": 0, "delta": delta, "finish_reason": finish}
}

func event(w http.ResponseWriter, v map[string]any) {
	v["object"] = "chat.completion.chunk"
	raw, err := json.Marshal(v)
	if err != nil {
		panic("llmtest: " + err.Error())
	}
	fmt.Fprintf(w, "data: %s\n\n", raw)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
