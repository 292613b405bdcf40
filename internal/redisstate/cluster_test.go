//go:build stack

package redisstate

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

// startCluster returns three servers that share the slots of a Redis Cluster.
func startCluster(t *testing.T) []*server {
	t.Helper()
	var servers []*server
	for i := range 3 {
		s := startServer(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(freePort()), "--cluster-node-timeout", "2000",
			"--cluster-allow-replica-migration", "no", "--appendonly", "yes", "--appendfsync", "always")
		raw := s.client(t)
		first, last := i*5461, i*5461+5460
		if i == 2 {
			last = 16383
		}
		must(t, raw.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", first, last).Err())
		must(t, raw.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		servers = append(servers, s)
	}
	for _, s := range servers[1:] {
		must(t, s.client(t).Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", servers[0].port, clusterPort(servers[0])).Err())
	}
	for _, s := range servers {
		s.settled(t)
	}
	return servers
}

func clusterPort(s *server) string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	panic("not a server of a cluster")
}

// settled waits until a server knows the whole cluster.
func (s *server) settled(t *testing.T) {
	t.Helper()
	raw := s.client(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		about, err := raw.ClusterInfo(t.Context()).Result()
		if err == nil && strings.Contains(about, "cluster_state:ok") && strings.Contains(about, "cluster_known_nodes:3") {
			return
		}
		<-tick.C
	}
	t.Fatalf("the cluster of %s did not come together", s.addr())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every script touches the keys of one slot, so everything works on a Redis Cluster, also while slots move and when a
// server is started again.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	urls := "redis://" + servers[2].addr() + "," + servers[0].addr()
	t.Run("Contracts", func(t *testing.T) {
		leveltest.Run(t, func(t *testing.T) leveltest.Ports {
			s := connect(t, Config{URL: urls, Prefix: t.Name()})
			p := ports(t, s)
			p.Advance = func(d time.Duration) { ageCluster(t, s, d) }
			return p
		})
	})
	t.Run("KeysAreSpread", func(t *testing.T) {
		s := connect(t, Config{URL: servers[0].url(), Prefix: t.Name()})
		for i := range 30 {
			must(t, s.Barrier().Open(t.Context(), tree.Level{Corpus: "c", Build: fmt.Sprint(i), Level: 1}, "digest", 1))
		}
		for _, one := range servers {
			keys, err := one.client(t).Keys(t.Context(), t.Name()+":*:meta").Result()
			must(t, err)
			if len(keys) == 0 || len(keys) == 30 {
				t.Errorf("server %s has %d of the 30 builds", one.addr(), len(keys))
			}
		}
		must(t, s.Corpora().Drop(t.Context(), "c"))
		for _, one := range servers {
			keys, err := one.client(t).Keys(t.Context(), t.Name()+":*").Result()
			must(t, err)
			if len(keys) != 0 {
				t.Errorf("Drop has left %q on server %s", keys, one.addr())
			}
		}
	})
	t.Run("LimitsAndBudget", func(t *testing.T) {
		s := connect(t, Config{URL: servers[1].url(), Prefix: t.Name()})
		l, b := s.Limiter(llm.LimiterConfig{RequestsPerMinute: 6000}), s.Budget(llm.BudgetConfig{MaxTokens: 100})
		for i := range 10 {
			p, err := l.Acquire(t.Context(), fmt.Sprint(endpoint, i), llm.Need{})
			must(t, err)
			p.Done(llm.Outcome{Used: llm.Need{InputTokens: 1}})
			must(t, b.Reserve(t.Context(), fmt.Sprint(i), charge(10, 0)))
			must(t, b.Settle(t.Context(), fmt.Sprint(i), charge(10, 0)))
		}
		spent(t, b, 100, 0)
	})
	t.Run("AccessControl", func(t *testing.T) {
		for _, one := range servers {
			args := []any{"ACL", "SETUSER", "aerie", "reset", "on", ">s3cret"}
			for _, r := range strings.Fields(rights) {
				args = append(args, r)
			}
			must(t, one.client(t).Do(t.Context(), args...).Err())
		}
		s := connect(t, Config{URL: urls, User: "aerie", Password: "s3cret"})
		for i := range 10 {
			must(t, s.Barrier().Open(t.Context(), tree.Level{Corpus: "c", Build: fmt.Sprint(i), Level: 1}, "digest", 1))
		}
		must(t, s.Corpora().Drop(t.Context(), "c"))
	})
	t.Run("SlotsMove", func(t *testing.T) { slotsMove(t, servers) })
	t.Run("OneServerIsKilled", func(t *testing.T) {
		s := connect(t, Config{URL: urls, Prefix: t.Name()})
		b := s.Barrier()
		const total = 30
		var wg sync.WaitGroup
		for i := range total {
			level := tree.Level{Corpus: "c", Build: fmt.Sprint(i), Level: 1}
			must(t, b.Open(t.Context(), level, "digest", 1))
			if i == total-1 {
				servers[1].kill()
			}
			wg.Go(func() {
				got, err := b.Mark(context.Background(), level, "digest", done(0)...)
				if err != nil || got.Done != 1 {
					t.Errorf("mark of build %d: %+v, %v", i, got, err)
				}
			})
		}
		servers[1].start()
		wg.Wait()
	})
}

// slotsMove gives the slot of one build to another server and back, while its tasks are marked.
func slotsMove(t *testing.T, servers []*server) {
	s := connect(t, Config{URL: servers[0].url(), Prefix: t.Name()})
	b := s.Barrier()
	const total = 2000
	open(t, b, total)
	raws := map[string]*redis.Client{}
	for _, one := range servers {
		raw := one.client(t)
		id, err := raw.Do(t.Context(), "CLUSTER", "MYID").Text()
		must(t, err)
		raws[id] = raw
	}
	slot, err := s.client.ClusterKeySlot(t.Context(), s.levelKeys(l1)[0]).Result()
	must(t, err)
	moved := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(moved)
		for range 3 {
			moveSlot(t, raws, slot)
		}
	})
	for w := range 8 {
		wg.Go(func() {
			for p := w; p < total; p += 8 {
				if _, err := b.Mark(context.Background(), l1, "digest", done(p)...); err != nil {
					t.Errorf("mark %d: %v", p, err)
					return
				}
			}
		})
	}
	wg.Wait()
	<-moved
	mark(t, b, levels.Count{Total: total, Done: total, Usage: times(total)})
}

// moveSlot moves a slot from the server that has it to another, as redis-cli --cluster reshard does, one key at a time, and
// waits until all servers have heard of it: two moves within the time of a gossip can leave a slot without a server.
func moveSlot(t *testing.T, raws map[string]*redis.Client, slot int64) {
	from := owner(t, raws, slot)
	ids := slices.Sorted(maps.Keys(raws))
	to := ids[(slices.Index(ids, from)+1)%len(ids)]
	steps := func(raw *redis.Client, args ...any) {
		if err := raw.Do(t.Context(), args...).Err(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	_, port, err := net.SplitHostPort(raws[to].Options().Addr)
	if err != nil {
		t.Error(err)
	}
	steps(raws[to], "CLUSTER", "SETSLOT", slot, "IMPORTING", from)
	steps(raws[from], "CLUSTER", "SETSLOT", slot, "MIGRATING", to)
	for {
		keys, err := raws[from].ClusterGetKeysInSlot(t.Context(), int(slot), 1).Result()
		if err != nil {
			t.Error(err)
			return
		}
		if len(keys) == 0 {
			break
		}
		steps(raws[from], "MIGRATE", "127.0.0.1", port, keys[0], 0, 5000)
	}
	steps(raws[to], "CLUSTER", "SETSLOT", slot, "NODE", to)
	steps(raws[from], "CLUSTER", "SETSLOT", slot, "NODE", to)
	if got := owner(t, raws, slot); got != to {
		t.Errorf("slot %d is at %s, want %s", slot, got, to)
	}
}

// owner returns the server that has a slot, when all agree on that and on the cluster's epoch.
func owner(t *testing.T, raws map[string]*redis.Client, slot int64) string {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		views := map[string]bool{}
		id := ""
		for _, raw := range raws {
			about, err := raw.ClusterInfo(t.Context()).Result()
			if err != nil {
				t.Error(err)
				return ""
			}
			shards, err := raw.ClusterShards(t.Context()).Result()
			if err != nil {
				t.Error(err)
				return ""
			}
			for _, shard := range shards {
				for _, r := range shard.Slots {
					if r.Start <= slot && slot <= r.End {
						id = shard.Nodes[0].ID
						views[id+parseInfo(about)["cluster_current_epoch"]] = true
					}
				}
			}
		}
		if len(views) == 1 {
			return id
		}
		<-tick.C
	}
	t.Errorf("the servers don't agree on slot %d", slot)
	return ""
}

// ageCluster is age for every server of a cluster.
func ageCluster(t *testing.T, s *State, d time.Duration) {
	t.Helper()
	must(t, s.client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, one *redis.Client) error {
		keys, err := one.Keys(ctx, s.cfg.Prefix+":{*}:lease*").Result()
		for _, key := range keys {
			if err == nil {
				err = one.HIncrBy(ctx, key, "until", -d.Milliseconds()).Err()
			}
		}
		return err
	}))
}

// A Sentinel names its master, and another one after the first has died.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--repl-diskless-sync-delay", "0")
	replica := startServer(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(master.port))
	raw := replica.client(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for about := ""; !strings.Contains(about, "master_link_status:up"); <-tick.C {
		var err error
		about, err = raw.Info(t.Context(), "replication").Result()
		must(t, err)
	}
	sentinel := startSentinel(t, master)
	refused(t, Config{URL: sentinel.url()}, nil, "is a Sentinel", "/mymaster")
	s := connect(t, Config{URL: sentinel.url() + "/mymaster"})
	b := s.Barrier()
	open(t, b, 3)
	mark(t, b, levels.Count{Total: 3, Done: 1, Usage: times(1)}, done(0)...)
	for arrived := int64(0); arrived == 0; <-tick.C {
		var err error
		arrived, err = raw.GetBit(t.Context(), s.levelKeys(l1)[1], 0).Result()
		must(t, err)
	}
	sentinel.knowsReplica(t)
	master.kill()
	mark(t, b, levels.Count{Total: 3, Done: 2, Usage: times(2)}, done(1)...)
}

func startSentinel(t *testing.T, master *server) *server {
	t.Helper()
	s := newServer(t.TempDir())
	s.sentinelOf = master
	s.start()
	t.Cleanup(s.kill)
	return s
}

// knowsReplica waits until the Sentinel could promote one.
func (s *server) knowsReplica(t *testing.T) {
	t.Helper()
	raw := s.client(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		about, err := raw.Info(t.Context(), "sentinel").Result()
		must(t, err)
		if strings.Contains(about, "slaves=1") {
			return
		}
		<-tick.C
	}
}
