package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Builds implements [levels.Builds].
type Builds struct{ db *DB }

var _ levels.Builds = (*Builds)(nil)

// Builds returns the state of builds.
func (db *DB) Builds() *Builds { return &Builds{db} }

// Acquire implements [levels.Builds].
func (b *Builds) Acquire(ctx context.Context, corpus, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	var lease levels.Lease
	err := b.db.write(ctx, func(s *session) error {
		old, err := s.lease(corpus)
		if err != nil {
			return err
		}
		now := b.db.now()
		if old.Holder != "" && old.Holder != holder && old.Until.After(now) {
			return fmt.Errorf("%w, %s, until %s", levels.ErrHeld, old.Holder, old.Until.Format(time.RFC3339))
		}
		lease = levels.Lease{Corpus: corpus, Holder: holder, Epoch: max(old.Epoch, floor) + 1, Until: now.Add(ttl)}
		return s.saveLease(lease)
	})
	if err != nil {
		return levels.Lease{}, fmt.Errorf("sqlite: corpus %s: acquire the lease: %w", corpus, err)
	}
	return lease, nil
}

// Renew implements [levels.Builds].
func (b *Builds) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	err := b.fenced(ctx, lease, func(s *session) error {
		lease.Until = b.db.now().Add(ttl)
		return s.saveLease(lease)
	})
	if err != nil {
		return levels.Lease{}, fmt.Errorf("sqlite: corpus %s: renew the lease: %w", lease.Corpus, err)
	}
	return lease, nil
}

// Release implements [levels.Builds].
func (b *Builds) Release(ctx context.Context, lease levels.Lease) error {
	// The epoch stays, so that the next one is greater.
	err := b.db.write(ctx, func(s *session) error {
		return s.exec("UPDATE leases SET holder = '', until = 0 WHERE corpus = ? AND holder = ? AND epoch = ?", lease.Corpus, lease.Holder, lease.Epoch)
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: release the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Holder implements [levels.Builds].
func (b *Builds) Holder(ctx context.Context, corpus string) (holder string, err error) {
	err = b.db.read(ctx, func(s *session) error {
		lease, err := s.lease(corpus)
		if err == nil && lease.Until.After(b.db.now()) {
			holder = lease.Holder
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sqlite: corpus %s: holder of the lease: %w", corpus, err)
	}
	return holder, nil
}

// Save implements [levels.Builds].
func (b *Builds) Save(ctx context.Context, lease levels.Lease, state *levels.State) error {
	record, err := json.Marshal(state)
	if err == nil {
		err = b.fenced(ctx, lease, func(s *session) error {
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
func (b *Builds) RequestStop(ctx context.Context, corpus, build, wish string) error {
	err := b.db.write(ctx, func(s *session) error {
		if wish == "" {
			return s.exec("DELETE FROM wishes WHERE corpus = ? AND build = ?", corpus, build)
		}
		return s.exec("INSERT OR REPLACE INTO wishes (corpus, build, wish) VALUES (?, ?, ?)", corpus, build, wish)
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: ask build %s to stop: %w", corpus, build, err)
	}
	return nil
}

// StopRequested implements [levels.Builds].
func (b *Builds) StopRequested(ctx context.Context, corpus, build string) (string, error) {
	var wish string
	err := b.db.read(ctx, func(s *session) error {
		_, err := s.row("SELECT wish FROM wishes WHERE corpus = ? AND build = ?", []any{corpus, build}, &wish)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sqlite: corpus %s: wish for build %s: %w", corpus, build, err)
	}
	return wish, nil
}

// lease reads a corpus's lease; the zero lease if there was none.
func (s *session) lease(corpus string) (levels.Lease, error) {
	lease := levels.Lease{Corpus: corpus}
	var until int64
	_, err := s.row("SELECT holder, epoch, until FROM leases WHERE corpus = ?", []any{corpus}, &lease.Holder, &lease.Epoch, &until)
	lease.Until = time.Unix(0, until)
	return lease, err
}

func (s *session) saveLease(l levels.Lease) error {
	return s.exec("INSERT OR REPLACE INTO leases (corpus, holder, epoch, until) VALUES (?, ?, ?, ?)", l.Corpus, l.Holder, l.Epoch, l.Until.UnixNano())
}

// fenced makes a change that only the newest lease allows.
func (b *Builds) fenced(ctx context.Context, lease levels.Lease, fn func(*session) error) error {
	return b.db.write(ctx, func(s *session) error {
		newest, err := s.lease(lease.Corpus)
		if err != nil {
			return err
		}
		if newest.Epoch != lease.Epoch || newest.Holder != lease.Holder {
			return fmt.Errorf("epoch %d of %s: %w, epoch %d", lease.Epoch, lease.Holder, levels.ErrFenced, newest.Epoch)
		}
		return fn(s)
	})
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
