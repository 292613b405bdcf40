//go:build stack

package redisstate

import (
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
)

// TestContracts holds the ports to their contracts.
func TestContracts(t *testing.T) {
	leveltest.Run(t, func(t *testing.T) leveltest.Ports {
		s := sharedState(t)
		return ports(t, s)
	})
}

func ports(t *testing.T, s *State) leveltest.Ports {
	return leveltest.Ports{Barrier: s.Barrier(), Builds: s.Builds(), Corpora: s.Corpora(), Members: s.Members(), Advance: func(d time.Duration) { age(t, s, d) }}
}

// age makes every lease older by d, which is to leases what the passing of time is. TestLeaseFollowsTheServersClock
// waits in earnest.
func age(t *testing.T, s *State, d time.Duration) {
	t.Helper()
	keys, err := s.client.Keys(t.Context(), s.cfg.Prefix+":{*}:lease*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := s.client.HIncrBy(t.Context(), key, "until", -d.Milliseconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaseFollowsTheServersClock(t *testing.T) {
	builds := sharedState(t).Builds()
	a, err := builds.Acquire(t.Context(), "c", levels.RightBuild, "a", 150*time.Millisecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	wait(t.Context(), 200*time.Millisecond)
	b, err := builds.Acquire(t.Context(), "c", levels.RightBuild, "b", time.Minute, 0)
	if err != nil {
		t.Fatalf("Acquire after the lease has run out: %v", err)
	}
	if b.Epoch <= a.Epoch {
		t.Errorf("epoch %d follows %d", b.Epoch, a.Epoch)
	}
}
