package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
)

// odd is an endpoint that answers as a test says.
type odd struct {
	*httptest.Server
	mu     sync.Mutex
	tokens int // that were billed
	calls  int
	width  int
	down   int // requests to answer with 503 yet
}

// asked is what an endpoint reads of a request for a completion.
type asked struct {
	Prompt    string
	MaxTokens int
}

// answered is what it answers.
type answered struct {
	status int
	header [2]string
	text   string
	extra  string // fields of the message, as JSON, such as `,"reasoning_content":"…"`
	finish string
	in     int // 0: a token for each word
	out    int
}

func oddEndpoint(t *testing.T, answer func(asked) answered) *odd {
	t.Helper()
	o := &odd{width: 32}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.down > 0 {
			o.down--
			http.Error(w, `{"error":{"message":"Loading model"}}`, http.StatusServiceUnavailable)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			o.embed(w, body)
			return
		}
		var req struct {
			MaxTokens int `json:"max_tokens"`
			Messages  []struct{ Content string }
		}
		if err := json.Unmarshal(body, &req); err != nil || len(req.Messages) == 0 {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		prompt := req.Messages[len(req.Messages)-1].Content
		a := answer(asked{prompt, req.MaxTokens})
		if a.header[0] != "" {
			w.Header().Set(a.header[0], a.header[1])
		}
		if a.status != 0 {
			http.Error(w, `{"error":{"message":"`+a.text+`"}}`, a.status)
			return
		}
		if a.in == 0 {
			a.in = len(strings.Fields(prompt)) + 3
		}
		if a.finish == "" {
			a.finish = "stop"
		}
		o.calls++
		o.tokens += a.in + a.out
		text, _ := json.Marshal(a.text)
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%s%s},"finish_reason":%q}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, text, a.extra, a.finish, a.in, a.out)
	}))
	t.Cleanup(o.Close)
	return o
}

// embed answers with vectors that differ.
func (o *odd) embed(w io.Writer, body []byte) {
	var req struct{ Input []string }
	if json.Unmarshal(body, &req) != nil {
		return
	}
	var rows []string
	for i, text := range req.Input {
		v := make([]float32, o.width)
		for j, r := range text {
			v[(int(r)+j)%o.width]++
		}
		data, _ := json.Marshal(v)
		rows = append(rows, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, data))
	}
	fmt.Fprintf(w, `{"data":[%s],"usage":{"prompt_tokens":1,"total_tokens":1}}`, strings.Join(rows, ","))
}

func (o *odd) flags(more ...string) []string {
	return append([]string{"--summaries.provider", "openai", "--summaries.base_url", o.URL + "/v1", "--summaries.model", "m", "--clustering.max_cluster_tokens", "400", "--slots", "2", "-o", "json"}, more...)
}

func (o *odd) billed() (calls, tokens int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls, o.tokens
}

// TestB5RefusedAnswersAreSpent (FAULTS2 B5): a budget holds over resumes also where no answer is worth anything, and the report says what
// they have cost.
func TestB5RefusedAnswersAreSpent(t *testing.T) {
	fixtures := fresh(t)
	const each = 300 // tokens of reasoning
	o := oddEndpoint(t, func(a asked) answered {
		return answered{text: "", extra: `,"reasoning_content":"Hm, let me think."`, finish: "length", out: min(each, a.MaxTokens)}
	})
	aerie(t, "ingest", fixtures).want(t, exitDone)
	const bound = 12_000
	args := o.flags("--max-tokens", fmt.Sprint(bound), "--max-attempts", "1", "--summaries.context_tokens", "2000")
	var last api.BuildReport
	for range 10 {
		r := aerie(t, append([]string{"build"}, args...)...)
		if r.code == exitDone {
			t.Fatalf("a tree of nothing: %s", r.stdout)
		}
		last = decode[api.BuildReport](t, r)
	}
	calls, tokens := o.billed()
	const inFlight = 2 * 1000 // two slots
	if tokens > bound+inFlight {
		t.Errorf("%d tokens were billed, %d are allowed", tokens, bound)
	}
	if last.Calls != calls || last.Refused != calls || last.InputTokens+last.OutputTokens != tokens {
		t.Errorf("the report says %d calls, %d refused, %d tokens; billed are %d calls, %d tokens", last.Calls, last.Refused, last.InputTokens+last.OutputTokens, calls, tokens)
	}
	if r := aerie(t, "status").want(t, exitDone); !strings.Contains(r.stdout, fmt.Sprintf("%d answers were refused", calls)) {
		t.Errorf("status says nothing of it:\n%s", r.stdout)
	}
}

// TestB7CutPrompts (FAULTS2 B7): an endpoint that reads only the beginning of each prompt is told of, and the exit code says so.
func TestB7CutPrompts(t *testing.T) {
	fixtures := fresh(t)
	var n int
	o := oddEndpoint(t, func(a asked) answered {
		n++
		return answered{text: fmt.Sprintf("Summary %d of some passages about things.", n), in: 600, out: 9}
	})
	aerie(t, "ingest", fixtures, "--chunking.tokens", "400").want(t, exitDone)
	r := aerie(t, append([]string{"build"}, o.flags("--clustering.max_cluster_tokens", "3500")...)...).want(t, exitLeftOut)
	if report := decode[api.BuildReport](t, r); report.CutPrompts == 0 || report.Outcome != api.OutcomeBuilt || !strings.Contains(r.stderr, "context_tokens") {
		t.Errorf("%+v\n%s", report, r.stderr)
	}
}

// TestB14TwoWeeks (FAULTS2 B14): an endpoint that asks to wait for days makes the build pause with the date, and no task is blamed.
func TestB14TwoWeeks(t *testing.T) {
	fixtures := fresh(t)
	o := oddEndpoint(t, func(asked) answered {
		return answered{status: http.StatusTooManyRequests, header: [2]string{"Retry-After", "1209600"}, text: "weekly limit reached"}
	})
	aerie(t, "ingest", fixtures).want(t, exitDone)
	report := decode[api.BuildReport](t, aerie(t, append([]string{"build"}, o.flags()...)...).want(t, exitUnreachable))
	date := time.Now().Add(14 * 24 * time.Hour).Format(time.DateOnly)
	if report.Outcome != api.OutcomePaused || report.Cause != levels.CauseUnreachable || !strings.Contains(report.Why, date) || len(report.Buried) > 0 {
		t.Errorf("%+v; want the date %s", report, date)
	}
}

// TestB17OtherLanguage (FAULTS2 B17): the prompt names the language of the passages, an answer in another one is asked for once more, and
// what stays so is counted.
func TestB17OtherLanguage(t *testing.T) {
	for name, obeys := range map[string]bool{"obeys": true, "never does": false} {
		t.Run(name, func(t *testing.T) {
			fresh(t)
			var n int
			named := true
			o := oddEndpoint(t, func(a asked) answered {
				n++
				named = named && (!strings.Contains(a.Prompt, "猫头鹰在夜间") || strings.Contains(a.Prompt, "Write in Chinese."))
				if obeys && strings.Contains(a.Prompt, "must be in Chinese") {
					return answered{text: fmt.Sprintf("这是第%d个关于猫头鹰和苍鹭以及它们夜间捕食习惯的摘要，内容简短而清楚。", n), out: 9}
				}
				return answered{text: fmt.Sprintf("An English summary, number %d, of these passages about owls.", n), out: 9}
			})
			var b strings.Builder
			for i := range 60 {
				fmt.Fprintf(&b, "第%d段：猫头鹰在夜间捕食老鼠，它们的听觉十分灵敏，能够在黑暗之中找到猎物。苍鹭则在浅水里等待鱼群经过。\n\n", i)
			}
			if err := os.WriteFile("owls.txt", []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			aerie(t, "ingest", "owls.txt").want(t, exitDone)
			report := decode[api.BuildReport](t, aerie(t, append([]string{"build"}, o.flags()...)...).want(t, exitDone))
			if !named || report.Refused == 0 {
				t.Errorf("the prompt names the language: %v; asked again: %d", named, report.Refused)
			}
			if obeys != (report.OtherLanguage == 0) {
				t.Errorf("%d summaries in another language", report.OtherLanguage)
			}
		})
	}
}

// TestB19OtherWidth (FAULTS2 B19): an embedder that has changed under its name is found before the first summary is paid for.
func TestB19OtherWidth(t *testing.T) {
	fixtures := fresh(t)
	o := oddEndpoint(t, func(asked) answered { return answered{text: "A summary.", out: 3} })
	embed := []string{"--embeddings.provider", "openai", "--embeddings.base_url", o.URL + "/v1", "--embeddings.model", "e"}
	aerie(t, append([]string{"ingest", fixtures}, embed...)...).want(t, exitDone)
	o.mu.Lock()
	o.width = 48
	o.mu.Unlock()
	r := aerie(t, append(append([]string{"build"}, o.flags()...), embed...)...).want(t, exitUsage)
	if calls, _ := o.billed(); calls != 0 || !strings.Contains(r.stderr, "32") || !strings.Contains(r.stderr, "48") {
		t.Errorf("%d summaries were paid for; %s", calls, r.stderr)
	}
}

// TestB20FreeOutput (FAULTS2 B20): with a budget in money, a price without its output is refused: it would cost nothing.
func TestB20FreeOutput(t *testing.T) {
	fixtures := fresh(t)
	o := oddEndpoint(t, func(asked) answered { return answered{text: "A summary.", out: 3} })
	aerie(t, "ingest", fixtures).want(t, exitDone)
	r := aerie(t, append([]string{"build"}, o.flags("--max-cost", "1", "--build-prices", "{m: {input: 2}}")...)...).want(t, exitUsage)
	if !strings.Contains(r.stderr, "has no output") {
		t.Errorf("%s", r.stderr)
	}
}

// TestB9Loading (FAULTS2 B9): an ingest waits for an embedder that is loading its model.
func TestB9Loading(t *testing.T) {
	fixtures := fresh(t)
	o := oddEndpoint(t, func(asked) answered { return answered{text: "A summary.", out: 3} })
	o.down = 12
	r := aerie(t, "ingest", fixtures, "--embeddings.provider", "openai", "--embeddings.base_url", o.URL+"/v1", "--embeddings.model", "e", "-o", "json").want(t, exitDone)
	if report := decode[api.IngestReport](t, r); report.Documents.Failed > 0 || report.Leaves.Added == 0 {
		t.Errorf("%+v", report)
	}
}
