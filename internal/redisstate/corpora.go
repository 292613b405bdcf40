package redisstate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Corpora implements [levels.Corpora].
type Corpora struct{ s *State }

var _ levels.Corpora = (*Corpora)(nil)

// Corpora returns the records of corpora. All are in one hash: they are few and small, and so the list of names and
// the records can't disagree.
func (s *State) Corpora() *Corpora { return &Corpora{s} }

func (c *Corpora) key() string { return c.s.sharedKey("corpora", "records") }

// Load implements [levels.Corpora].
func (c *Corpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	var corpus levels.Corpus
	err := c.s.record(ctx, &corpus, func(ctx context.Context) *redis.StringCmd { return c.s.client.HGet(ctx, c.key(), name) })
	if err != nil {
		return nil, fmt.Errorf("redisstate: corpus %s: %w", name, err)
	}
	return &corpus, nil
}

// Update implements [levels.Corpora]. Nothing is locked: the record is read, changed here, and stored if it is still
// as it was read.
func (c *Corpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	for conflicts := 0; ; conflicts++ {
		old, err := c.s.read(ctx, func(ctx context.Context) *redis.StringCmd { return c.s.client.HGet(ctx, c.key(), name) })
		if err != nil {
			return wrapUpdate(name, err)
		}
		var corpus levels.Corpus
		if old != nil {
			if err := json.Unmarshal(old, &corpus); err != nil {
				return wrapUpdate(name, err)
			}
		}
		corpus.Name = name
		if err := change(&corpus); err != nil {
			return err
		}
		corpus.Name = name
		record, err := json.Marshal(&corpus)
		if err != nil {
			return wrapUpdate(name, err)
		}
		once := c.s.sharedKey("corpora", "once:"+rand.Text())
		out, err := c.s.run(ctx, c.s.scripts.update, []string{c.key(), once}, name, old, record, remembered.Milliseconds())
		if err != nil {
			return wrapUpdate(name, err)
		}
		if out.word() == "ok" {
			return nil
		}
		// One writer wins each round; a random pause keeps many from losing round after round.
		if err := c.s.pause(ctx, mrand.N(time.Duration(min(conflicts+1, 20))*time.Millisecond)); err != nil {
			return wrapUpdate(name, err)
		}
	}
}

func wrapUpdate(name string, err error) error {
	return fmt.Errorf("redisstate: corpus %s: update: %w", name, err)
}

// List implements [levels.Corpora].
func (c *Corpora) List(ctx context.Context) ([]string, error) {
	var names []string
	err := c.s.try(ctx, func(ctx context.Context) error {
		var err error
		names, err = c.s.client.HKeys(ctx, c.key()).Result()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redisstate: list corpora: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Drop implements [levels.Corpora]. The lease stays, so that no epoch is given out twice. The record goes last: one whose
// drop was interrupted is still listed, and can be dropped again.
func (c *Corpora) Drop(ctx context.Context, name string) error {
	if err := c.drop(ctx, name); err != nil {
		return fmt.Errorf("redisstate: drop the record of corpus %s: %w", name, err)
	}
	return nil
}

func (c *Corpora) drop(ctx context.Context, name string) error {
	var builds []string
	err := c.s.try(ctx, func(ctx context.Context) error {
		var err error
		builds, err = c.s.client.SMembers(ctx, c.s.corpusKey(name, "builds")).Result()
		return err
	})
	if err != nil {
		return err
	}
	for _, build := range builds {
		if err := c.s.Barrier().drop(ctx, name, build); err != nil {
			return err
		}
	}
	return c.s.try(ctx, func(ctx context.Context) error {
		err := c.s.client.Unlink(ctx, c.s.corpusKey(name, "build"), c.s.corpusKey(name, "history"), c.s.corpusKey(name, "reports"), c.s.corpusKey(name, "wishes"),
			c.s.corpusKey(name, "documents"), c.s.corpusKey(name, "roster")).Err()
		if err != nil {
			return err
		}
		return c.s.client.HDel(ctx, c.key(), name).Err()
	})
}
