package llm_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// refusal is the body of a 400.
func refusal(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, message)
}

// together makes n calls at a time and returns how many failed.
func together(t *testing.T, n int, s mapreduce.Summarizer) (failed int) {
	t.Helper()
	var wg sync.WaitGroup
	var bad atomic.Int32
	for i := range n {
		wg.Go(func() {
			_, err := s.Summarize(t.Context(), mapreduce.Call{Prompt: "Sum: {chunks}", Texts: []string{fmt.Sprintf("Passage %d.", i)}, MaxOutputTokens: 50, Build: "b"})
			if err != nil {
				bad.Add(1)
				t.Log(err)
			}
		})
	}
	wg.Wait()
	return int(bad.Load())
}

// TestB1B3RefusedParameters: calls that are under way together when an endpoint refuses a parameter are all made again without
// it, in whatever words it is refused, and later ones go without it from the start.
// FAULTS2 B1 (BerriAI/litellm 13381), B3 (NousResearch/hermes-agent 12566, huggingface/text-generation-inference 1236).
func TestB1B3RefusedParameters(t *testing.T) {
	for name, refuse := range map[string]func(body map[string]any) string{
		"max_tokens": func(b map[string]any) string {
			if _, ok := b["max_tokens"]; ok {
				return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
			}
			return ""
		},
		"temperature": has("temperature", "invalid temperature: only 1 is allowed for this model"),
		"positive":    has("temperature", "`temperature` must be strictly positive"),
		"both": func(b map[string]any) string {
			if _, ok := b["max_tokens"]; ok {
				return "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
			}
			return has("temperature", "Unsupported value: 'temperature' does not support 0 with this model.")(b)
		},
		"stream": has("stream", "extra fields not permitted: stream"),
	} {
		for _, status := range []int{400, 422} {
			var refused, answered atomic.Int32
			gate := make(chan struct{})
			var waiting atomic.Int32
			base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
				if waiting.Add(1) == 8 { // the first eight are under way together
					close(gate)
				}
				<-gate
				if why := refuse(body); why != "" {
					refused.Add(1)
					refusal(w, status, why)
					return
				}
				answered.Add(1)
				io.WriteString(w, strings.Replace(fine, "A summary", fmt.Sprintf("Summary number %d", answered.Load()), 1))
			})
			s := summarizer(t, summaries(base), nil)
			if n := together(t, 8, s); n > 0 {
				t.Errorf("%s, %d: %d of 8 calls failed", name, status, n)
			}
			before := refused.Load()
			if n := together(t, 8, s); n > 0 || refused.Load() != before {
				t.Errorf("%s, %d: %d calls failed later, %d more were refused", name, status, n, refused.Load()-before)
			}
		}
	}
}

func has(name, why string) func(map[string]any) string {
	return func(b map[string]any) string {
		if _, ok := b[name]; ok {
			return why
		}
		return ""
	}
}

// TestB2RefusedEncodingFormat is the same for vectors. FAULTS2 B2 (BerriAI/litellm 42421).
func TestB2RefusedEncodingFormat(t *testing.T) {
	gate := make(chan struct{})
	var waiting atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		if waiting.Add(1) == 4 {
			close(gate)
		}
		<-gate
		if _, ok := body["encoding_format"]; ok {
			refusal(w, 400, "litellm.UnsupportedParamsError: Setting {'encoding_format': 'float'} is not supported")
			return
		}
		io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0]}]}`)
	})
	e := embedder(t, embeddings(base), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := e.Embed(t.Context(), []string{"a text"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// answering asks an endpoint that always answers with a body.
func answering(t *testing.T, status int, body string) (mapreduce.Answer, *llm.Stats, error) {
	t.Helper()
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	stats := &llm.Stats{}
	a, err := ask(t, summarizer(t, summaries(base), func(d *llm.Deps) { d.Stats = stats }))
	return a, stats, err
}

func said(text, finish string) string {
	return fmt.Sprintf(`{"choices":[{"message":{"content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":21,"completion_tokens":4}}`, text, finish)
}

// TestB4Finish: only a known good end makes an answer whole. FAULTS2 B4 (razzant/claudexor 144, genkit-ai/genkit 6259).
func TestB4Finish(t *testing.T) {
	for _, finish := range []string{"stop", "eos", "end_turn", "STOP", "stop_sequence", "COMPLETE"} {
		if a, _, err := answering(t, 200, said("A summary.", finish)); err != nil || a.Text != "A summary." {
			t.Errorf("%s: %q, %v", finish, a.Text, err)
		}
	}
	for finish, want := range map[string]llm.Reason{
		"error": llm.Failed, "abort": llm.Failed, "network_error": llm.Failed, "tool_calls": llm.Failed, "OTHER": llm.Failed, "insufficient_system_resource": llm.Failed,
		"MAX_TOKENS": llm.CutOff, "length": llm.CutOff, "model_length": llm.CutOff, "SAFETY": llm.Refusal, "RECITATION": llm.Refusal, "content_filter": llm.Refusal,
	} {
		_, _, err := answering(t, 200, said("Half of a summ", finish))
		if e := new(llm.Error); !errors.As(err, &e) || e.Reason != want {
			t.Errorf("%s: %v, want %s", finish, err, want)
		}
	}
	_, _, err := answering(t, 200, `{"choices":[{"message":{"content":"Half of"},"finish_reason":"stop","error":{"code":502,"message":"Provider disconnected"}}]}`)
	if err == nil || !strings.Contains(err.Error(), "disconnected") {
		t.Errorf("choices[0].error: %v", err)
	}
}

// TestB6B11Usage: what is billed is counted, however it is written, and an answer isn't lost because its bill can't be
// read. FAULTS2 B6 (mozilla-ai/any-llm 1290), B11.
func TestB6B11Usage(t *testing.T) {
	const answer = `{"choices":[{"message":{"content":"A summary."},"finish_reason":"stop"}],"usage":%s}`
	for usage, want := range map[string]tree.Usage{
		`{"prompt_tokens":100,"completion_tokens":20,"total_tokens":320}`:   {Calls: 1, InputTokens: 100, OutputTokens: 220},
		`{"prompt_tokens":100.0,"completion_tokens":20.0}`:                  {Calls: 1, InputTokens: 100, OutputTokens: 20},
		`{"prompt_tokens":"100","completion_tokens":"20"}`:                  {Calls: 1, InputTokens: 100, OutputTokens: 20},
		`{"input_tokens":100,"output_tokens":20}`:                           {Calls: 1, InputTokens: 100, OutputTokens: 20},
		`{"prompt_tokens":100,"completion_tokens":20,"total_tokens":"120"}`: {Calls: 1, InputTokens: 100, OutputTokens: 20},
	} {
		if a, _, err := answering(t, 200, fmt.Sprintf(answer, usage)); err != nil || a.Usage != want {
			t.Errorf("%s: %+v, %v; want %+v", usage, a.Usage, err, want)
		}
	}
	for _, usage := range []string{`[]`, `"none"`, `{"prompt_tokens":{}}`, `null`, `{"prompt_tokens":-5,"completion_tokens":1e300}`} {
		a, _, err := answering(t, 200, fmt.Sprintf(answer, usage))
		if err != nil || a.Text != "A summary." || a.Usage.InputTokens == 0 {
			t.Errorf("%s: %+v, %v", usage, a, err)
		}
	}
	if a, _, err := answering(t, 200, "\ufeff"+fine); err != nil || a.Text != "A summary." {
		t.Errorf("a byte order mark: %q, %v", a.Text, err)
	}
}

// TestB10StreamUnasked: events that nobody asked for are read. FAULTS2 B10 (quangdang46/openproxy 306).
func TestB10StreamUnasked(t *testing.T) {
	for name, body := range map[string]string{
		"events": "data: {\"choices\":[{\"delta\":{\"content\":\"A sum\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"mary.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":21,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n",
		"whole":  "event: message\ndata: " + fine + "\n\n",
		"marked": "\ufeff: ping\n\ndata: " + fine + "\n\n",
	} {
		a, stats, err := answering(t, 200, body)
		if err != nil || a.Text != "A summary." || a.Usage.InputTokens != 21 || stats.Calls.Load() != 1 {
			t.Errorf("%s: %+v, %v, %d calls", name, a, err, stats.Calls.Load())
		}
	}
}

// TestB12PassingStatus: what a gateway says of what is behind it passes. FAULTS2 B12 (google-gemini/gemini-cli 20309).
func TestB12PassingStatus(t *testing.T) {
	for _, status := range []int{499, 424, 423, 421, 460, 498, 520, 598} {
		var calls atomic.Int32
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			if calls.Add(1) == 1 {
				w.WriteHeader(status)
				return
			}
			io.WriteString(w, fine)
		})
		if _, err := ask(t, summarizer(t, summaries(base), nil)); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestB13RefusalAfterAnswers: one 404 or 403 after answers is asked for again; the first call's is final. FAULTS2 B13.
func TestB13RefusalAfterAnswers(t *testing.T) {
	for _, status := range []int{404, 403, 401} {
		var calls, fail atomic.Int32
		fail.Store(3)
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			if calls.Add(1) == fail.Load() {
				refusal(w, status, "not found")
				return
			}
			io.WriteString(w, fine)
		})
		s := summarizer(t, summaries(base), nil)
		for i := range 4 {
			if _, err := ask(t, s); err != nil {
				t.Errorf("%d, call %d: %v", status, i, err)
			}
		}
		calls.Store(0)
		fail.Store(1)
		if _, err := ask(t, summarizer(t, summaries(base), nil)); err == nil || calls.Load() != 1 {
			t.Errorf("%d at first: %v after %d calls", status, err, calls.Load())
		}
	}
}

// TestB16TheSameAnswer: one answer to different passages, of which it says little, is none. FAULTS2 B16, B23.
func TestB16TheSameAnswer(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		io.WriteString(w, said("The weather will stay fine for days.", "stop"))
	})
	s := summarizer(t, summaries(base), nil)
	var failed int
	for i := range 6 {
		_, err := s.Summarize(t.Context(), mapreduce.Call{Prompt: "Sum: {chunks}", Texts: []string{fmt.Sprintf("Invoice %d is due in March.", i)}, MaxOutputTokens: 50})
		if e := new(llm.Error); errors.As(err, &e) && e.Reason == llm.SameAnswer {
			failed++
		}
	}
	if failed < 5 {
		t.Errorf("%d of 6 were refused", failed)
	}
	// Pages that are nearly the same may well have the same summary.
	for i := range 3 {
		text := fmt.Sprintf("The weather will stay fine for days, says report %d.", i)
		if _, err := s.Summarize(t.Context(), mapreduce.Call{Prompt: "Sum: {chunks}", Texts: []string{text}, MaxOutputTokens: 50}); err != nil {
			t.Error(err)
		}
	}
}

// TestB21TLS: what waiting won't mend is said at once, with what to do. FAULTS2 B21.
func TestB21TLS(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, fine) })
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	secure.Config.ErrorLog = nil
	plain := httptest.NewServer(handler)
	defer plain.Close()
	for base, says := range map[string]string{
		secure.URL: "summaries.ca_file",
		"https://" + strings.TrimPrefix(plain.URL, "http://"):  "http:// for https://",
		"http://" + strings.TrimPrefix(secure.URL, "https://"): "https:// for http://",
	} {
		_, err := ask(t, summarizer(t, summaries(base), nil))
		if e := new(llm.Error); !errors.As(err, &e) || e.Kind != llm.Auth || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// TestB22Keys: what a key brings along from where it was copied is taken off, or named. FAULTS2 B22.
func TestB22Keys(t *testing.T) {
	var got string
	base := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		got = r.Header.Get("Authorization")
		io.WriteString(w, fine)
	})
	for _, key := range []string{"\ufeffsk-1", "Bearer sk-1", "bearer  sk-1\n", " sk-1\r\n"} {
		cfg := summaries(base)
		cfg.APIKey = key
		if _, err := ask(t, summarizer(t, cfg, nil)); err != nil || got != "Bearer sk-1" {
			t.Errorf("%q: sent %q, %v", key, got, err)
		}
	}
	for _, key := range []string{"“sk-1”", `"sk-1"`, "'sk-1'", "sk 1", "sk-\u200b1", "sk-1\nsk-2", "sk–1"} {
		cfg := summaries(base)
		cfg.APIKey = key
		_, err := llm.NewSummarizer(cfg, llm.Deps{Counter: counter{}})
		if err == nil || !strings.Contains(err.Error(), "summaries.api_key") || strings.Contains(err.Error(), "sk") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestB23NotUTF8: bytes that aren't UTF-8 are no answer, and neither is a question for the passages. FAULTS2 B23.
func TestB23NotUTF8(t *testing.T) {
	if a, _, err := answering(t, 200, strings.Replace(fine, "A summary.", "Un r\xe9sum\xe9.", 1)); err == nil {
		t.Errorf("became %q", a.Text)
	}
	for _, text := range []string{
		"Please provide the passages you would like me to summarize.", "It seems you haven't provided any passages.", "Sure! Please share the text.",
		"I'm ready to help. What would you like me to summarize?", "There are no passages provided.",
	} {
		_, _, err := answering(t, 200, said(text, "stop"))
		if e := new(llm.Error); !errors.As(err, &e) || e.Reason != llm.AsksBack {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestB8OneTextOfMany: one text that makes the endpoint fail is named, and the others are embedded. FAULTS2 B8
// (ollama/ollama 15582).
func TestB8OneTextOfMany(t *testing.T) {
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		calls.Add(1)
		var rows []string
		for i, text := range body["input"].([]any) {
			if text == "text 57" {
				http.Error(w, `{"error":"failed to encode response: json: unsupported value: NaN"}`, 500)
				return
			}
			rows = append(rows, fmt.Sprintf(`{"index":%d,"embedding":[1,0]}`, i))
		}
		io.WriteString(w, `{"data":[`+strings.Join(rows, ",")+`]}`)
	})
	texts := make([]string, 93)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %d", i)
	}
	got, err := embedder(t, embeddings(base), nil).Embed(t.Context(), texts)
	var some *llm.PassageError
	if !errors.As(err, &some) || len(some.Failed) != 1 || some.Failed[0].Index != 57 {
		t.Fatal(err)
	}
	for i, v := range got {
		if (v == nil) != (i == 57) {
			t.Errorf("text %d: %v", i, v)
		}
	}
	if n := calls.Load(); n > 60 {
		t.Errorf("%d requests", n)
	}
	// An endpoint that fails on everything is away: no text is blamed.
	base = serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { http.Error(w, "", 500) })
	if _, err := embedder(t, embeddings(base), nil).Embed(t.Context(), texts); err == nil || errors.As(err, &some) {
		t.Errorf("got %v", err)
	}
}

// TestB24Trimmed: an answer without reasoning that is cut off twice is kept up to its last sentence, what it says twice
// once; with cut_off: refuse it is buried. FAULTS2 B24.
func TestB24Trimmed(t *testing.T) {
	const text = "The doctor asks first. The doctor asks first. Then the blood is tested. The result is ready in"
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		calls.Add(1)
		io.WriteString(w, said(text, "length"))
	})
	stats := &llm.Stats{}
	s := summarizer(t, summaries(base), func(d *llm.Deps) { d.Stats = stats })
	for i := range 20 {
		texts := []string{"The doctor asks first, then the blood is tested.", fmt.Sprint("Page ", i)}
		a, err := s.Summarize(t.Context(), mapreduce.Call{Prompt: "Sum: {chunks}", Texts: texts, MaxOutputTokens: 50})
		if err != nil || a.Text != "The doctor asks first. Then the blood is tested." {
			t.Fatalf("%q, %v", a.Text, err)
		}
	}
	if stats.Trimmed.Load() != 20 {
		t.Errorf("%d are counted", stats.Trimmed.Load())
	}
	if n := calls.Load(); n > 40-8 { // once it is the rule, no second try is made
		t.Errorf("%d calls", n)
	}
	cfg := summaries(base)
	cfg.CutOff = llm.CutOffRefuse
	_, err := ask(t, summarizer(t, cfg, nil))
	if e := new(llm.Error); !errors.As(err, &e) || e.Reason != llm.CutOff {
		t.Errorf("refuse: %v", err)
	}
}

// Seeds 6: loops and untagged planning are asked for again, then refused; what the passages say so is a summary.
func TestLoopsAndPlanning(t *testing.T) {
	for text, want := range map[string]llm.Reason{
		"The dose is adjusted and adjusted and adjusted and adjusted and adjusted and adjusted and adjusted.":           llm.Loops,
		strings.Repeat("The patient should be seen. ", 6):                                                               llm.Loops,
		strings.Repeat("病人需要复查。", 6):                                                                                    llm.Loops,
		"Okay, the user wants me to summarize the passages. Let me read them. The first is about a dog.":                llm.Planning,
		"We need to summarize the passages in plain sentences. They are about trees.":                                   llm.Planning,
		"Let me start by reading the passages.":                                                                         llm.Planning,
		"Alright, let's tackle this. The passages speak of rain.":                                                       llm.Planning,
		"The user asks me for a summary of the passages, at most 60 words.":                                             llm.Planning,
		"好的，用户要求总结这些段落。":                                                                                                llm.Planning,
		"Let us go then, you and I, says the poem, and the evening is spread out against the sky.":                      "",
		"The user wants to cancel an order, and the shop allows it within a day.":                                       "",
		"We need more rain, the farmers say, and the council has promised a new dam.":                                   "",
		"Rain fell on Monday, snow fell on Tuesday, hail fell on Wednesday, and on Thursday nothing fell from the sky.": "",
	} {
		_, stats, err := answering(t, 200, said(text, "stop"))
		e := new(llm.Error)
		if got := llm.Reason(""); errors.As(err, &e) {
			got = e.Reason
			if got != want || stats.Calls.Load() < 2 {
				t.Errorf("%q: %s after %d calls, want %q", text, got, stats.Calls.Load(), want)
			}
		} else if want != "" || err != nil {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
