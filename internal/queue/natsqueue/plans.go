package natsqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
)

// plans implements levels.Plans on an object store. Objects are zstd-compressed JSON; the object store checks the
// SHA-256 of the compressed bytes, Plan.Verify that of the plan.
type plans struct{ conn *Conn }

// objectTimeout bounds the transfer of one object.
const objectTimeout = time.Minute

func planName(level queue.Level) string {
	return fmt.Sprintf("%s%d", plansPrefix(level.Corpus, level.Build), level.Level)
}

func plansPrefix(corpus, build string) string {
	return "plan/" + token(corpus) + "/" + token(build) + "/"
}

func treeName(corpus string) string { return "tree/" + token(corpus) }

// PutPlan implements levels.Plans.
func (p *plans) PutPlan(ctx context.Context, plan *levels.Plan) error {
	err := errors.Join(checkName("corpus", plan.Corpus), checkName("build", plan.Build))
	if err == nil {
		err = plan.Verify()
	}
	if err == nil {
		err = p.put(ctx, planName(plan.Of()), plan)
	}
	if err != nil {
		return fmt.Errorf("natsqueue: put plan of build %s level %d: %w", plan.Build, plan.Level, err)
	}
	return nil
}

// Plan implements levels.Plans.
func (p *plans) Plan(ctx context.Context, level queue.Level) (*levels.Plan, error) {
	plan := &levels.Plan{}
	err := p.get(ctx, planName(level), plan)
	if err == nil {
		err = plan.Verify()
	}
	if err == nil && plan.Of() != level {
		err = fmt.Errorf("it is the plan of corpus %s, build %s, level %d", plan.Corpus, plan.Build, plan.Level)
	}
	if err != nil {
		return nil, fmt.Errorf("natsqueue: plan of build %s level %d: %w", level.Build, level.Level, err)
	}
	return plan, nil
}

// PutTree implements levels.Plans.
func (p *plans) PutTree(ctx context.Context, corpus *levels.Corpus) error {
	err := checkName("corpus", corpus.Name)
	if err == nil {
		err = p.put(ctx, treeName(corpus.Name), corpus)
	}
	if err != nil {
		return fmt.Errorf("natsqueue: put tree record of corpus %s: %w", corpus.Name, err)
	}
	return nil
}

// Tree implements levels.Plans.
func (p *plans) Tree(ctx context.Context, corpus string) (*levels.Corpus, error) {
	record := &levels.Corpus{}
	if err := p.get(ctx, treeName(corpus), record); err != nil {
		return nil, fmt.Errorf("natsqueue: tree record of corpus %s: %w", corpus, err)
	}
	return record, nil
}

// DropPlans implements levels.Plans.
func (p *plans) DropPlans(ctx context.Context, corpus, build string) error {
	if err := p.drop(ctx, plansPrefix(corpus, build)); err != nil {
		return fmt.Errorf("natsqueue: drop plans of build %s: %w", build, err)
	}
	return nil
}

func (p *plans) put(ctx context.Context, name string, v any) error {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		return err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(v), w.Close()); err != nil {
		return err
	}
	err = p.store(ctx, func(ctx context.Context, store jetstream.ObjectStore) error {
		meta := jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}}
		_, err := store.Put(ctx, meta, bytes.NewReader(b.Bytes()))
		return err
	})
	if err != nil {
		return err
	}
	return p.conn.flush(plansStream)
}

// chunkSize is well below the server's limit on a message, 1 MiB, also in base64.
const chunkSize = 256 << 10

// store runs a call on the object store.
func (p *plans) store(ctx context.Context, call func(context.Context, jetstream.ObjectStore) error) error {
	return p.conn.try(ctx, objectTimeout, func(ctx context.Context) error {
		store, err := p.conn.js.ObjectStore(ctx, plansBucket)
		if err != nil {
			return err
		}
		return call(ctx, store)
	})
}

// get reads an object chunk by chunk. The object store's own Get makes a consumer, for which a worker has no
// rights, and waits in vain for chunks that are gone.
func (p *plans) get(ctx context.Context, name string, v any) error {
	object, err := p.describe(ctx, name)
	for err == nil {
		var raw []byte
		if raw, err = p.chunks(ctx, object); err == nil {
			return decode(raw, v)
		}
		if !errors.Is(err, errDamaged) {
			return err
		}
		// It was replaced under our hands, or it is damaged for good.
		was := object.NUID
		if object, err = p.describe(ctx, name); err == nil && object.NUID == was {
			return fmt.Errorf("object %s: %w", name, errDamaged)
		}
	}
	return err
}

// errDamaged: the bytes of an object aren't those that were put.
var errDamaged = errors.New("chunks are missing or damaged")

// describe returns what the store knows of an object, or levels.ErrNotFound.
func (p *plans) describe(ctx context.Context, name string) (jetstream.ObjectInfo, error) {
	var object jetstream.ObjectInfo
	subject := metaPrefix + base64.URLEncoding.EncodeToString([]byte(name))
	msg, err := p.conn.message(ctx, plansStream, msgRequest{Last: subject})
	if err == nil {
		err = json.Unmarshal(msg.Data, &object)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && object.Deleted {
		err = levels.ErrNotFound
	}
	return object, err
}

func (p *plans) chunks(ctx context.Context, object jetstream.ObjectInfo) ([]byte, error) {
	var raw []byte
	digest, next := sha256.New(), uint64(1)
	for range object.Chunks {
		msg, err := p.conn.message(ctx, plansStream, msgRequest{Next: chunkPrefix + object.NUID, Seq: next})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, errDamaged
		}
		if err != nil {
			return nil, err
		}
		digest.Write(msg.Data)
		raw, next = append(raw, msg.Data...), msg.Seq+1
	}
	if jetstream.GetObjectDigestValue(digest) != object.Digest {
		return nil, errDamaged
	}
	return raw, nil
}

func decode(raw []byte, v any) error {
	r, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}

const (
	metaPrefix  = "$O." + plansBucket + ".M."
	chunkPrefix = "$O." + plansBucket + ".C."
)

// sweep removes the chunks that no object names: a process that is killed while it puts one leaves them behind. Only
// for a store that nobody else writes to.
func (p *plans) sweep(ctx context.Context) error {
	chunks, err := p.conn.subjects(ctx, plansStream, chunkPrefix+"*")
	if err != nil {
		return err
	}
	metas, err := p.conn.subjects(ctx, plansStream, metaPrefix+"*")
	if err != nil || len(chunks) <= len(metas) {
		return err // the usual case, without a look at each object
	}
	named := map[string]bool{}
	for _, subject := range metas {
		msg, err := p.conn.message(ctx, plansStream, msgRequest{Last: subject})
		if err != nil {
			return err
		}
		var object jetstream.ObjectInfo
		if err := json.Unmarshal(msg.Data, &object); err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		named[chunkPrefix+object.NUID] = !object.Deleted
	}
	for _, subject := range chunks {
		if named[subject] {
			continue
		}
		if err := p.conn.purge(ctx, plansStream, subject); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the objects whose names begin with prefix, and leaves no trace of them.
func (p *plans) drop(ctx context.Context, prefix string) error {
	subjects, err := p.conn.subjects(ctx, plansStream, metaPrefix+"*")
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, metaPrefix))
		if err != nil || !strings.HasPrefix(string(name), prefix) {
			continue
		}
		err = p.store(ctx, func(ctx context.Context, store jetstream.ObjectStore) error {
			return store.Delete(ctx, string(name))
		})
		if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return err
		}
		if err := p.conn.purge(ctx, plansStream, subject); err != nil {
			return err
		}
	}
	return nil
}
