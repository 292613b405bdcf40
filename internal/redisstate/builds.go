package redisstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Builds implements [levels.Builds].
type Builds struct{ s *State }

var _ levels.Builds = (*Builds)(nil)

// Builds returns the state of builds and the leases on it.
func (s *State) Builds() *Builds { return &Builds{s} }

// Acquire implements [levels.Builds]. A call that was repeated after a lost reply may pass an epoch over.
func (b *Builds) Acquire(ctx context.Context, corpus, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	lease, err := b.acquire(ctx, corpus, holder, ttl, floor)
	if err != nil {
		return levels.Lease{}, fmt.Errorf("redisstate: corpus %s: acquire the lease: %w", corpus, err)
	}
	return lease, nil
}

func (b *Builds) acquire(ctx context.Context, corpus, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	if holder == "" {
		return levels.Lease{}, errors.New("the holder has no name")
	}
	var start time.Time
	out, err := b.s.runFrom(ctx, &start, b.s.scripts.acquire, []string{b.s.corpusKey(corpus, "lease")}, holder, millis(ttl), floor)
	if err != nil {
		return levels.Lease{}, err
	}
	if out.word() == "held" {
		n, err := out.numbers(2, 1)
		if err != nil {
			return levels.Lease{}, err
		}
		return levels.Lease{}, fmt.Errorf("%w, %s, for %v more", levels.ErrHeld, out.text(1), time.Duration(n[0])*time.Millisecond)
	}
	n, err := out.numbers(1, 1)
	if err != nil {
		return levels.Lease{}, err
	}
	return levels.Lease{Corpus: corpus, Holder: holder, Epoch: n[0], Until: start.Add(ttl)}, nil
}

// Renew implements [levels.Builds].
func (b *Builds) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	var start time.Time
	out, err := b.s.runFrom(ctx, &start, b.s.scripts.renew, []string{b.s.corpusKey(lease.Corpus, "lease")}, lease.Holder, lease.Epoch, millis(ttl))
	if err == nil {
		err = fenced(out, lease)
	}
	if err != nil {
		return levels.Lease{}, fmt.Errorf("redisstate: corpus %s: renew the lease: %w", lease.Corpus, err)
	}
	lease.Until = start.Add(ttl)
	return lease, nil
}

// Release implements [levels.Builds].
func (b *Builds) Release(ctx context.Context, lease levels.Lease) error {
	_, err := b.s.run(ctx, b.s.scripts.release, []string{b.s.corpusKey(lease.Corpus, "lease")}, lease.Holder, lease.Epoch)
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: release the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Holder implements [levels.Builds].
func (b *Builds) Holder(ctx context.Context, corpus string) (string, error) {
	out, err := b.s.run(ctx, b.s.scripts.holder, []string{b.s.corpusKey(corpus, "lease")})
	if err != nil {
		return "", fmt.Errorf("redisstate: corpus %s: holder of the lease: %w", corpus, err)
	}
	return out.text(1), nil
}

// Save implements [levels.Builds].
func (b *Builds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	record, err := json.Marshal(state)
	if err == nil {
		keys := []string{b.s.corpusKey(lease.Corpus, "lease"), b.s.corpusKey(lease.Corpus, "build")}
		var out reply
		out, err = b.s.run(ctx, b.s.scripts.save, keys, lease.Holder, lease.Epoch, b.s.sequence(), record)
		if err == nil {
			err = fenced(out, lease)
		}
	}
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: save build %s: %w", lease.Corpus, state.Build, err)
	}
	return nil
}

// sequence numbers the calls of this process in the order in which they begin, in digits that compare as text. It
// counts on from the clock, so that a second State in the process agrees with the first.
func (s *State) sequence() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSequence = max(s.lastSequence+1, time.Now().UnixNano())
	return fmt.Sprintf("%020d", s.lastSequence)
}

// fenced reads the reply of the scripts renew and save.
func fenced(out reply, lease levels.Lease) error {
	if out.word() != "fenced" {
		return nil
	}
	return fmt.Errorf("epoch %d of %s: %w, epoch %s of %q", lease.Epoch, lease.Holder, levels.ErrFenced, out.text(2), out.text(1))
}

// Load implements [levels.Builds].
func (b *Builds) Load(ctx context.Context, corpus string) (*levels.State, error) {
	var state levels.State
	err := b.s.record(ctx, &state, func(ctx context.Context) *redis.StringCmd {
		return b.s.client.HGet(ctx, b.s.corpusKey(corpus, "build"), "state")
	})
	if err != nil {
		return nil, fmt.Errorf("redisstate: corpus %s: build: %w", corpus, err)
	}
	return &state, nil
}

// Report implements [levels.Builds].
func (b *Builds) Report(ctx context.Context, corpus string, p levels.Progress) error {
	record, err := json.Marshal(p)
	if err == nil {
		err = b.s.try(ctx, func(ctx context.Context) error {
			return b.s.client.HSet(ctx, b.s.corpusKey(corpus, "reports"), p.Holder, record).Err()
		})
	}
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: report progress: %w", corpus, err)
	}
	return nil
}

// Progress implements [levels.Builds].
func (b *Builds) Progress(ctx context.Context, corpus string) (levels.Progress, error) {
	p, err := b.progress(ctx, b.s.corpusKey(corpus, "reports"))
	if err != nil {
		return levels.Progress{}, fmt.Errorf("redisstate: corpus %s: progress: %w", corpus, err)
	}
	return p, nil
}

func (b *Builds) progress(ctx context.Context, key string) (levels.Progress, error) {
	var records map[string]string
	err := b.s.try(ctx, func(ctx context.Context) (err error) {
		records, err = b.s.client.HGetAll(ctx, key).Result()
		return err
	})
	if err != nil {
		return levels.Progress{}, err
	}
	var reports levels.Reports
	for _, holder := range slices.Sorted(maps.Keys(records)) {
		var p levels.Progress
		if err := json.Unmarshal([]byte(records[holder]), &p); err != nil {
			return levels.Progress{}, err
		}
		reports = append(reports, p)
	}
	merged, err := reports.Merged()
	if err != nil {
		return merged, err
	}
	// Processes come and go under new names; those that are gone for long are forgotten here.
	var gone []string
	for _, p := range reports {
		if merged.At.Sub(p.At) > forgottenAfter {
			gone = append(gone, p.Holder)
		}
	}
	if len(gone) > 0 {
		err = b.s.try(ctx, func(ctx context.Context) error { return b.s.client.HDel(ctx, key, gone...).Err() })
	}
	return merged, err
}

// forgottenAfter is how long the report of a process that is gone is kept.
const forgottenAfter = time.Hour

// RequestStop implements [levels.Builds].
func (b *Builds) RequestStop(ctx context.Context, corpus, build, wish string) error {
	wishes := b.s.corpusKey(corpus, "wishes")
	err := b.s.try(ctx, func(ctx context.Context) error {
		if wish == "" {
			return b.s.client.HDel(ctx, wishes, build).Err()
		}
		return b.s.client.HSet(ctx, wishes, build, wish).Err()
	})
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	return nil
}

// StopRequested implements [levels.Builds].
func (b *Builds) StopRequested(ctx context.Context, corpus, build string) (string, error) {
	var wish string
	err := b.s.try(ctx, func(ctx context.Context) error {
		var err error
		if wish, err = b.s.client.HGet(ctx, b.s.corpusKey(corpus, "wishes"), build).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("redisstate: corpus %s: wish for build %s: %w", corpus, build, err)
	}
	return wish, nil
}

// record reads a JSON value; levels.ErrNotFound if there is none.
func (s *State) record(ctx context.Context, v any, get func(context.Context) *redis.StringCmd) error {
	text, err := s.read(ctx, get)
	switch {
	case err != nil:
		return err
	case text == nil:
		return levels.ErrNotFound
	}
	return json.Unmarshal(text, v)
}

// read reads a value; nil if there is none.
func (s *State) read(ctx context.Context, get func(context.Context) *redis.StringCmd) ([]byte, error) {
	var text []byte
	err := s.try(ctx, func(ctx context.Context) error {
		var err error
		if text, err = get(ctx).Bytes(); errors.Is(err, redis.Nil) {
			text, err = nil, nil
		}
		return err
	})
	return text, err
}

// millis rounds up, so that a lease of less than a millisecond is one.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
