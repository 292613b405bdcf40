package redisstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// leaseKey names the key of a lease. That to builds has the name that it had when there was no other.
func (s *State) leaseKey(corpus string, right levels.Right) string {
	if right == levels.RightBuild {
		return s.corpusKey(corpus, "lease")
	}
	return s.corpusKey(corpus, "lease:"+string(right))
}

// Acquire implements [levels.Leases]. A call that was repeated after a lost reply may pass an epoch over.
func (b *Builds) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	lease, err := b.acquire(ctx, corpus, right, holder, ttl, floor)
	if err != nil {
		return levels.Lease{}, fmt.Errorf("redisstate: corpus %s: acquire the lease: %w", corpus, err)
	}
	return lease, nil
}

func (b *Builds) acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	if holder == "" {
		return levels.Lease{}, errors.New("the holder has no name")
	}
	var start time.Time
	out, err := b.s.runFrom(ctx, &start, b.s.scripts.acquire, []string{b.s.leaseKey(corpus, right)}, holder, millis(ttl), floor)
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
	return levels.Lease{Corpus: corpus, Right: right, Holder: holder, Epoch: n[0], Until: start.Add(ttl)}, nil
}

// Renew implements [levels.Leases].
func (b *Builds) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	var start time.Time
	out, err := b.s.runFrom(ctx, &start, b.s.scripts.renew, []string{b.s.leaseKey(lease.Corpus, lease.Right)}, lease.Holder, lease.Epoch, millis(ttl))
	if err == nil {
		err = fenced(out, lease)
	}
	if err != nil {
		return levels.Lease{}, fmt.Errorf("redisstate: corpus %s: renew the lease: %w", lease.Corpus, err)
	}
	lease.Until = start.Add(ttl)
	return lease, nil
}

// Check implements [levels.Leases].
func (b *Builds) Check(ctx context.Context, lease levels.Lease) error {
	out, err := b.s.run(ctx, b.s.scripts.check, []string{b.s.leaseKey(lease.Corpus, lease.Right)}, lease.Holder, lease.Epoch)
	if err == nil {
		err = fenced(out, lease)
	}
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: check the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Release implements [levels.Leases].
func (b *Builds) Release(ctx context.Context, lease levels.Lease) error {
	_, err := b.s.run(ctx, b.s.scripts.release, []string{b.s.leaseKey(lease.Corpus, lease.Right)}, lease.Holder, lease.Epoch)
	if err != nil {
		return fmt.Errorf("redisstate: corpus %s: release the lease: %w", lease.Corpus, err)
	}
	return nil
}

// Holder implements [levels.Leases].
func (b *Builds) Holder(ctx context.Context, corpus string, right levels.Right) (string, error) {
	out, err := b.s.run(ctx, b.s.scripts.holder, []string{b.s.leaseKey(corpus, right)})
	if err != nil {
		return "", fmt.Errorf("redisstate: corpus %s: holder of the lease: %w", corpus, err)
	}
	return out.text(1), nil
}

// fenced reads the reply of the scripts renew, check and save.
func fenced(out reply, lease levels.Lease) error {
	if out.word() != "fenced" {
		return nil
	}
	return fmt.Errorf("epoch %d of %s: %w, epoch %s of %q", lease.Epoch, lease.Holder, levels.ErrFenced, out.text(2), out.text(1))
}

// millis rounds up, so that a lease of less than a millisecond is one.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
