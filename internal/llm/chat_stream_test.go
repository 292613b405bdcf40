package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

func streamer(t *testing.T, cfg llm.SummariesConfig) *llm.Streamer {
	t.Helper()
	s, err := llm.NewStreamer(cfg, llm.Deps{Counter: counter{}, Jitter: noWait, Log: quiet(), Transport: transport(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// heard collects what a reader sees.
func heard(ctx context.Context, s *llm.Streamer) (string, llm.Reply, error) {
	var b strings.Builder
	reply, err := s.Complete(ctx, llm.Request{Prompt: "Say it.", MaxOutputTokens: 50}, func(text string) { b.WriteString(text) })
	return b.String(), reply, err
}

// events sends lines as they are.
func events(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	io.WriteString(w, strings.Join(lines, ""))
}

func delta(field, text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{%q:%q},\"finish_reason\":null}]}\n\n", field, text)
}

const (
	ended = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	done  = "data: [DONE]\n\n"
)

func TestStream(t *testing.T) {
	var got map[string]any
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		got = body
		events(w, ": a comment\r\n\r\n", "event: message\n", delta("reasoning_content", "Hm."), delta("content", "Kites "), delta("content", "circle."),
			ended, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n", done)
	})
	said, reply, err := heard(t.Context(), streamer(t, summaries(base)))
	want := llm.Reply{Text: "Kites circle.", Reasoning: "Hm.", Finish: "stop", InputTokens: 7, OutputTokens: 3}
	if diff := cmp.Diff(want, reply); err != nil || diff != "" || said != want.Text {
		t.Errorf("%q, %v (-want +got):\n%s", said, err, diff)
	}
	if got["stream"] != true || !cmp.Equal(got["stream_options"], map[string]any{"include_usage": true}) {
		t.Errorf("the request was %v", got)
	}
}

// TestStreamHoldsReasoningBack: blocks that lead the answer, torn into any pieces, are not part of what is read.
func TestStreamHoldsReasoningBack(t *testing.T) {
	for text, want := range map[string]string{
		"<think>Let me see.</think>\n\nKites circle. ":     "Kites circle. ",
		" <THINKING>a</thinking><thought>b</thought> Owls": "Owls",
		"<thin air is thin>":                               "<thin air is thin>",
		"<think>never closed":                              "",
		"In <think> blocks </think> models think.":         "In <think> blocks </think> models think.",
		"<think": "",
	} {
		for size := 1; size < 9; size++ {
			var lines []string
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				lines = append(lines, delta("content", rest[:n]))
				rest = rest[n:]
			}
			base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
				events(w, append(lines, ended, done)...)
			})
			said, reply, err := heard(t.Context(), streamer(t, summaries(base)))
			if err != nil || said != want || reply.Text != text || !reply.Estimated {
				t.Errorf("%q by %d: %q of %+v, %v", text, size, said, reply, err)
			}
		}
	}
}

// TestStreamOfAnEndpointThatDoesNot: options that the endpoint refuses are left out from then on, and an answer in one piece is one.
func TestStreamOfAnEndpointThatDoesNot(t *testing.T) {
	const refusal = `{"error":{"message":"Unrecognized request argument supplied: %s","type":"invalid_request_error"}}`
	var bodies []map[string]any
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, body map[string]any) {
		bodies = append(bodies, body)
		for _, name := range []string{"stream_options", "stream"} {
			if v, has := body[name]; has && v != false {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, refusal, name)
				return
			}
		}
		io.WriteString(w, fine)
	})
	s := streamer(t, summaries(base))
	for range 2 {
		if said, reply, err := heard(t.Context(), s); err != nil || said != "A summary." || reply.InputTokens != 21 {
			t.Errorf("%q, %+v, %v", said, reply, err)
		}
	}
	if len(bodies) != 4 { // with both, with stream, without; and then without
		t.Errorf("%d calls", len(bodies))
	}
	// One that ignores the wish.
	base = serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { io.WriteString(w, fine) })
	if said, _, err := heard(t.Context(), streamer(t, summaries(base))); err != nil || said != "A summary." {
		t.Errorf("%q, %v", said, err)
	}
}

// TestStreamBreaksOff: as long as nothing was read the call is made again; after that it is an error, with what was read.
func TestStreamBreaksOff(t *testing.T) {
	for name, end := range map[string][]string{
		"the end":      {},
		"an error":     {"data: {\"error\":{\"message\":\"The engine failed.\",\"type\":\"server_error\"}}\n\n"},
		"not JSON":     {"data: <html>\n\n"},
		"a rate limit": {"data: {\"error\":{\"message\":\"Rate limit reached\",\"code\":\"rate_limit_exceeded\"}}\n\n"},
	} {
		calls := 0
		base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			calls++
			if calls == 1 {
				events(w, append([]string{delta("content", "<think>Hm")}, end...)...)
				return
			}
			events(w, append([]string{delta("content", "Kites")}, end...)...)
		})
		said, reply, err := heard(t.Context(), streamer(t, summaries(base)))
		var e *llm.Error
		if !errors.As(err, &e) || said != "Kites" || reply.Text != "Kites" || calls != 2 {
			t.Errorf("%s: %q, %+v, %v after %d calls", name, said, reply, err, calls)
		}
	}
}

func TestStreamIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		events(w, delta("content", "Kites"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, err := streamer(t, summaries(base)).Complete(ctx, llm.Request{Prompt: "Say it.", MaxOutputTokens: 50}, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// TestStreamOfTheFakeEndpoint: streamed or not, its answers are the same, and its faults are survived.
func TestStreamOfTheFakeEndpoint(t *testing.T) {
	fake := llmtest.New(llmtest.Config{Key: "sk", Chat: func(string, int) string { return "<think>Was?</think>Über Wiesen singt die Lerche." }})
	defer fake.Close()
	cfg := summaries(fake.URL())
	cfg.APIKey = "sk"
	s := streamer(t, cfg)
	whole, err := s.Complete(t.Context(), llm.Request{Prompt: "Say it.", MaxOutputTokens: 50}, nil)
	if err != nil {
		t.Fatal(err)
	}
	said, reply, err := heard(t.Context(), s)
	if diff := cmp.Diff(whole, reply); err != nil || diff != "" || said != "Über Wiesen singt die Lerche." {
		t.Errorf("%q, %v (-whole +streamed):\n%s", said, err, diff)
	}
	if reason := llm.Examine(&reply); reason != "" || reply.Text != said {
		t.Errorf("%s: %q", reason, reply.Text)
	}
	fake.SetFaults(map[llmtest.Fault]float64{llmtest.OnlyReasoning: 1})
	if said, reply, err = heard(t.Context(), s); err != nil || said != "" || llm.Examine(&reply) != llm.OnlyReasoning {
		t.Errorf("%q, %+v, %v", said, reply, err)
	}
	cfg.APIKey = "other"
	var e *llm.Error
	if _, _, err := heard(t.Context(), streamer(t, cfg)); !errors.As(err, &e) || e.Kind != llm.Auth {
		t.Errorf("error is %v", err)
	}
}

func TestNewStreamerRefuses(t *testing.T) {
	bad := summaries("http://127.0.0.1:1")
	bad.Provider = llm.ProviderExtractive
	if _, err := llm.NewStreamer(bad, llm.Deps{Counter: counter{}}); err == nil || !strings.Contains(err.Error(), "summaries.provider") {
		t.Errorf("error is %v", err)
	}
	bad = summaries("ftp://x")
	if _, err := llm.NewStreamer(bad, llm.Deps{Counter: counter{}}); err == nil {
		t.Error("an address that is none was taken")
	}
}
