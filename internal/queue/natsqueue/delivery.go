package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/queue"
)

// delivery implements queue.Delivery.
type delivery struct {
	conn  *Conn
	task  queue.Task
	reply string // subject for acks
	seq   uint64 // in the stream

	mu      sync.Mutex
	contact time.Time // before the last message of ours that the server has confirmed
	settled bool
}

// Task implements queue.Delivery.
func (d *delivery) Task() queue.Task {
	task := d.task
	task.Children, task.Headers = slices.Clone(task.Children), maps.Clone(task.Headers)
	return task
}

// Extend implements queue.Delivery.
func (d *delivery) Extend(ctx context.Context) error {
	if err := d.extend(ctx); err != nil {
		return d.errorf("extend", err)
	}
	return nil
}

func (d *delivery) extend(ctx context.Context) error {
	if err := d.held(); err != nil {
		return err
	}
	sent := time.Now()
	err := d.conn.once(ctx, d.conn.cfg.CallTimeout, func(ctx context.Context) error {
		_, err := d.conn.nats.RequestWithContext(ctx, d.reply, []byte("+WPI"))
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if lost := d.held(); lost != nil {
			return lost
		}
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	d.touch(sent)
	// The server confirms for whatever message, gone or not.
	_, err = d.conn.message(ctx, tasksStream, msgRequest{Seq: d.seq})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return queue.ErrLost
	}
	return nil
}

// held returns nil while the lease is ours as far as this process can know. It gives up a tenth of AckWait early: the
// server's time began when it sent the task, ours when it arrived.
func (d *delivery) held() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return queue.ErrSettled
	}
	if ackWait := d.conn.cfg.AckWait; time.Since(d.contact) >= ackWait-ackWait/10 {
		return queue.ErrLost
	}
	return nil
}

func (d *delivery) touch(sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sent.After(d.contact) {
		d.contact = sent
	}
}

// Done implements queue.Delivery.
func (d *delivery) Done(ctx context.Context) error {
	return d.settle("done", func() error {
		if err := d.held(); err != nil && !errors.Is(err, queue.ErrLost) {
			return err
		}
		return d.conn.confirm(ctx, d.reply, "+ACK")
	})
}

// Retry implements queue.Delivery.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle("retry", func() error {
		if err := d.held(); err != nil {
			return err
		}
		nak := "-NAK"
		if after > 0 {
			nak = fmt.Sprintf(`-NAK {"delay": %d}`, after.Nanoseconds())
		}
		return d.conn.confirm(ctx, d.reply, nak)
	})
}

// Bury implements queue.Delivery.
func (d *delivery) Bury(ctx context.Context, cause, message string) error {
	return d.settle("bury", func() error {
		if err := d.held(); err != nil {
			return err
		}
		// A purged task must not come back as a dead one.
		_, err := d.conn.message(ctx, tasksStream, msgRequest{Seq: d.seq})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return queue.ErrLost
		}
		if err != nil {
			return err
		}
		if err := d.copyToDead(ctx, cause, message); err != nil {
			return err
		}
		return d.conn.confirm(ctx, d.reply, "+TERM "+oneWord(cause))
	})
}

func (d *delivery) copyToDead(ctx context.Context, cause, message string) error {
	data, err := json.Marshal(queue.Buried{
		Task: d.task, Cause: truncate(cause, maxReason/8), Error: truncate(message, maxReason), At: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	d.conn.anew.RLock()
	defer d.conn.anew.RUnlock()
	return d.conn.try(ctx, ackTimeout, func(ctx context.Context) error {
		_, err := d.conn.js.Publish(ctx, subjectOf(deadPrefix, &d.task), data)
		return err
	})
}

// settle runs the one call that ends a delivery. It may be repeated after an error that has not decided anything.
func (d *delivery) settle(what string, call func() error) error {
	err := call()
	if err == nil || errors.Is(err, queue.ErrLost) {
		d.mu.Lock()
		d.settled = true
		d.mu.Unlock()
	}
	if err != nil {
		return d.errorf(what, err)
	}
	return nil
}

func (d *delivery) errorf(what string, err error) error {
	return fmt.Errorf("natsqueue: %s task %s: %w", what, d.task.ID, err)
}

// confirm sends an acknowledgement of any kind and waits for the server to confirm it.
func (c *Conn) confirm(ctx context.Context, reply, body string) error {
	return c.try(ctx, ackTimeout, func(ctx context.Context) error {
		_, err := c.nats.RequestWithContext(ctx, reply, []byte(body))
		return err
	})
}

// maxReason bounds the bytes of a reason, which JSON may write sixfold where text has control characters.
const maxReason = 2 << 10

// truncate cuts text after at most n bytes, at the end of a rune.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// oneWord makes a cause fit to stand in an ack.
func oneWord(cause string) string {
	return strings.Join(strings.Fields(truncate(cause, 64)), " ")
}
