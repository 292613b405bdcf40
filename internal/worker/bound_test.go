package worker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// TestA30ClientThatIgnoresCancellation: a call that never comes back costs its task an attempt when the task's time is over. The slot
// is free again, so that the next task is done with the only one, and Run ends.
func TestA30ClientThatIgnoresCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		b.cfg.Slots, b.cfg.MaxAttempts, b.cfg.TaskTimeout = 1, 1, time.Minute
		free := make(chan struct{})
		defer close(free)
		ok := b.summarize
		var stuck atomic.Bool
		b.summarize = func(ctx context.Context, c mapreduce.Call) (mapreduce.Answer, error) {
			if stuck.CompareAndSwap(false, true) {
				<-free // whatever becomes of ctx
				return mapreduce.Answer{}, errors.New("much too late")
			}
			return ok(ctx, c)
		}
		start := time.Now()
		b.runUntil(2)
		if c := b.count(); c.Done != 1 || c.Dead != 1 {
			t.Errorf("%+v, want one done and one buried", c)
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("it took %v", took)
		}
		dead, err := b.queue.Dead(t.Context(), corpusName, buildName)
		if err != nil || len(dead) != 1 || !strings.Contains(dead[0].Error, "build.task_timeout") {
			t.Errorf("buried: %+v, %v", dead, err)
		}
	})
}

// TestA30RunEnds: Run ends soon after its grace though a call doesn't notice that it was cancelled, and the task is given back.
func TestA30RunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.cfg.Grace = time.Second
		free, entered := make(chan struct{}), make(chan struct{})
		defer close(free)
		b.summarize = func(context.Context, mapreduce.Call) (mapreduce.Answer, error) {
			close(entered)
			<-free
			return mapreduce.Answer{}, errors.New("much too late")
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { <-entered; stop() }()
		start := time.Now()
		if err := b.worker(b.queue, nil).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		if d, err := b.queue.Receive(t.Context()); err != nil || d.Task().ID != b.tasks[0].ID {
			t.Errorf("the task was not given back: %v", err)
		}
	})
}

// transport answers requests in memory.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body string, headers ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(headers); i += 2 {
		res.Header.Set(headers[i], headers[i+1])
	}
	return res
}

// model is the client of an endpoint that answers in memory, with all that waits and tries again.
func model(t *testing.T, answer transport) mapreduce.Summarizer {
	t.Helper()
	s, err := llm.NewSummarizer(llm.SummariesConfig{
		Provider: llm.ProviderOpenAI, BaseURL: "http://endpoint.test/v1", Model: "m", ContextTokens: 8192, MaxOutputTokens: 200, Timeout: time.Minute,
	}, llm.Deps{Counter: words{}, Journal: queuetest.NewJournal(), Transport: answer})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestA20WaitsAreGivenBack: who stops while calls only wait, for an endpoint that throttles or a limit, doesn't wait with them, whatever
// the grace; the tasks are given back and no attempt is counted.
func TestA20WaitsAreGivenBack(t *testing.T) {
	for what, answer := range map[string]func() *http.Response{
		"429":         func() *http.Response { return reply(429, `{"error":{"message":"slow down"}}`, "Retry-After", "60") },
		"no time":     func() *http.Response { return reply(429, `{"error":{"message":"slow down"}}`) },
		"overloaded":  func() *http.Response { return reply(503, `{"error":{"message":"loading"}}`, "Retry-After", "60") },
		"second try":  func() *http.Response { return reply(500, "{}") },
		"no endpoint": func() *http.Response { return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 4)
			b.cfg.Slots, b.cfg.Grace = 2, time.Minute
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var asked atomic.Int64
			m := model(t, func(*http.Request) (*http.Response, error) {
				if asked.Add(1) == 1 {
					stop()
				}
				if res := answer(); res != nil {
					return res, nil
				}
				return nil, errors.New("no route to host")
			})
			b.summarize = m.Summarize
			start := time.Now()
			if err := b.worker(b.queue, nil).Run(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("%s: it took %v to stop", what, took)
			}
			if n := asked.Load(); n > 4 {
				t.Errorf("%s: %d requests", what, n)
			}
			for _, task := range b.tasks {
				if n, err := b.journal.Begin(t.Context(), buildName, task.ID); err != nil || n.Failed != 0 || n.Started-n.Returned != 1 {
					t.Errorf("%s: attempts of a task: %+v, %v", what, n, err)
				}
			}
		})
	}
}
