package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Acquire implements [levels.Leases].
func (b *Builds) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	var lease levels.Lease
	err := b.db.write(ctx, func(s *session) error {
		old, err := s.lease(corpus, right)
		if err != nil {
			return err
		}
		now := b.db.now()
		if old.Holder != "" && old.Holder != holder && old.Until.After(now) {
			return fmt.Errorf("%w, %s, until %s", levels.ErrHeld, old.Holder, old.Until.Format(time.RFC3339))
		}
		lease = levels.Lease{Corpus: corpus, Right: right, Holder: holder, Epoch: max(old.Epoch, floor) + 1, Until: now.Add(ttl)}
		return s.saveLease(lease)
	})
	if err != nil {
		return levels.Lease{}, fmt.Errorf("sqlite: corpus %s: acquire the lease: %w", corpus, err)
	}
	return lease, nil
}

// Renew implements [levels.Leases].
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

// Check implements [levels.Leases].
func (b *Builds) Check(ctx context.Context, lease levels.Lease) error {
	err := b.db.read(ctx, func(s *session) error {
		err := s.newest(lease)
		if err != nil {
			return err
		}
		if newest, err := s.lease(lease.Corpus, lease.Right); err != nil || newest.Until.After(b.db.now()) {
			return err
		}
		return fmt.Errorf("epoch %d of %s: %w: its time has run out", lease.Epoch, lease.Holder, levels.ErrFenced)
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: check the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Release implements [levels.Leases].
func (b *Builds) Release(ctx context.Context, lease levels.Lease) error {
	// The epoch stays, so that the next one is greater.
	err := b.db.write(ctx, func(s *session) error {
		return s.exec("UPDATE leases SET holder = '', until = 0 WHERE corpus = ? AND holder = ? AND epoch = ?", leaseKey(lease.Corpus, lease.Right), lease.Holder, lease.Epoch)
	})
	if err != nil {
		return fmt.Errorf("sqlite: corpus %s: release the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Holder implements [levels.Leases].
func (b *Builds) Holder(ctx context.Context, corpus string, right levels.Right) (holder string, err error) {
	err = b.db.read(ctx, func(s *session) error {
		lease, err := s.lease(corpus, right)
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

// leaseKey is what the column corpus of the table leases holds. Homes of old versions have the right to build there by the
// corpus's name alone; no name holds a slash.
func leaseKey(corpus string, right levels.Right) string {
	if right == levels.RightBuild {
		return corpus
	}
	return corpus + "/" + string(right)
}

// lease reads a lease; one without a holder if there was none.
func (s *session) lease(corpus string, right levels.Right) (levels.Lease, error) {
	lease := levels.Lease{Corpus: corpus, Right: right}
	var until int64
	_, err := s.row("SELECT holder, epoch, until FROM leases WHERE corpus = ?", []any{leaseKey(corpus, right)}, &lease.Holder, &lease.Epoch, &until)
	lease.Until = time.Unix(0, until)
	return lease, err
}

func (s *session) saveLease(l levels.Lease) error {
	return s.exec("INSERT OR REPLACE INTO leases (corpus, holder, epoch, until) VALUES (?, ?, ?, ?)", leaseKey(l.Corpus, l.Right), l.Holder, l.Epoch, l.Until.UnixNano())
}

// fenced makes a change that only the newest lease allows.
func (b *Builds) fenced(ctx context.Context, lease levels.Lease, fn func(*session) error) error {
	return b.db.write(ctx, func(s *session) error {
		if err := s.newest(lease); err != nil {
			return err
		}
		return fn(s)
	})
}

// newest returns levels.ErrFenced if a lease was passed on or given up.
func (s *session) newest(lease levels.Lease) error {
	newest, err := s.lease(lease.Corpus, lease.Right)
	if err != nil {
		return err
	}
	if newest.Epoch != lease.Epoch || newest.Holder != lease.Holder {
		return fmt.Errorf("epoch %d of %s: %w, epoch %d", lease.Epoch, lease.Holder, levels.ErrFenced, newest.Epoch)
	}
	return nil
}
