package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// chatAnswer is a completion, or a chunk of one, as a program reads it.
type chatAnswer struct {
	Object  string
	Model   string
	Choices []struct {
		Message, Delta struct {
			Role        string
			Content     string
			Annotations []struct {
				Type string
				URL  struct {
					Start int `json:"start_index"`
					End   int `json:"end_index"`
					URL   string
					Title string
				} `json:"url_citation"`
			}
		}
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Total int `json:"total_tokens"`
	}
	Event *struct {
		Type string
		Data struct {
			Source   struct{ Name, URL string }
			Document []string
		}
	}
	Error *struct{ Message, Type, Param, Code string }
}

// chatWorld is a server of two corpora, and a token that may read the first.
func chatWorld(t *testing.T) *world {
	keys := newKeyring(t)
	reader, admin := keys.add("reader", access.Read, "birds"), keys.add("admin", access.Admin)
	w := &world{t: t, place: servicetest.Open(t, t.TempDir()), token: admin}
	svc := w.place.Service(t)
	w.web = httptest.NewServer(server.New(server.Config{Tokens: keys.open(slog.New(slog.DiscardHandler)), Embed: svc.Embed}, svc, nil).Handler())
	t.Cleanup(w.web.Close)
	for _, corpus := range []string{"birds", "secret"} {
		want[api.IngestReport](t, w.do("POST", "/v1/corpora/"+corpus+"/documents", birds(40)), http.StatusOK)
	}
	w.token = reader
	return w
}

func chatBody(more map[string]any, messages ...string) map[string]any {
	list := []map[string]any{{"role": "system", "content": "You are helpful."}}
	for i, m := range messages {
		list = append(list, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": m})
	}
	body := map[string]any{"model": "aerie/birds", "messages": list, "temperature": 0.3, "user": "somebody"}
	for k, v := range more {
		body[k] = v
	}
	return body
}

const chatPath = "/openai/v1/chat/completions"

// TestChat: a corpus answers as a model does, whole and in pieces, with its sources; only those corpora that a token may read.
func TestChat(t *testing.T) {
	w := chatWorld(t)
	models := want[struct{ Data []struct{ ID string } }](t, w.do("GET", "/openai/v1/models", nil), http.StatusOK)
	if len(models.Data) != 1 || models.Data[0].ID != "aerie/birds" {
		t.Errorf("the models are %+v", models)
	}
	want[struct{}](t, w.do("GET", "/openai/v1/models/aerie/birds", nil), http.StatusOK)

	whole := want[chatAnswer](t, w.do("POST", chatPath, chatBody(nil, "How do owls hunt?")), http.StatusOK)
	text := whole.Choices[0].Message.Content
	body, list, ok := strings.Cut(text, "\n\nSources:\n")
	if !ok || whole.Choices[0].Message.Role != "assistant" || *whole.Choices[0].Finish != "stop" || whole.Usage == nil {
		t.Fatalf("%+v", whole)
	}
	marks := whole.Choices[0].Message.Annotations
	if len(marks) == 0 {
		t.Fatal("nothing is cited")
	}
	for _, m := range marks {
		at := string([]rune(text)[m.URL.Start:m.URL.End])
		if m.Type != "url_citation" || !strings.Contains(body, at) || !strings.Contains(list, at+" ["+m.URL.Title+"]("+m.URL.URL+")") || !strings.HasPrefix(m.URL.URL, w.web.URL) {
			t.Errorf("%q is cited as %+v; the list is %q", at, m, list)
		}
	}
	parts := []map[string]any{{"type": "text", "text": "How do owls hunt?"}, {"type": "image_url", "image_url": map[string]any{"url": "data:"}}}
	inParts := want[chatAnswer](t, w.do("POST", chatPath, map[string]any{"model": "aerie/birds", "messages": []any{map[string]any{"role": "user", "content": parts}}}), http.StatusOK)
	if diff := cmp.Diff(text, inParts.Choices[0].Message.Content); diff != "" {
		t.Errorf("a question in parts is answered otherwise (-text +parts)\n%s", diff)
	}

	streamed, sources, last := "", []string{}, chatAnswer{}
	a := w.do("POST", chatPath, chatBody(map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}, "How do owls hunt?"))
	chunks := strings.Split(strings.TrimSpace(string(a.body)), "\n\n")
	for i, line := range chunks {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			t.Fatalf("chunk %d is %q", i, line)
		}
		if i == len(chunks)-1 {
			if data != "[DONE]" {
				t.Errorf("the last chunk is %q", data)
			}
			break
		}
		chunk := chatAnswer{}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("chunk %d is %q: %v", i, data, err)
		}
		if len(chunk.Choices) == 0 {
			if chunk.Usage == nil || i != len(chunks)-2 {
				t.Errorf("chunk %d has no choice: %q", i, data)
			}
			continue
		}
		streamed += chunk.Choices[0].Delta.Content
		if chunk.Event != nil {
			sources = append(sources, chunk.Event.Data.Source.URL)
		}
		last = chunk
	}
	if diff := cmp.Diff(text, streamed); diff != "" {
		t.Errorf("the pieces differ from the whole (-whole +streamed)\n%s", diff)
	}
	if diff := cmp.Diff(marks, last.Choices[0].Delta.Annotations); diff != "" || len(sources) == 0 || *last.Choices[0].Finish != "stop" {
		t.Errorf("the end is %+v, the sources %q (-whole +streamed)\n%s", last, sources, diff)
	}
}

// TestChatErrors: errors have the shape that programs read, each with its status.
func TestChatErrors(t *testing.T) {
	w := chatWorld(t)
	for _, c := range []struct {
		body   any
		status int
		says   string
	}{
		{chatBody(map[string]any{"model": "aerie/none"}, "owls?"), http.StatusForbidden, "no right to it"},
		{chatBody(map[string]any{"model": "aerie/secret"}, "owls?"), http.StatusForbidden, "no right to it"},
		{chatBody(map[string]any{"model": "gpt-5"}, "owls?"), http.StatusNotFound, "models are aerie/"},
		{chatBody(nil), http.StatusBadRequest, "no question"},
		{chatBody(map[string]any{"stream": true}, " "), http.StatusBadRequest, "no question"},
		{map[string]any{"model": "aerie/birds", "messages": []any{map[string]any{"role": "user", "content": 3}}}, http.StatusBadRequest, "must be a text"},
		{map[string]any{"model": 7}, http.StatusBadRequest, "model is a JSON number"},
		{"{", http.StatusBadRequest, "can't be read as JSON"},
		{chatBody(nil, strings.Repeat("x", 5<<20)), http.StatusRequestEntityTooLarge, "bytes"},
	} {
		a := w.do("POST", chatPath, c.body)
		got := want[chatAnswer](t, a, c.status)
		if got.Error == nil || !strings.Contains(got.Error.Message, c.says) {
			t.Errorf("%.100v: %.300s; want %q", c.body, a.body, c.says)
		}
	}
	if a := w.do("GET", "/openai/v1/assistants", nil); a.status != http.StatusNotFound || !strings.Contains(string(a.body), "chat/completions") {
		t.Errorf("a route that isn't there: %d %s", a.status, a.body)
	}
	w.token = "wrong"
	if a := w.do("GET", "/openai/v1/models", nil); a.status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", a.status)
	}
}

// TestChatChores: what chat programs ask about the conversation is answered from it, without the corpus. The requests have the shapes
// of Open WebUI's tasks and LibreChat's titles.
func TestChatChores(t *testing.T) {
	w := chatWorld(t)
	task := func(format string) string {
		return "### Task:\nDo something with the chat history.\n### Output:\nJSON format: " + format + "\n### Chat History:\n<chat_history>\nUSER: How do owls hunt at night?\nASSISTANT: By ear.\n</chat_history>"
	}
	for asked, wanted := range map[string]string{
		task(`{ "title": "your concise title here" }`): `{"title":"How do owls hunt at night"}`,
		task(`{ "tags": ["tag1", "tag2"] }`):           `{"tags":[]}`,
		task(`{ "follow_ups": ["Question 1?"] }`):      `{"follow_ups":[]}`,
		task(`{ "queries": ["query1"] }`):              `{"queries":[]}`,
		"Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title itself.\n\nConversation:\nUser: How do owls hunt at night?\nAI: By ear.": "How do owls hunt at night",
		"Please generate a concise title (max 40 characters) for a conversation that starts with:\nUser: How do owls hunt at night?\nAssistant: By ear.\n\nTitle:":                                  "How do owls hunt at night",
	} {
		got := want[chatAnswer](t, w.do("POST", chatPath, chatBody(nil, asked)), http.StatusOK)
		if text := got.Choices[0].Message.Content; text != wanted {
			t.Errorf("%.60q: %q, want %q", asked, text, wanted)
		}
	}
}

// TestChatHistory: a question that means something only after another finds what both are about.
func TestChatHistory(t *testing.T) {
	w := chatWorld(t)
	got := want[chatAnswer](t, w.do("POST", chatPath, chatBody(nil, "How do owls hunt?", "By ear [1].\n\nSources:\n[1] …", "And why is that?")), http.StatusOK)
	if text := got.Choices[0].Message.Content; !strings.Contains(strings.ToLower(text), "owl") {
		t.Errorf("the answer is %q", text)
	}
}

// TestChatEmbeddings: vectors come as numbers and as bytes in base64, as clients ask for them, and are the same.
func TestChatEmbeddings(t *testing.T) {
	w := chatWorld(t)
	type vectors struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
	}
	input := []string{"Owls hunt by ear.", "Herons wait."}
	plain := want[vectors](t, w.do("POST", "/openai/v1/embeddings", map[string]any{"model": "aerie/birds", "input": input}), http.StatusOK)
	bytes := want[vectors](t, w.do("POST", "/openai/v1/embeddings", map[string]any{"model": "aerie/birds", "input": input, "encoding_format": "base64"}), http.StatusOK)
	if len(plain.Data) != 2 || len(bytes.Data) != 2 {
		t.Fatalf("%d and %d vectors", len(plain.Data), len(bytes.Data))
	}
	for i := range plain.Data {
		var numbers []float32
		var text string
		if err := json.Unmarshal(plain.Data[i].Embedding, &numbers); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(bytes.Data[i].Embedding, &text); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != 4*len(numbers) || len(numbers) == 0 {
			t.Fatalf("%d bytes for %d numbers: %v", len(raw), len(numbers), err)
		}
		for j, x := range numbers {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])); got != x {
				t.Fatalf("number %d of vector %d is %v and %v", j, i, x, got)
			}
		}
	}
	for says, body := range map[string]any{
		"input is missing": map[string]any{"model": "aerie/birds"},
		"token numbers":    map[string]any{"model": "aerie/birds", "input": []int{1, 2}},
		"text 1 of input":  map[string]any{"model": "aerie/birds", "input": []string{"a", ""}},
		"dimensions is 3":  map[string]any{"model": "aerie/birds", "input": "a", "dimensions": 3},
		"float or base64":  map[string]any{"model": "aerie/birds", "input": "a", "encoding_format": "hex"},
	} {
		if a := w.do("POST", "/openai/v1/embeddings", body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), says) {
			t.Errorf("%v: %d %s; want %q", fmt.Sprint(body), a.status, a.body, says)
		}
	}
}
