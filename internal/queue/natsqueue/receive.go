package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aerie-rag/aerie/internal/queue"
)

const (
	// pullExpiry is how long the server keeps a request for a task; an idle worker asks that often.
	pullExpiry = 30 * time.Second
	// pullHeartbeat is how often the server says that it still has the request.
	pullHeartbeat = 5 * time.Second
)

// errAskAgain: a request for a task has ended without one, as they do.
var errAskAgain = errors.New("request ended")

// Receive implements queue.Queue. While the server can't be reached it waits for about ten seconds, then
// returns queue.ErrUnavailable.
func (q *workQueue) Receive(ctx context.Context) (queue.Delivery, error) {
	pause, failures := firstPause, 0
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		msg, err := q.pull(ctx)
		switch {
		case err == nil:
			if d, ok := q.open(ctx, msg); ok {
				return d, nil
			}
			continue
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errAskAgain):
			pause, failures = firstPause, 0
			continue
		}
		if full := q.conn.asFull(err); full != nil {
			return nil, fmt.Errorf("natsqueue: receive: %w", full)
		}
		if failures++; failures == 2*tries || q.conn.nats.IsClosed() {
			return nil, fmt.Errorf("natsqueue: receive: %w: %w", queue.ErrUnavailable, err)
		}
		if err := q.conn.pause(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// pull asks for one message and waits for it. It leaves nothing behind on the server.
func (q *workQueue) pull(ctx context.Context) (*nats.Msg, error) {
	c := q.conn
	reconnected := c.contact.wait()
	inbox, answers := c.nats.NewInbox(), make(chan *nats.Msg, 8)
	sub, err := c.nats.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	request := fmt.Sprintf(`{"batch":1,"expires":%d,"idle_heartbeat":%d}`, pullExpiry.Nanoseconds(), pullHeartbeat.Nanoseconds())
	if err := c.nats.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+tasksStream+"."+workers, inbox, []byte(request)); err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	silence := time.NewTimer(2*pullHeartbeat + pullHeartbeat/2)
	defer silence.Stop()
	for {
		select {
		case msg := <-answers:
			err := answered(msg)
			if errors.Is(err, errHeartbeat) {
				silence.Reset(2*pullHeartbeat + pullHeartbeat/2)
				continue
			}
			_ = sub.Unsubscribe()
			if err != nil {
				return nil, err
			}
			return msg, nil
		case <-ctx.Done():
			if msg := q.withdraw(sub, answers); msg != nil {
				q.giveBack(msg)
			}
			return nil, ctx.Err()
		case <-reconnected:
			// The server has forgotten the request with the connection.
			if msg := q.withdraw(sub, answers); msg != nil {
				return msg, nil
			}
			return nil, errAskAgain
		case <-silence.C:
			if msg := q.withdraw(sub, answers); msg != nil {
				return msg, nil
			}
			return nil, nats.ErrTimeout
		case <-c.closed:
			return nil, nats.ErrConnectionClosed
		}
	}
}

// errHeartbeat: the server still has the request.
var errHeartbeat = errors.New("heartbeat")

// answered tells a task (nil) from the server's other answers to a request for one.
func answered(msg *nats.Msg) error {
	status := msg.Header.Get("Status")
	if len(msg.Data) > 0 || status == "" {
		return nil
	}
	switch description := msg.Header.Get("Description"); status {
	case "100":
		return errHeartbeat
	case "404", "408":
		return errAskAgain
	case "503":
		return fmt.Errorf("no consumer %s on stream %s: %w", workers, tasksStream, nats.ErrNoResponders)
	default:
		return fmt.Errorf("the server answers %s %s", status, description)
	}
}

// withdraw takes back a request for a task and returns the message that had been sent for it, or nil. Drain tells
// the server first and lets go of the subscription only when the server has answered a ping, so that nothing can
// be on the way any more.
func (q *workQueue) withdraw(sub *nats.Subscription, answers <-chan *nats.Msg) *nats.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), q.conn.cfg.CallTimeout)
	defer cancel()
	if sub.Drain() != nil || q.conn.nats.FlushWithContext(ctx) != nil {
		_ = sub.Unsubscribe()
	}
	for {
		select {
		case msg := <-answers:
			if answered(msg) == nil {
				return msg
			}
		default:
			return nil
		}
	}
}

// giveBack returns a message that nobody waits for any more. Failing that it comes back when its lease ends.
func (q *workQueue) giveBack(msg *nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), q.conn.cfg.CallTimeout)
	defer cancel()
	if _, err := q.conn.nats.RequestWithContext(ctx, msg.Reply, []byte("-NAK")); err != nil {
		q.conn.cfg.Logger.Debug("queue: a task that came too late was not given back", "subject", msg.Subject, "error", err)
	}
}

// open makes a delivery of a message. One that isn't a task of this stream is removed: it would come back for ever,
// and its subject would keep the real task out.
func (q *workQueue) open(ctx context.Context, msg *nats.Msg) (*delivery, bool) {
	task, seq, err := decodeTask(msg)
	if err == nil {
		return &delivery{conn: q.conn, task: task, reply: msg.Reply, seq: seq, contact: time.Now()}, true
	}
	q.conn.cfg.Logger.Error("queue: removing a message that is not a task", "subject", msg.Subject, "error", err)
	if err := q.conn.confirm(ctx, msg.Reply, "+TERM not a task"); err != nil {
		q.conn.cfg.Logger.Warn("queue: the message that is not a task was not removed", "subject", msg.Subject, "error", err)
	}
	return nil, false
}

// decodeTask reads a task and its number in the stream from a message.
func decodeTask(msg *nats.Msg) (task queue.Task, seq uint64, err error) {
	if err = json.Unmarshal(msg.Data, &task); err != nil {
		return task, 0, err
	}
	task.Headers = headersOf(msg)
	if err = checkTask(&task); err != nil {
		return task, 0, err
	}
	if subjectOf(taskPrefix, &task) != msg.Subject {
		return task, 0, errors.New("its subject is another task's")
	}
	seq, err = sequence(msg.Reply)
	return task, seq, err
}

// headersOf returns the headers that travel with a task. Those of the server, and of strangers, are left out: they may
// not keep a task from being done. Those of a trace are found in any case, as W3C wants it, and under the name that a
// server with message tracing gives to one that it has dealt with (nats-io/nats.go issue 1968).
func headersOf(msg *nats.Msg) map[string]string {
	headers := make(map[string]string)
	for _, exact := range []bool{true, false} { // a name as we write it wins over any other form of it
		for _, name := range slices.Sorted(maps.Keys(msg.Header)) {
			value := msg.Header[name]
			known := traceHeader(name)
			if len(value) == 0 || exact != (known == name) || headers[known] != "" {
				continue
			}
			if queue.CheckHeaders(map[string]string{known: value[0]}) == nil {
				headers[known] = value[0]
			}
		}
	}
	if len(headers) == 0 || queue.CheckHeaders(headers) != nil { // too many
		return nil
	}
	return headers
}

// traceHeader returns the name under which we know a header.
func traceHeader(name string) string {
	lower := strings.ToLower(name)
	switch lower {
	case "traceparent", "xraceparent": // the server writes an X over the first letter, so that it isn't traced twice
		return "traceparent"
	case "tracestate", "baggage":
		return lower
	}
	return name
}

// sequence reads a message's number in the stream from its ack subject, in the form of either server generation:
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>[.<token>]
func sequence(reply string) (uint64, error) {
	tokens := strings.Split(reply, ".")
	at := 5
	if len(tokens) >= 11 {
		at = 7
	}
	if len(tokens) < 9 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return 0, fmt.Errorf("%q is not an ack subject", reply)
	}
	return strconv.ParseUint(tokens[at], 10, 64)
}
