package redisstate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	// maxTotal is how many bits a string of Redis holds.
	maxTotal = 1 << 32
	// marksPerCall bounds one call of a script, during which Redis does nothing else: about 5 ms.
	marksPerCall = 4096
)

// Barrier implements [levels.Barrier].
type Barrier struct{ s *State }

var _ levels.Barrier = (*Barrier)(nil)

// Barrier returns the barriers.
func (s *State) Barrier() *Barrier { return &Barrier{s} }

// Open implements [levels.Barrier].
func (b *Barrier) Open(ctx context.Context, level tree.Level, digest string, total int) error {
	return wrapLevel("open", level, b.open(ctx, level, digest, total))
}

func (b *Barrier) open(ctx context.Context, level tree.Level, digest string, total int) error {
	if total < 0 || total > maxTotal {
		return fmt.Errorf("total %d is not within 0 to %d", total, maxTotal)
	}
	// The build is noted first: a barrier that no list knows of would outlive its corpus.
	builds := b.s.corpusKey(level.Corpus, "builds")
	err := b.s.try(ctx, func(ctx context.Context) error {
		if err := b.s.client.SAdd(ctx, builds, level.Build).Err(); err != nil {
			return err
		}
		return b.s.client.PExpire(ctx, builds, b.s.cfg.BarrierTTL).Err()
	})
	if err != nil {
		return err
	}
	_, err = b.s.run(ctx, b.s.scripts.open, b.s.levelKeys(level), level.Level, digest, total, b.s.cfg.BarrierTTL.Milliseconds())
	return err
}

// Mark implements [levels.Barrier]. Very many marks are made by several calls; each of them is all or nothing, and
// a mark that is wrong is found before the first.
func (b *Barrier) Mark(ctx context.Context, level tree.Level, digest string, marks ...levels.Mark) (levels.Count, error) {
	count, err := b.mark(ctx, level, digest, marks)
	return count, wrapLevel("mark", level, err)
}

func (b *Barrier) mark(ctx context.Context, level tree.Level, digest string, marks []levels.Mark) (levels.Count, error) {
	if digest == "" {
		return levels.Count{}, fmt.Errorf("without a digest: %w", levels.ErrNotOpen)
	}
	if len(marks) == 0 {
		return b.count(ctx, level, digest)
	}
	highest := 0
	for _, m := range marks {
		switch {
		case m.Position < 0 || m.Position >= maxTotal:
			return levels.Count{}, fmt.Errorf("position %d is not a position of a plan", m.Position)
		case m.Outcome != levels.Done && m.Outcome != levels.Dead && m.Outcome != levels.Spent:
			return levels.Count{}, fmt.Errorf("no outcome is called %q", m.Outcome)
		}
		highest = max(highest, m.Position)
	}
	var count levels.Count
	for chunk := range slices.Chunk(marks, marksPerCall) {
		args := make([]any, 0, 4+10*len(chunk))
		args = append(args, digest, b.s.cfg.BarrierTTL.Milliseconds(), highest, remembered.Milliseconds())
		keys := b.s.levelKeys(level)
		if slices.ContainsFunc(chunk, func(m levels.Mark) bool { return m.Outcome == levels.Spent }) {
			keys = append(keys, b.s.buildKey(level.Corpus, level.Build, "once:"+rand.Text()))
		}
		for _, m := range chunk {
			u := m.Usage
			args = append(args, m.Position, string(m.Outcome), u.Calls, u.Reused, u.InputTokens, u.OutputTokens, u.Refused, u.Trimmed, u.CutPrompts, u.OtherLanguage)
		}
		out, err := b.s.run(ctx, b.s.scripts.mark, keys, args...)
		if err != nil {
			return levels.Count{}, err
		}
		if count, err = readCount(out, digest, highest); err != nil {
			return levels.Count{}, err
		}
	}
	return count, nil
}

// Count implements [levels.Barrier].
func (b *Barrier) Count(ctx context.Context, level tree.Level) (levels.Count, error) {
	count, err := b.count(ctx, level, "")
	return count, wrapLevel("count", level, err)
}

func (b *Barrier) count(ctx context.Context, level tree.Level, digest string) (levels.Count, error) {
	out, err := b.s.run(ctx, b.s.scripts.count, b.s.levelKeys(level)[:3], digest)
	if err != nil {
		return levels.Count{}, err
	}
	return readCount(out, digest, 0)
}

// readCount reads the reply of the scripts mark and count.
func readCount(out reply, digest string, highest int) (levels.Count, error) {
	switch out.word() {
	case "closed":
		return levels.Count{}, levels.ErrNotOpen
	case "digest":
		return levels.Count{}, fmt.Errorf("digest %.12s, open with %.12s: %w", digest, out.text(1), levels.ErrNotOpen)
	case "beyond":
		return levels.Count{}, fmt.Errorf("position %d is not below the total of %s", highest, out.text(1))
	}
	n, err := out.numbers(1, 11)
	if err != nil {
		return levels.Count{}, err
	}
	return levels.Count{
		Done: int(n[0]), Dead: int(n[1]), Total: int(n[2]),
		Usage: tree.Usage{
			Calls: int(n[3]), Reused: int(n[4]), InputTokens: int(n[5]), OutputTokens: int(n[6]),
			Refused: int(n[7]), Trimmed: int(n[8]), CutPrompts: int(n[9]), OtherLanguage: int(n[10]),
		},
	}, nil
}

// Positions implements [levels.Barrier].
func (b *Barrier) Positions(ctx context.Context, level tree.Level, outcome levels.Outcome) ([]int, error) {
	if outcome != levels.Done && outcome != levels.Dead {
		return nil, wrapLevel("positions", level, fmt.Errorf("no outcome is called %q", outcome))
	}
	out, err := b.s.run(ctx, b.s.scripts.positions, b.s.levelKeys(level)[:3], string(outcome))
	if err == nil && out.word() == "closed" {
		err = levels.ErrNotOpen
	}
	if err != nil {
		return nil, wrapLevel("positions", level, err)
	}
	return ones(out.text(1)), nil
}

// ones returns the positions of the bits that are set. Redis counts bits from the highest of each byte.
func ones(bitmap string) []int {
	var positions []int
	for i := range len(bitmap) {
		for bit := 0; bitmap[i]<<bit != 0; bit++ {
			if bitmap[i]<<bit&0x80 != 0 {
				positions = append(positions, 8*i+bit)
			}
		}
	}
	return positions
}

// Clear implements [levels.Barrier].
func (b *Barrier) Clear(ctx context.Context, level tree.Level, positions []int) error {
	return wrapLevel("clear", level, b.clear(ctx, level, positions))
}

func (b *Barrier) clear(ctx context.Context, level tree.Level, positions []int) error {
	if len(positions) == 0 {
		_, err := b.count(ctx, level, "")
		return err
	}
	for chunk := range slices.Chunk(positions, marksPerCall) {
		keys := b.s.levelKeys(level)
		keys[3] = b.s.buildKey(level.Corpus, level.Build, "once:"+rand.Text())
		args := []any{remembered.Milliseconds()}
		for _, p := range chunk {
			args = append(args, p)
		}
		out, err := b.s.run(ctx, b.s.scripts.clear, keys, args...)
		if err != nil {
			return err
		}
		if out.word() == "closed" {
			return levels.ErrNotOpen
		}
	}
	return nil
}

// Drop implements [levels.Barrier].
func (b *Barrier) Drop(ctx context.Context, corpus, build string) error {
	if err := b.drop(ctx, corpus, build); err != nil {
		return fmt.Errorf("redisstate: drop barriers of build %s of corpus %s: %w", build, corpus, err)
	}
	return nil
}

func (b *Barrier) drop(ctx context.Context, corpus, build string) error {
	set := b.s.buildKey(corpus, build, "levels")
	return b.s.try(ctx, func(ctx context.Context) error {
		numbers, err := b.s.client.SMembers(ctx, set).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		keys := []string{set}
		for _, n := range numbers {
			level, err := strconv.Atoi(n)
			if err != nil {
				return fmt.Errorf("%w: key %s holds %q, which is no level", errConfig, set, n)
			}
			keys = append(keys, b.s.levelKeys(tree.Level{Corpus: corpus, Build: build, Level: level})[:3]...)
		}
		// One command: a barrier is never left with a part of its keys.
		if err := b.s.client.Unlink(ctx, keys...).Err(); err != nil {
			return err
		}
		return b.s.client.SRem(ctx, b.s.corpusKey(corpus, "builds"), build).Err()
	})
}

func wrapLevel(doing string, level tree.Level, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisstate: %s barrier of corpus %s, build %s, level %d: %w", doing, level.Corpus, level.Build, level.Level, err)
}
