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

// Save implements [levels.Builds].
func (b *Builds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	record, err := json.Marshal(state)
	past, pastErr := json.Marshal(state.Past())
	if err = errors.Join(err, pastErr); err == nil {
		keys := []string{b.s.leaseKey(lease.Corpus, levels.RightBuild), b.s.corpusKey(lease.Corpus, "build"), b.s.corpusKey(lease.Corpus, "history")}
		var out reply
		out, err = b.s.run(ctx, b.s.scripts.save, keys, lease.Holder, lease.Epoch, b.s.sequence(), record, state.Build, past)
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

// History implements [levels.Builds].
func (b *Builds) History(ctx context.Context, corpus string) ([]*levels.State, error) {
	var records map[string]string
	err := b.s.try(ctx, func(ctx context.Context) (err error) {
		records, err = b.s.client.HGetAll(ctx, b.s.corpusKey(corpus, "history")).Result()
		return err
	})
	var builds []*levels.State
	for _, text := range records {
		past := new(levels.State)
		builds = append(builds, past)
		err = errors.Join(err, json.Unmarshal([]byte(text), past))
	}
	if err != nil {
		return nil, fmt.Errorf("redisstate: corpus %s: builds: %w", corpus, err)
	}
	levels.InOrder(builds)
	return builds, nil
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
func (b *Builds) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) error {
	text, err := wish.MarshalText()
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	wishes := b.s.corpusKey(corpus, "wishes")
	err = b.s.try(ctx, func(ctx context.Context) error {
		if len(text) == 0 {
			return b.s.client.HDel(ctx, wishes, build).Err()
		}
		return b.s.client.HSet(ctx, wishes, build, text).Err()
	})
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	return nil
}

// StopRequested implements [levels.Builds].
func (b *Builds) StopRequested(ctx context.Context, corpus, build string) (levels.Stop, error) {
	var wish levels.Stop
	text, err := b.s.read(ctx, func(ctx context.Context) *redis.StringCmd {
		return b.s.client.HGet(ctx, b.s.corpusKey(corpus, "wishes"), build)
	})
	if err == nil {
		err = wish.UnmarshalText(text)
	}
	if err != nil {
		return levels.Stop{}, fmt.Errorf("redisstate: corpus %s: wish for build %s: %w", corpus, build, err)
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
