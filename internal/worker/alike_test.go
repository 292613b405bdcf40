package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestA17EverythingFailsAlike: an endpoint that is loading its model, and answers every call with 503, gets one call at a time after a
// few, no task is buried, what is waited for is told, and the tasks are done once it answers.
func TestA17EverythingFailsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 20
		b := newBench(t, tasks)
		b.cfg.Slots, b.cfg.MaxAttempts = 8, 5
		var asked, answered atomic.Int64
		begun := time.Now()
		const loading = 5 * time.Minute
		m := model(t, func(*http.Request) (*http.Response, error) {
			if time.Since(begun) < loading {
				asked.Add(1)
				return reply(503, `{"error":{"message":"loading model"}}`), nil
			}
			return reply(200, fmt.Sprintf(`{"choices":[{"message":{"content":"Text %d of its own."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":5}}`, answered.Add(1))), nil
		})
		b.cfg.Patience = time.Hour
		b.summarize = m.Summarize
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var settled atomic.Int64
		w := b.worker(b.queue, func() {
			if settled.Add(1) == tasks {
				stop()
			}
		})
		told := make(chan string, 1)
		time.AfterFunc(loading/2, func() { told <- strings.Join(w.Waiting(), "\n") })
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if waiting := <-told; !strings.Contains(waiting, "http://endpoint.test/v1") || !strings.Contains(waiting, "one at a time tries it") {
			t.Errorf("it waits for %q", waiting)
		}
		if c := b.count(); c.Done != tasks || c.Dead != 0 {
			t.Errorf("%+v, want all done; buried: %v", c, b.buried())
		}
		if n := asked.Load(); n > 120 {
			t.Errorf("%d requests while it was loading", n)
		}
		if took := time.Since(begun); took > loading+2*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}
