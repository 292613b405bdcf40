package redisstate

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"
)

// Roster keeps the ids of documents in order, as package store wants it of a roster: a sorted set for each corpus, in the order of
// bytes, and beside it a mark that changes with every removal and begins at random, so that a roster which was lost is known.
type Roster struct{ s *State }

// Roster returns the rosters of documents.
func (s *State) Roster() *Roster { return &Roster{s} }

func (r *Roster) ids(corpus string) string   { return r.s.corpusKey(corpus, "documents") }
func (r *Roster) about(corpus string) string { return r.s.corpusKey(corpus, "roster") }

func wrapRoster(corpus string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisstate: corpus %s: documents: %w", corpus, err)
}

// Add adds ids, and reports whether the roster is whole.
func (r *Roster) Add(ctx context.Context, corpus string, ids []string) (whole bool, err error) {
	members := make([]redis.Z, len(ids))
	for i, id := range ids {
		members[i].Member = id
	}
	err = r.s.try(ctx, func(ctx context.Context) error {
		if err := r.s.client.ZAdd(ctx, r.ids(corpus), members...).Err(); err != nil {
			return err
		}
		whole, err = r.s.client.HExists(ctx, r.about(corpus), "whole").Result()
		return err
	})
	return whole, wrapRoster(corpus, err)
}

// Remove takes ids out.
func (r *Roster) Remove(ctx context.Context, corpus string, ids []string) error {
	members := make([]any, len(ids))
	for i, id := range ids {
		members[i] = id
	}
	return wrapRoster(corpus, r.s.try(ctx, func(ctx context.Context) error {
		if err := r.s.client.HIncrBy(ctx, r.about(corpus), "mark", 1).Err(); err != nil {
			return err
		}
		return r.s.client.ZRem(ctx, r.ids(corpus), members...).Err()
	}))
}

// After returns the first ids greater than after that begin with prefix, limit at most, and whether the roster is whole.
func (r *Roster) After(ctx context.Context, corpus, prefix, after string, limit int) (ids []string, whole bool, err error) {
	span := redis.ZRangeArgs{Key: r.ids(corpus), ByLex: true, Start: "[" + prefix, Stop: "+", Count: int64(limit)}
	if after >= prefix && after != "" {
		span.Start = "(" + after
	}
	if end := beyond(prefix); end != "" {
		span.Stop = "(" + end
	}
	if prefix == "" && after == "" {
		span.Start = "-"
	}
	err = r.s.try(ctx, func(ctx context.Context) error {
		if whole, err = r.s.client.HExists(ctx, r.about(corpus), "whole").Result(); err != nil {
			return err
		}
		ids, err = r.s.client.ZRangeArgs(ctx, span).Result()
		return err
	})
	return ids, whole, wrapRoster(corpus, err)
}

// beyond returns the least text that is greater than all that begin with prefix; "" if there is none.
func beyond(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return string(end)
		}
		end = end[:len(end)-1]
	}
	return ""
}

// Count returns how many ids there are, and whether the roster is whole.
func (r *Roster) Count(ctx context.Context, corpus string) (n int, whole bool, err error) {
	err = r.s.try(ctx, func(ctx context.Context) error {
		if whole, err = r.s.client.HExists(ctx, r.about(corpus), "whole").Result(); err != nil {
			return err
		}
		count, err := r.s.client.ZCard(ctx, r.ids(corpus)).Result()
		n = int(count)
		return err
	})
	return n, whole, wrapRoster(corpus, err)
}

// Begin returns a mark of now.
func (r *Roster) Begin(ctx context.Context, corpus string) (mark string, err error) {
	err = r.s.try(ctx, func(ctx context.Context) error {
		if err := r.s.client.HSetNX(ctx, r.about(corpus), "mark", rand.Int64N(1<<52)).Err(); err != nil {
			return err
		}
		mark, err = r.s.client.HGet(ctx, r.about(corpus), "mark").Result()
		return err
	})
	return mark, wrapRoster(corpus, err)
}

// Complete says that the roster is whole, unless ids were removed or it was lost since the mark.
func (r *Roster) Complete(ctx context.Context, corpus, mark string) error {
	_, err := r.s.run(ctx, r.s.scripts.complete, []string{r.about(corpus)}, mark)
	return wrapRoster(corpus, err)
}

// Drop forgets a corpus.
func (r *Roster) Drop(ctx context.Context, corpus string) error {
	return wrapRoster(corpus, r.s.try(ctx, func(ctx context.Context) error {
		return r.s.client.Unlink(ctx, r.about(corpus), r.ids(corpus)).Err()
	}))
}
