package natsqueue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// objects reads and writes an object store in the layout of nats.go: the chunks of an object under a subject that
// no other object had before, and a description that names it.
//
// It does so by single calls. The Get of nats.go makes a consumer, for which a worker has no rights, and waits in vain
// for chunks that are gone; its Put sends the description before it knows whether the chunks have arrived.
type objects struct{ conn *Conn }

const (
	metaPrefix  = "$O." + plansBucket + ".M."
	chunkPrefix = "$O." + plansBucket + ".C."

	// chunkSize is well below the server's limit on a message, 1 MiB, also in base64.
	chunkSize = 256 << 10
)

var (
	errNoObject = errors.New("no such object")
	// errDamaged: the bytes of an object aren't those that were put.
	errDamaged = errors.New("chunks are missing or damaged")
)

func metaSubject(name string) string {
	return metaPrefix + base64.URLEncoding.EncodeToString([]byte(name))
}

// put stores an object durably in the place of one that has the same name. A reader finds the old one or the new
// one.
func (o objects) put(ctx context.Context, name string, data []byte) error {
	old, err := o.describe(ctx, name)
	if err != nil && !errors.Is(err, errNoObject) {
		return err
	}
	// A chunk whose reply is lost may be there or not, so another try begins under another subject.
	var nuid string
	err = o.conn.try(ctx, objectTimeout, func(ctx context.Context) error {
		nuid = rand.Text()
		return o.putOnce(ctx, name, nuid, data, nil)
	})
	if err != nil {
		return err
	}
	return o.settled(ctx, old)
}

// objectTimeout bounds the transfer of one object.
const objectTimeout = scanTimeout

// putOnce makes one attempt. at, if not nil, is the sequence number that the description must have, 0 for none.
func (o objects) putOnce(ctx context.Context, name, nuid string, data []byte, at *uint64) error {
	o.conn.anew.RLock()
	defer o.conn.anew.RUnlock()
	digest, chunks := sha256.New(), 0
	for chunk := range slices.Chunk(data, chunkSize) {
		digest.Write(chunk)
		chunks++
		if _, err := o.conn.js.PublishMsg(ctx, &nats.Msg{Subject: chunkPrefix + nuid, Data: chunk}); err != nil {
			// What has arrived is of no use. If this fails too, an embedded queue sweeps when it is opened.
			return errors.Join(err, o.discard(nuid))
		}
	}
	meta, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
		Bucket:     plansBucket,
		NUID:       nuid,
		Size:       uint64(len(data)),
		Chunks:     uint32(chunks),
		Digest:     jetstream.GetObjectDigestValue(digest),
	})
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: metaSubject(name), Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, Data: meta}
	var options []jetstream.PublishOpt
	if at != nil {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(*at))
	}
	_, err = o.conn.js.PublishMsg(ctx, msg, options...)
	return err
}

// putUnless stores an object as put does, unless stays says of the one that is there that it stays. It looks again when another
// writer comes between.
func (o objects) putUnless(ctx context.Context, name string, data []byte, stays func(old []byte) (bool, error)) error {
	for {
		old, at, err := o.described(ctx, name)
		if err != nil && !errors.Is(err, errNoObject) {
			return err
		}
		if err == nil {
			there, err := o.get(ctx, name) // of old, or of what has replaced it: then the put below doesn't go through
			if err == nil {
				if stay, err := stays(there); err != nil || stay {
					return err
				}
			} else if !errors.Is(err, errNoObject) && !errors.Is(err, errDamaged) {
				return err
			}
		}
		var tried []string // as in put
		err = o.conn.try(ctx, objectTimeout, func(ctx context.Context) error {
			tried = append(tried, rand.Text())
			return o.putOnce(ctx, name, tried[len(tried)-1], data, &at)
		})
		if !isConflict(err) {
			if err != nil {
				return err
			}
			return o.settled(ctx, old)
		}
		// Another writer came between, or a reply was lost and what is there is our own.
		now, err := o.describe(ctx, name)
		if err != nil && !errors.Is(err, errNoObject) {
			return err
		}
		for _, nuid := range tried {
			if nuid == now.NUID {
				return o.settled(ctx, old)
			}
			if err := o.conn.purge(ctx, plansStream, chunkPrefix+nuid); err != nil {
				return err
			}
		}
	}
}

// settled makes a put durable and removes the chunks of what it replaced.
func (o objects) settled(ctx context.Context, old jetstream.ObjectInfo) error {
	if err := o.conn.flush(plansStream); err != nil || old.NUID == "" {
		return err
	}
	return o.conn.purge(ctx, plansStream, chunkPrefix+old.NUID)
}

// discard removes chunks that no description names. It makes one attempt.
func (o objects) discard(nuid string) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.conn.cfg.CallTimeout)
	defer cancel()
	return o.conn.purge(ctx, plansStream, chunkPrefix+nuid)
}

// get returns an object, or errNoObject.
func (o objects) get(ctx context.Context, name string) ([]byte, error) {
	object, err := o.describe(ctx, name)
	for err == nil {
		var data []byte
		if data, err = o.chunks(ctx, object); !errors.Is(err, errDamaged) {
			return data, err
		}
		// It was replaced under our hands, or it is damaged for good.
		was := object.NUID
		if object, err = o.describe(ctx, name); err == nil && object.NUID == was {
			return nil, fmt.Errorf("object %s: %w", name, errDamaged)
		}
	}
	return nil, err
}

// describe returns the description of an object, or errNoObject.
func (o objects) describe(ctx context.Context, name string) (jetstream.ObjectInfo, error) {
	object, _, err := o.described(ctx, name)
	return object, err
}

// described is describe with the sequence number of the description; 0 if there never was one.
func (o objects) described(ctx context.Context, name string) (jetstream.ObjectInfo, uint64, error) {
	var object jetstream.ObjectInfo
	msg, err := o.conn.message(ctx, plansStream, msgRequest{Last: metaSubject(name)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return object, 0, errNoObject
	}
	if err != nil {
		return object, 0, err
	}
	if err := json.Unmarshal(msg.Data, &object); err != nil {
		return object, 0, err
	}
	if object.Deleted {
		return jetstream.ObjectInfo{}, msg.Seq, errNoObject
	}
	return object, msg.Seq, nil
}

func (o objects) chunks(ctx context.Context, object jetstream.ObjectInfo) ([]byte, error) {
	var data []byte
	digest, next := sha256.New(), uint64(1)
	for range object.Chunks {
		msg, err := o.conn.message(ctx, plansStream, msgRequest{Next: chunkPrefix + object.NUID, Seq: next})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, errDamaged
		}
		if err != nil {
			return nil, err
		}
		digest.Write(msg.Data)
		data, next = append(data, msg.Data...), msg.Seq+1
	}
	if jetstream.GetObjectDigestValue(digest) != object.Digest {
		return nil, errDamaged
	}
	return data, nil
}

// names returns the names of all objects.
func (o objects) names(ctx context.Context) ([]string, error) {
	subjects, err := o.conn.subjects(ctx, plansStream, metaPrefix+"*")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, subject := range subjects {
		if name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, metaPrefix)); err == nil {
			names = append(names, string(name))
		}
	}
	return names, nil
}

// drop removes an object without a trace; one that is gone is no error.
func (o objects) drop(ctx context.Context, name string) error {
	object, err := o.describe(ctx, name)
	if err != nil && !errors.Is(err, errNoObject) {
		return err
	}
	if err := o.conn.purge(ctx, plansStream, metaSubject(name)); err != nil || object.NUID == "" {
		return err
	}
	return o.conn.purge(ctx, plansStream, chunkPrefix+object.NUID)
}

// sweep removes the chunks that no object names: a process that is killed while it puts one leaves them behind. Only
// for a store that nobody else writes to.
func (o objects) sweep(ctx context.Context) error {
	chunks, err := o.conn.subjects(ctx, plansStream, chunkPrefix+"*")
	if err != nil {
		return err
	}
	names, err := o.names(ctx)
	if err != nil || len(chunks) <= len(names) {
		return err // the usual case, without a look at each object
	}
	named := map[string]bool{}
	for _, name := range names {
		object, err := o.describe(ctx, name)
		if err != nil && !errors.Is(err, errNoObject) {
			return err
		}
		named[chunkPrefix+object.NUID] = true
	}
	for _, subject := range chunks {
		if named[subject] {
			continue
		}
		if err := o.conn.purge(ctx, plansStream, subject); err != nil {
			return err
		}
	}
	return nil
}
