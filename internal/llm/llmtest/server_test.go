package llmtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// post returns the status and body of a reply, or the error of a broken connection.
func post(t *testing.T, url string, body any) (int, []byte, error) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	return res.StatusCode, out, err
}

func chat(prompt string, maxTokens int) map[string]any {
	return map[string]any{"model": "m", "max_tokens": maxTokens, "messages": []any{map[string]any{"role": "user", "content": prompt}}}
}

// Which requests fail, and how, is a matter of the seed, whatever the order in which they come.
func TestFaultsFollowTheSeed(t *testing.T) {
	run := func(seed uint64, backwards bool) map[string]string {
		s := llmtest.New(llmtest.Config{Seed: seed, Faults: llmtest.AllFaults(0.05)})
		defer s.Close()
		got := map[string]string{}
		for i := range 200 {
			if backwards {
				i = 199 - i
			}
			prompt := fmt.Sprintf("Prompt %d.", i)
			status, body, err := post(t, s.URL()+"/chat/completions", chat(prompt, 50))
			got[prompt] = fmt.Sprintf("%d %s %v", status, body, err != nil)
		}
		return got
	}
	first := run(1, false)
	if diff := cmp.Diff(first, run(1, true)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first, run(2, false)) {
		t.Error("another seed makes no difference")
	}
}

// Over many calls each fault has its share.
func TestRates(t *testing.T) {
	s := llmtest.New(llmtest.Config{Seed: 5, Faults: llmtest.AllFaults(0.03)})
	defer s.Close()
	const n = 1500
	for i := range n {
		post(t, s.URL()+"/chat/completions", chat(fmt.Sprintf("Prompt %d.", i), 50))
		post(t, s.URL()+"/embeddings", map[string]any{"input": []string{fmt.Sprintf("Text %d.", i)}})
	}
	c := s.Counts()
	for _, f := range []llmtest.Fault{llmtest.EmptyAnswer, llmtest.OnlyReasoning, llmtest.CutOff, llmtest.OneTooFew, llmtest.NaN} {
		if got := float64(c.Faults[f]) / n; math.Abs(got-0.03) > 0.018 { // four standard deviations
			t.Errorf("%s: %v of the calls", f, got)
		}
	}
	for _, f := range []llmtest.Fault{llmtest.RateLimit, llmtest.Internal, llmtest.ErrorBody, llmtest.NotJSON, llmtest.Drop} {
		if got := float64(c.Faults[f]) / (2 * n); math.Abs(got-0.03) > 0.013 {
			t.Errorf("%s: %v of the calls", f, got)
		}
	}
	if c.Chat != n || c.Embeddings != n || c.ChatOK >= n || c.Repeated != 0 {
		t.Errorf("%+v", c)
	}
}

func TestWindowIsEnforced(t *testing.T) {
	s := llmtest.New(llmtest.Config{ContextTokens: 100})
	defer s.Close()
	if status, _, _ := post(t, s.URL()+"/chat/completions", chat(strings.Repeat("word ", 60), 40)); status != 200 {
		t.Errorf("status %d for what just fits", status)
	}
	status, body, _ := post(t, s.URL()+"/chat/completions", chat(strings.Repeat("word ", 61), 40))
	if status != 400 || !strings.Contains(string(body), "context_length_exceeded") {
		t.Errorf("%d %s", status, body)
	}
	if c := s.Counts(); c.Violations != 1 || c.LargestPrompt != 101 || c.ChatOK != 1 {
		t.Errorf("%+v", c)
	}
}

func TestKeyAndPaths(t *testing.T) {
	s := llmtest.New(llmtest.Config{Key: "k"})
	defer s.Close()
	if status, _, _ := post(t, s.URL()+"/chat/completions", chat("Hi.", 5)); status != 401 || s.Counts().Unauthorized != 1 {
		t.Errorf("status %d", status)
	}
	open := llmtest.New(llmtest.Config{})
	defer open.Close()
	if status, _, _ := post(t, open.URL()+"/completions", chat("Hi.", 5)); status != 404 {
		t.Errorf("status %d", status)
	}
	if status, body, _ := post(t, open.URL()+"/models", nil); status != 200 || !strings.Contains(string(body), "max_model_len") {
		t.Errorf("%d %s", status, body)
	}
	open.SetDown(true)
	if status, _, _ := post(t, open.URL()+"/chat/completions", chat("Hi.", 5)); status != 503 {
		t.Errorf("status %d", status)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	s := llmtest.New(llmtest.Config{RequestsPerMinute: 10})
	defer s.Close()
	refused := 0
	for range 5 {
		if status, _, _ := post(t, s.URL()+"/chat/completions", chat("Hi.", 5)); status == 429 {
			refused++
		}
	}
	if refused != 4 || s.Counts().Limited != 4 {
		t.Errorf("%d of 5 requests refused at ten a minute", refused)
	}
}

func TestSummary(t *testing.T) {
	long := strings.Repeat("Here is a sentence of some length. ", 100)
	for _, prompt := range []string{"", "x", long, strings.Repeat("no stop ", 500), "这是一个句子。" + strings.Repeat("没有句号", 500)} {
		for _, limit := range []int{1, 20, 200} {
			got := llmtest.Summary(prompt, limit)
			if n := llmtest.Tokens(got); strings.TrimSpace(got) == "" || n > max(limit, 3) {
				t.Errorf("%.20q, limit %d: %d tokens, %.40q", prompt, limit, n, got)
			}
		}
	}
	fenced := llmtest.Summary("Summarize <passages>.\n<passages>\nInside.\n</passages>\nNow.", 50)
	if fenced != "Inside." {
		t.Errorf("got %q", fenced)
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{"": 0, "word": 1, "sixsix": 1, "sevense": 2, "a b, c.": 5, "这是": 2, "Go语言": 3, "===": 3, "12 345678901": 3} {
		if got := llmtest.Tokens(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
}
