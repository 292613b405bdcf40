package queuetest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/queue"
)

// traced returns a task with the headers of a trace.
func traced() queue.Task {
	task := Tasks("corpus", "build", 1, 1)[0]
	task.Headers = map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"tracestate":  "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
	}
	return task
}

func wantTask(t *testing.T, want queue.Task, d queue.Delivery) {
	t.Helper()
	if diff := cmp.Diff(want, d.Task()); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

func testHeaders(t *testing.T, o Opened) {
	want := traced()
	publish(t, o.Queue, want)
	d := receive(t, o.second())
	wantTask(t, want, d)
	d.Task().Headers["traceparent"] = "changed by its reader"
	wantTask(t, want, d)
	if err := d.Retry(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	wantTask(t, want, receive(t, o.Queue)) // given back, and left in hand
	d = receive(t, o.second())             // its lease has ended
	wantTask(t, want, d)
	done(t, d)
}

func testHeadersRestart(t *testing.T, o Opened) {
	want := traced()
	publish(t, o.Queue, want)
	d := receive(t, o.Restart())
	wantTask(t, want, d)
	done(t, d)
}

func testHeadersDuplicate(t *testing.T, o Opened) {
	want := traced()
	publish(t, o.Queue, want)
	other, none := traced(), traced()
	other.Headers = map[string]string{"traceparent": "00-11111111111111111111111111111111-2222222222222222-01"}
	none.Headers = nil
	publish(t, o.Queue, other, none)
	d := receive(t, o.Queue)
	wantTask(t, want, d)
	done(t, d)
	publish(t, o.Queue, other)
	d = receive(t, o.Queue)
	wantTask(t, other, d)
	done(t, d)
}

func testHeadersDead(t *testing.T, o Opened) {
	want := traced()
	publish(t, o.Queue, want)
	if err := receive(t, o.Queue).Bury(t.Context(), "cause", "message"); err != nil {
		t.Fatal(err)
	}
	buried := dead(t, o.Queue, want.Corpus, want.Build)
	want.Headers = nil
	if len(buried) != 1 {
		t.Fatalf("%d are buried, want 1", len(buried))
	}
	if diff := cmp.Diff(want, buried[0].Task); diff != "" {
		t.Errorf("the dead task (-want +got):\n%s", diff)
	}
}

func testHeadersInvalid(t *testing.T, o Opened) {
	for name, headers := range map[string]map[string]string{
		"no name":         {"": "x"},
		"capital letters": {"Traceparent": "x"},
		"the server's":    {"nats-msg-id": "x"},
		"a line break":    {"tracestate": "a\r\nNats-Msg-Id: 1"},
		"space at an end": {"tracestate": " a"},
		"too large":       {"tracestate": strings.Repeat("a", queue.MaxHeaderBytes)},
	} {
		bad := traced()
		bad.Headers = headers
		if err := o.Queue.Publish(t.Context(), []queue.Task{bad}); err == nil {
			t.Errorf("publish of a task with a header with %s: got no error", name)
		}
	}
	wantNone(t, o.Queue, quiet)
}
