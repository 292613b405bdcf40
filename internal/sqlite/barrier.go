package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Barrier implements [levels.Barrier].
type Barrier struct{ db *DB }

var _ levels.Barrier = (*Barrier)(nil)

// Barrier returns the barriers.
func (db *DB) Barrier() *Barrier { return &Barrier{db} }

// barrier is the state of one level.
type barrier struct {
	digest     string
	total      int
	done, dead []byte // bitmaps
	usage      tree.Usage
}

// Open implements [levels.Barrier].
func (b *Barrier) Open(ctx context.Context, level tree.Level, digest string, total int) error {
	if total < 0 {
		return fmt.Errorf("sqlite: barrier of %v: total %d is below 0", level, total)
	}
	err := b.db.write(ctx, func(s *session) error {
		old, err := s.barrier(level)
		if err != nil || old != nil && old.digest == digest && old.total == total {
			return err
		}
		empty := make([]byte, (total+7)/8)
		return s.saveBarrier(level, &barrier{digest: digest, total: total, done: empty, dead: empty})
	})
	return wrapLevel("open", level, err)
}

// Mark implements [levels.Barrier].
func (b *Barrier) Mark(ctx context.Context, level tree.Level, digest string, marks ...levels.Mark) (levels.Count, error) {
	var count levels.Count
	apply := func(s *session) error {
		bar, err := s.openBarrier(level)
		if err != nil {
			return err
		}
		if bar.digest != digest {
			return fmt.Errorf("digest %.12s, open with %.12s: %w", digest, bar.digest, levels.ErrNotOpen)
		}
		changed := false
		for _, m := range marks {
			c, err := bar.mark(m)
			if err != nil {
				return err
			}
			changed = changed || c
		}
		count = bar.count()
		if !changed {
			return nil
		}
		return s.saveBarrier(level, bar)
	}
	if len(marks) == 0 {
		return count, wrapLevel("count", level, b.db.read(ctx, apply))
	}
	if err := b.db.write(ctx, apply); err != nil {
		return levels.Count{}, wrapLevel("mark", level, err)
	}
	return count, nil
}

// Count implements [levels.Barrier].
func (b *Barrier) Count(ctx context.Context, level tree.Level) (levels.Count, error) {
	var count levels.Count
	err := b.db.read(ctx, func(s *session) error {
		bar, err := s.openBarrier(level)
		if err == nil {
			count = bar.count()
		}
		return err
	})
	return count, wrapLevel("count", level, err)
}

// Positions implements [levels.Barrier].
func (b *Barrier) Positions(ctx context.Context, level tree.Level, outcome levels.Outcome) ([]int, error) {
	var positions []int
	err := b.db.read(ctx, func(s *session) error {
		bar, err := s.openBarrier(level)
		if err != nil {
			return err
		}
		var bitmap []byte
		switch outcome {
		case levels.Done:
			bitmap = bar.done
		case levels.Dead:
			bitmap = bar.dead
		default:
			return fmt.Errorf("no outcome is called %q", outcome)
		}
		for p := range bar.total {
			if get(bitmap, p) {
				positions = append(positions, p)
			}
		}
		return nil
	})
	return positions, wrapLevel("positions", level, err)
}

// Clear implements [levels.Barrier].
func (b *Barrier) Clear(ctx context.Context, level tree.Level, positions []int) error {
	err := b.db.write(ctx, func(s *session) error {
		bar, err := s.openBarrier(level)
		if err != nil {
			return err
		}
		for _, p := range positions {
			if p >= 0 && p < bar.total {
				bar.dead[p/8] &^= 1 << (p % 8)
			}
		}
		return s.saveBarrier(level, bar)
	})
	return wrapLevel("clear", level, err)
}

// Drop implements [levels.Barrier].
func (b *Barrier) Drop(ctx context.Context, corpus, build string) error {
	err := b.db.write(ctx, func(s *session) error {
		return s.exec("DELETE FROM barriers WHERE corpus = ? AND build = ?", corpus, build)
	})
	if err != nil {
		return fmt.Errorf("sqlite: drop barriers of build %s of corpus %s: %w", build, corpus, err)
	}
	return nil
}

// barrier reads a level's barrier; nil if it isn't open.
func (s *session) barrier(level tree.Level) (*barrier, error) {
	var b barrier
	var usage []byte
	ok, err := s.row("SELECT digest, total, done, dead, usage FROM barriers WHERE corpus = ? AND build = ? AND level = ?",
		[]any{level.Corpus, level.Build, level.Level}, &b.digest, &b.total, &b.done, &b.dead, &usage)
	if err != nil || !ok {
		return nil, err
	}
	return &b, json.Unmarshal(usage, &b.usage)
}

func (s *session) openBarrier(level tree.Level) (*barrier, error) {
	b, err := s.barrier(level)
	if err == nil && b == nil {
		err = levels.ErrNotOpen
	}
	return b, err
}

func (s *session) saveBarrier(level tree.Level, b *barrier) error {
	usage, err := json.Marshal(b.usage)
	if err != nil {
		return err
	}
	return s.exec("INSERT OR REPLACE INTO barriers (corpus, build, level, digest, total, done, dead, usage) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		level.Corpus, level.Build, level.Level, b.digest, b.total, b.done, b.dead, string(usage))
}

// mark applies one mark and reports whether it changed anything.
func (b *barrier) mark(m levels.Mark) (bool, error) {
	if m.Position < 0 || m.Position >= b.total {
		return false, fmt.Errorf("position %d is not within 0 to %d", m.Position, b.total-1)
	}
	i, bit := m.Position/8, byte(1)<<(m.Position%8)
	switch {
	case m.Outcome == levels.Spent:
		b.usage = b.usage.Add(m.Usage)
		return true, nil
	case m.Outcome != levels.Done && m.Outcome != levels.Dead:
		return false, fmt.Errorf("no outcome is called %q", m.Outcome)
	case b.done[i]&bit != 0:
		return false, nil
	case m.Outcome == levels.Done:
		b.done[i] |= bit
		b.dead[i] &^= bit
		b.usage = b.usage.Add(m.Usage)
		return true, nil
	}
	changed := b.dead[i]&bit == 0
	b.dead[i] |= bit
	return changed, nil
}

func (b *barrier) count() levels.Count {
	return levels.Count{Total: b.total, Done: ones(b.done), Dead: ones(b.dead), Usage: b.usage}
}

func get(bitmap []byte, p int) bool { return bitmap[p/8]&(1<<(p%8)) != 0 }

func ones(bitmap []byte) int {
	n := 0
	for _, b := range bitmap {
		n += bits.OnesCount8(b)
	}
	return n
}

func wrapLevel(doing string, level tree.Level, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s barrier of corpus %s, build %s, level %d: %w", doing, level.Corpus, level.Build, level.Level, err)
}
