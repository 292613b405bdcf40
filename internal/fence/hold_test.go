package fence_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/fence"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// away are leases whose place can be cut off: then every call but that of another process waits until its caller gives up.
type away struct {
	*leveltest.Memory
	cut atomic.Bool
}

func (a *away) wait(ctx context.Context) error {
	if !a.cut.Load() {
		return nil
	}
	<-ctx.Done()
	return levels.ErrUnavailable
}

func (a *away) Renew(ctx context.Context, lease levels.Lease, ttl time.Duration) (levels.Lease, error) {
	if err := a.wait(ctx); err != nil {
		return levels.Lease{}, err
	}
	return a.Memory.Renew(ctx, lease, ttl)
}

func (a *away) Check(ctx context.Context, lease levels.Lease) error {
	if err := a.wait(ctx); err != nil {
		return err
	}
	return a.Memory.Check(ctx, lease)
}

const ttl = 15 * time.Second

func take(t *testing.T, leases levels.Leases, holder string) *fence.Hold {
	t.Helper()
	h, err := fence.Take(t.Context(), leases, fence.Config{Corpus: "c", Right: levels.RightDocuments, Holder: holder, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestA10WorkEndsWithTheLease: Redis is away. The work ends before anybody else can take the right, and nothing is written after it.
func TestA10WorkEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &away{Memory: leveltest.NewMemory()}
		nodes := storetest.NewMemory()
		leaf := tree.Node{ID: tree.LeafID("c", "d", 0, "x"), DocumentID: "d", Text: "x", Tokens: 1, NLeaves: 1, Died: tree.Alive, Vector: []float32{1}}
		if err := nodes.Put(t.Context(), "c", []tree.Node{leaf}); err != nil {
			t.Fatal(err)
		}
		h := take(t, leases, "a")
		pause(4 * ttl) // it is renewed
		if err := h.Context().Err(); err != nil {
			t.Fatalf("the work has ended: %v", context.Cause(h.Context()))
		}
		until := h.Lease().Until
		leases.cut.Store(true)
		<-h.Context().Done()
		if now := time.Now(); !now.Before(until) {
			t.Errorf("the work ended %v after the lease", now.Sub(until))
		}
		var lost *fence.LostError
		if !errors.As(context.Cause(h.Context()), &lost) || !errors.Is(h.Lost(), levels.ErrFenced) {
			t.Errorf("cause %v", context.Cause(h.Context()))
		}
		leases.cut.Store(false)
		pause(ttl)
		next := take(t, leases, "b")
		if err := h.Store(nodes).SetLife(t.Context(), "c", []tree.ID{leaf.ID}, 0, tree.Deleted); !errors.Is(err, levels.ErrFenced) {
			t.Errorf("a write of the one before: %v, want ErrFenced", err)
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
		if err := next.Store(nodes).SetLife(t.Context(), "c", []tree.ID{leaf.ID}, 3, 4); err != nil {
			t.Error(err)
		}
		got, err := nodes.Get(t.Context(), "c", []tree.ID{leaf.ID}, with)
		if err != nil || len(got) != 1 || got[0].Born != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}

var with = store.Fields{}

// pause lets the test's clock go on.
func pause(d time.Duration) { <-time.After(d) }

// TestWriteUnderWay: a write that has begun when the right is lost is cut off.
func TestWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &away{Memory: leveltest.NewMemory()}
		h := take(t, leases, "a")
		err := h.Do(t.Context(), func(ctx context.Context) error {
			leases.cut.Store(true)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, levels.ErrFenced) {
			t.Errorf("error %v", err)
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
}

// interrupted is a store whose caller gives up while it deletes.
type interrupted struct {
	store.Store
	giveUp func()
}

func (i *interrupted) Delete(ctx context.Context, _ string, _ []tree.ID) error {
	i.giveUp()
	return ctx.Err()
}

// TestDoubtfulWrite: a write whose outcome nobody knows keeps the right until it runs out.
func TestDoubtfulWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := leveltest.NewMemory()
		h := take(t, leases, "a")
		ctx, cancel := context.WithCancel(t.Context())
		if err := h.Store(&interrupted{storetest.NewMemory(), cancel}).Delete(ctx, "c", nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("a delete that is interrupted: %v", err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next, err := fence.TakeWithin(t.Context(), time.Minute, leases, fence.Config{Corpus: "c", Right: levels.RightDocuments, Holder: "b", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < ttl/2 {
			t.Errorf("another one had it after %v", took)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}
