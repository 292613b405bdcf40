package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/queue"
)

const (
	// tries is how often a call is made before the queue counts as unavailable.
	tries = 5
	// firstPause is the wait before the second try; each further one is twice as long.
	firstPause = 100 * time.Millisecond
)

// try makes a call, and again while it fails for a reason that may pass. Its error is that of ctx, one that
// won't pass, of which a *space.FullError is one, or queue.ErrUnavailable.
func (c *Conn) try(ctx context.Context, timeout time.Duration, call func(ctx context.Context) error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.once(ctx, timeout, call)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if full := c.asFull(err); full != nil {
			return full
		}
		switch {
		case !passing(err):
			return err
		case attempt == tries || c.nats.IsClosed():
			return fmt.Errorf("%w: %w", queue.ErrUnavailable, c.reason(err))
		}
		if err := c.pause(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// reason returns why a call failed: without a connection, whatever keeps it from being made says more than the call's own error.
func (c *Conn) reason(err error) error {
	if c.nats.IsConnected() {
		return err
	}
	if last := c.nats.LastError(); last != nil && !errors.Is(last, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("no connection to %s: %w", c.url, last)
	}
	return fmt.Errorf("no connection to %s", c.url)
}

// once makes one call, which ends with its time or with the connection.
func (c *Conn) once(ctx context.Context, timeout time.Duration, call func(ctx context.Context) error) error {
	if c.noSpace != nil && c.noSpace() != nil {
		return nats.ErrNoResponders // the embedded server has given up
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	severed, sever := context.WithCancelCause(bounded)
	defer sever(nil)
	defer c.underway.add(func() { sever(nats.ErrDisconnected) })()
	err := call(severed)
	if err != nil && errors.Is(context.Cause(severed), nats.ErrDisconnected) {
		return nats.ErrDisconnected
	}
	return err
}

// pause waits; it ends early with ctx, or when the connection closes for good.
func (c *Conn) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return nil
	case <-timer.C:
		return nil
	}
}

// passing reports whether an error may pass by itself: the server is away, slow, or electing a leader.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 || api.Code == 429
	}
	for _, known := range []error{
		context.DeadlineExceeded,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers,
		nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrDisconnected, nats.ErrStaleConnection,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionDraining,
		jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// apiCode reports whether err is the server's answer with an error code.
func apiCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// codeMaxPerSubject: the stream holds a message with this subject already. Package jetstream has no constant for it.
const codeMaxPerSubject jetstream.ErrorCode = 10077

// apiAnswer is the part of an answer that all of them have.
type apiAnswer struct {
	Error *jetstream.APIError `json:"error"`
}

func (a *apiAnswer) result() *apiAnswer { return a }

// api asks the JetStream API. Requests by hand, where package jetstream would first look a stream up, and again
// after every reconnect.
func (c *Conn) api(ctx context.Context, timeout time.Duration, subject string, request any, answer interface{ result() *apiAnswer }) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return c.try(ctx, timeout, func(ctx context.Context) error {
		msg, err := c.nats.RequestWithContext(ctx, "$JS.API."+subject, body)
		if err != nil {
			return err
		}
		result := answer.result()
		result.Error = nil // of the last try
		if err := json.Unmarshal(msg.Data, answer); err != nil {
			return fmt.Errorf("the server's answer is not understood: %w", err)
		}
		if result.Error != nil {
			return result.Error
		}
		return nil
	})
}

// storedMsg is a message of a stream, as the API returns it.
type storedMsg struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Header  []byte `json:"hdrs"`
	Data    []byte `json:"data"`
}

// msgRequest asks for one message: by number, the last one of a subject, or the first one of a subject from a number
// on.
type msgRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// message reads one message from the stream's leader, never from a replica that may lag. It returns
// jetstream.ErrMsgNotFound if there is none.
func (c *Conn) message(ctx context.Context, stream string, request msgRequest) (storedMsg, error) {
	var answer struct {
		apiAnswer
		Message storedMsg `json:"message"`
	}
	err := c.api(ctx, c.cfg.CallTimeout, "STREAM.MSG.GET."+stream, request, &answer)
	if apiCode(err, jetstream.JSErrCodeMessageNotFound) {
		return storedMsg{}, jetstream.ErrMsgNotFound
	}
	return answer.Message, err
}

// purge removes the messages of a stream whose subjects match.
func (c *Conn) purge(ctx context.Context, stream, filter string) error {
	request := struct {
		Filter string `json:"filter"`
	}{filter}
	var answer apiAnswer
	return c.api(ctx, scanTimeout, "STREAM.PURGE."+stream, request, &answer)
}
