package natsqueue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucket reads and writes a key-value bucket in the layout of nats.go, by single calls.
type bucket struct {
	conn   *Conn
	stream string
	prefix string // of the subjects, with the final dot
}

// errConflict: the key's revision isn't the expected one.
var errConflict = errors.New("changed by another")

// get returns a key's value and its revision. Without a value it returns nil, with the revision of what has
// removed it, or 0.
func (b bucket) get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	msg, err := b.conn.message(ctx, b.stream, msgRequest{Last: b.prefix + key})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	// Somebody may have removed a key with the nats tool, which leaves a marker.
	if strings.Contains(string(msg.Header), "KV-Operation:") || strings.Contains(string(msg.Header), "Nats-Marker-Reason:") {
		return nil, msg.Seq, nil
	}
	return msg.Data, msg.Seq, nil
}

// put writes a key if its revision is the expected one, 0 for a new key; else it returns errConflict. The message
// carries an id, so that a repeat after a lost reply is no conflict where the stream's window allows.
func (b bucket) put(ctx context.Context, key string, value []byte, revision uint64) error {
	msg := &nats.Msg{Subject: b.prefix + key, Data: value}
	id := rand.Text()
	b.conn.anew.RLock()
	defer b.conn.anew.RUnlock()
	err := b.conn.try(ctx, ackTimeout, func(ctx context.Context) error {
		_, err := b.conn.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id),
			jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if isConflict(err) {
		return fmt.Errorf("%s: %w", key, errConflict)
	}
	return err
}

// remove takes a key out, leaving no marker.
func (b bucket) remove(ctx context.Context, key string) error {
	return b.conn.purge(ctx, b.stream, b.prefix+key)
}

// getJSON decodes a key's value into v; found is false if there is none.
func (b bucket) getJSON(ctx context.Context, key string, v any) (revision uint64, found bool, err error) {
	value, revision, err := b.get(ctx, key)
	if err != nil || value == nil {
		return revision, false, err
	}
	if err := json.Unmarshal(value, v); err != nil {
		return revision, false, fmt.Errorf("%s: %w", key, err)
	}
	return revision, true, nil
}

// isConflict reports whether the server says that a subject isn't at the sequence number that a message expects.
func isConflict(err error) bool {
	return apiCode(err, jetstream.JSErrCodeStreamWrongLastSequence) || apiCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
