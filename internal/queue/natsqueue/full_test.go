package natsqueue

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/space"
)

func wantFull(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !space.Is(err) || errors.Is(err, queue.ErrUnavailable) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want a full place: %s", what, err, words)
	}
}

// TestA18StreamIsFull: tasks for which a stream has no room are refused, not taken for tasks that are there already.
func TestA18StreamIsFull(t *testing.T) {
	c := embedded(t, t.TempDir())
	bound := func(stream string, bytes int64) {
		t.Helper()
		s, err := c.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.MaxBytes, cfg.Discard = bytes, jetstream.DiscardNew
		if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range []string{tasksStream, journalStream} {
		bound(stream, 64)
	}
	tasks := queuetest.Tasks("corpus", "build", 1, 2)
	wantFull(t, "Publish", c.Queue().Publish(t.Context(), tasks), "is full: make room")
	key := strings.Repeat("a", 64)
	wantFull(t, "Record", c.Journal().Record(t.Context(), key, journal.Entry{Text: "An answer that was paid."}), "is full: make room")
	for _, stream := range []string{tasksStream, journalStream} {
		bound(stream, -1)
	}
	publish(t, c, append(tasks, tasks...)...)
	if got := queued(t, c, tasks[0].Of()); len(got) != 2 {
		t.Errorf("with room %d tasks are queued, want 2", len(got))
	}
	if err := c.Journal().Record(t.Context(), key, journal.Entry{Text: "An answer that was paid."}); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestA18ServersWords: the words and codes of a server for a disk, an account or a memory that is full, and none else.
func TestA18ServersWords(t *testing.T) {
	c := &Conn{url: "nats://h"}
	for _, full := range []error{
		&jetstream.APIError{Code: 400, ErrorCode: 10002, Description: "resource limits exceeded for account"},
		&jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"},
		&jetstream.APIError{Code: 500, ErrorCode: 10028, Description: "insufficient memory resources available"},
		&jetstream.APIError{Code: 500, ErrorCode: 10047, Description: "insufficient storage resources available"},
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"},
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "write /data/1.blk: no space left on device"},
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "write /data/1.blk: disk quota exceeded"},
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "write /data/1.blk: file too large"},
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG,
	} {
		wantFull(t, "asFull", c.asFull(full), "JetStream of nats://h is full: make room on its disk or raise its limits")
	}
	for _, other := range []error{
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages per subject exceeded"},
		&jetstream.APIError{Code: 503, ErrorCode: 10076, Description: "JetStream not enabled"},
		context.DeadlineExceeded,
	} {
		if err := c.asFull(other); err != nil {
			t.Errorf("%v is taken for %v", other, err)
		}
	}
}
