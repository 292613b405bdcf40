package natsqueue

import (
	"bytes"
	"context"
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
	return p.object(ctx, func(ctx context.Context, store jetstream.ObjectStore) error {
		_, err := store.PutBytes(ctx, name, b.Bytes())
		return err
	})
}

func (p *plans) get(ctx context.Context, name string, v any) error {
	var raw []byte
	err := p.object(ctx, func(ctx context.Context, store jetstream.ObjectStore) error {
		var err error
		raw, err = store.GetBytes(ctx, name)
		return err
	})
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return levels.ErrNotFound
	}
	if err != nil {
		return err
	}
	r, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}

// object runs a call on the object store. A read that meets a replacement may find the old chunks gone, which
// shows as a wrong digest; the next try finds the new ones.
func (p *plans) object(ctx context.Context, call func(context.Context, jetstream.ObjectStore) error) error {
	for attempt := 1; ; attempt++ {
		err := p.conn.try(ctx, objectTimeout, func(ctx context.Context) error {
			store, err := p.conn.js.ObjectStore(ctx, plansBucket)
			if err != nil {
				return err
			}
			return call(ctx, store)
		})
		if !errors.Is(err, jetstream.ErrDigestMismatch) || attempt == tries {
			return err
		}
	}
}

// drop removes the objects whose names begin with prefix, and leaves no trace of them.
func (p *plans) drop(ctx context.Context, prefix string) error {
	const metaPrefix = "$O." + plansBucket + ".M."
	subjects, err := p.conn.subjects(ctx, plansStream, metaPrefix+"*")
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, metaPrefix))
		if err != nil || !strings.HasPrefix(string(name), prefix) {
			continue
		}
		err = p.object(ctx, func(ctx context.Context, store jetstream.ObjectStore) error {
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
