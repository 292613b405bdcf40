package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Builds implements [levels.Builds].
type Builds struct{ db *DB }

var _ levels.Builds = (*Builds)(nil)

// Builds returns the state of builds.
func (db *DB) Builds() *Builds { return &Builds{db} }

// Save implements [levels.Builds].
func (b *Builds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	record, err := json.Marshal(state)
	past, pastErr := json.Marshal(state.Past())
	if err = errors.Join(err, pastErr); err == nil {
		err = b.fenced(ctx, lease, func(s *session) error {
			if err := s.exec("INSERT OR REPLACE INTO history (corpus, build, state) VALUES (?, ?, ?)", lease.Corpus, state.Build, string(past)); err != nil {
				return err
			}
			return s.exec("INSERT OR REPLACE INTO builds (corpus, state) VALUES (?, ?)", lease.Corpus, string(record))
		})
	}
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: save build %s: %w", lease.Corpus, state.Build, err)
	}
	return nil
}

// Load implements [levels.Builds].
func (b *Builds) Load(ctx context.Context, corpus string) (*levels.State, error) {
	var state levels.State
	if err := b.db.record(ctx, "SELECT state FROM builds WHERE corpus = ?", corpus, &state); err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: build: %w", corpus, err)
	}
	return &state, nil
}

// History implements [levels.Builds].
func (b *Builds) History(ctx context.Context, corpus string) ([]*levels.State, error) {
	var builds []*levels.State
	err := b.db.read(ctx, func(s *session) error {
		return s.rows("SELECT state FROM history WHERE corpus = ?", []any{corpus}, func(scan func(...any) error) error {
			var text []byte
			if err := scan(&text); err != nil {
				return err
			}
			past := new(levels.State)
			builds = append(builds, past)
			return json.Unmarshal(text, past)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: builds: %w", corpus, err)
	}
	levels.InOrder(builds)
	return builds, nil
}

// Report implements [levels.Builds].
func (b *Builds) Report(ctx context.Context, corpus string, p levels.Progress) error {
	err := b.db.write(ctx, func(s *session) error {
		var text []byte
		if _, err := s.row("SELECT progress FROM progress WHERE corpus = ?", []any{corpus}, &text); err != nil {
			return err
		}
		reports, err := readReports(text)
		if err != nil {
			return err
		}
		record, err := json.Marshal(reports.With(p))
		if err != nil {
			return err
		}
		return s.exec("INSERT OR REPLACE INTO progress (corpus, progress) VALUES (?, ?)", corpus, string(record))
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: report progress: %w", corpus, err)
	}
	return nil
}

// Progress implements [levels.Builds].
func (b *Builds) Progress(ctx context.Context, corpus string) (levels.Progress, error) {
	var text json.RawMessage
	err := b.db.record(ctx, "SELECT progress FROM progress WHERE corpus = ?", corpus, &text)
	var p levels.Progress
	if err == nil {
		var reports levels.Reports
		if reports, err = readReports(text); err == nil {
			p, err = reports.Merged()
		}
	}
	if err != nil {
		return levels.Progress{}, fmt.Errorf("sqlite: corpus %s: progress: %w", corpus, err)
	}
	return p, nil
}

// readReports reads what Report keeps: a list or, as homes of old versions have it, one report alone.
func readReports(text []byte) (levels.Reports, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] == '{' {
		var p levels.Progress
		err := json.Unmarshal(text, &p)
		return levels.Reports{p}, err
	}
	var reports levels.Reports
	err := json.Unmarshal(text, &reports)
	return reports, err
}

// RequestStop implements [levels.Builds].
func (b *Builds) RequestStop(ctx context.Context, corpus, build string, wish levels.Stop) error {
	text, err := wish.MarshalText()
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	err = b.db.write(ctx, func(s *session) error {
		if len(text) == 0 {
			return s.exec("DELETE FROM wishes WHERE corpus = ? AND build = ?", corpus, build)
		}
		return s.exec("INSERT OR REPLACE INTO wishes (corpus, build, wish) VALUES (?, ?, ?)", corpus, build, string(text))
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	return nil
}

// StopRequested implements [levels.Builds].
func (b *Builds) StopRequested(ctx context.Context, corpus, build string) (levels.Stop, error) {
	var text string
	var wish levels.Stop
	err := b.db.read(ctx, func(s *session) error {
		_, err := s.row("SELECT wish FROM wishes WHERE corpus = ? AND build = ?", []any{corpus, build}, &text)
		return err
	})
	if err == nil {
		err = wish.UnmarshalText([]byte(text))
	}
	if err != nil {
		return levels.Stop{}, fmt.Errorf("sqlite: corpus %s: wish for build %s: %w", corpus, build, err)
	}
	return wish, nil
}

// record reads a JSON value by its key; levels.ErrNotFound if there is none.
func (db *DB) record(ctx context.Context, query, key string, v any) error {
	return db.read(ctx, func(s *session) error {
		var record []byte
		ok, err := s.row(query, []any{key}, &record)
		switch {
		case err != nil:
			return err
		case !ok:
			return levels.ErrNotFound
		}
		return json.Unmarshal(record, v)
	})
}
