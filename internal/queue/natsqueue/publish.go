package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/queue"
)

// ackTimeout bounds the wait for the server's word on one message.
const ackTimeout = 5 * time.Second

// publishWindow bounds the publishes that one call has on the way: the server refuses what its queue has no room for.
const publishWindow = 256

// Publish implements queue.Queue. Messages go out many at a time; the acknowledgement of each is waited for, and
// those that failed for a reason that may pass go out again.
func (q *workQueue) Publish(ctx context.Context, tasks []queue.Task) error {
	pause, attempt := firstPause, 1
	for len(tasks) > 0 {
		window := tasks[:min(len(tasks), publishWindow)]
		failed, err := q.publishWindow(ctx, window)
		switch {
		case err == nil:
			tasks, pause, attempt = tasks[len(window):], firstPause, 1
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if full := q.conn.asFull(err); full != nil {
			return fmt.Errorf("natsqueue: publish: %w", full)
		}
		switch {
		case !passing(err):
			return fmt.Errorf("natsqueue: publish %w", err)
		case attempt == tries || q.conn.nats.IsClosed():
			return fmt.Errorf("natsqueue: publish %w: %w", queue.ErrUnavailable, err)
		}
		if err := q.conn.pause(ctx, pause); err != nil {
			return err
		}
		pause, attempt = 2*pause, attempt+1
		tasks = append(failed, tasks[len(window):]...)
	}
	return ctx.Err()
}

// publishWindow sends some tasks and waits for every acknowledgement. It returns those that have to go out again, in
// a list of their own, with the last reason.
func (q *workQueue) publishWindow(ctx context.Context, tasks []queue.Task) (failed []queue.Task, err error) {
	futures := make([]jetstream.PubAckFuture, len(tasks))
	errs := make([]error, len(tasks))
	for i := range tasks {
		msg, err := taskMsg(&tasks[i])
		if err != nil {
			return nil, err
		}
		futures[i], errs[i] = q.conn.js.PublishMsgAsync(msg)
	}
	for i, future := range futures {
		if errs[i] == nil {
			errs[i] = acknowledged(ctx, future)
		}
		if errs[i] == nil {
			continue
		}
		err = fmt.Errorf("task %s: %w", tasks[i].ID, errs[i])
		if !passing(errs[i]) {
			return nil, err
		}
		failed = append(failed, tasks[i])
	}
	return failed, err
}

// acknowledged waits for the server's word on one message. Its refusal of a second copy is what was wanted.
func acknowledged(ctx context.Context, future jetstream.PubAckFuture) error {
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		if apiCode(err, codeMaxPerSubject) && strings.Contains(err.Error(), "per subject") {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func taskMsg(t *queue.Task) (*nats.Msg, error) {
	if err := checkTask(t); err != nil {
		return nil, fmt.Errorf("task %s of corpus %q, build %q: %w", t.ID, t.Corpus, t.Build, err)
	}
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.ID, err)
	}
	if len(data) > queue.MaxTaskBytes {
		return nil, fmt.Errorf("task %s with %d bytes: %w", t.ID, len(data), queue.ErrTooLarge)
	}
	msg := &nats.Msg{Subject: subjectOf(taskPrefix, t), Data: data}
	for name, value := range t.Headers {
		if msg.Header == nil {
			msg.Header = make(nats.Header, len(t.Headers))
		}
		msg.Header[name] = []string{value}
	}
	return msg, nil
}
