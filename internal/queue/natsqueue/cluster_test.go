package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// startCluster starts three servers that keep every stream three times.
func startCluster(t *testing.T) []*server.Server {
	t.Helper()
	// Each must know the others' ports before it starts.
	var routes []*url.URL
	var ports []int
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: listener.Addr().String()})
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var nodes []*server.Server
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("node", i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 40,
			Cluster: server.ClusterOpts{Name: "aerie", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatal("a server of the cluster did not start")
		}
		nodes = append(nodes, s)
	}
	return nodes
}

// TestClusterLosesItsLeader runs a level on a cluster of three whose leader for the tasks goes away half-way: every
// task is done, each call is made once but for those in hand at that moment, and every attempt is counted.
func TestClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	var urls []string
	for _, s := range nodes {
		urls = append(urls, s.ClientURL())
	}
	c, err := Connect(strings.Join(urls, ","), Config{Replicas: 3, AckWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, func() bool { return c.Migrate(t.Context()) == nil })

	tasks := queuetest.Tasks("corpus", "build", 1, 60)
	publish(t, c, tasks...)
	w := &clusterWorker{t: t, conn: c, calls: map[tree.ID]int{}, done: map[tree.ID]bool{}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const slots = 4
	var wait sync.WaitGroup
	for range slots {
		wait.Go(func() {
			w.run(ctx, len(tasks), func() { stopLeader(t, c, nodes) }, cancel)
		})
	}
	wait.Wait()
	for _, task := range tasks {
		if !w.done[task.ID] {
			t.Errorf("task %d was not done", task.Position)
		}
	}
	made := 0
	for id, n := range w.calls {
		made += n
		a, err := c.Journal().End(t.Context(), "build", id, false)
		if err != nil || a.Started < 1 {
			t.Errorf("attempts at task %s: %+v, error %v", id, a, err)
		}
	}
	if made > len(tasks)+slots {
		t.Errorf("%d calls for %d tasks with %d slots and one lost leader", made, len(tasks), slots)
	}
	// What was under way between two servers when the leader went, or when the slots were stopped, comes again.
	for len(queued(t, c, tasks[0].Of())) > 0 {
		done(t, receive(t, c))
	}
}

// stopLeader ends the server that leads the task stream.
func stopLeader(t *testing.T, c *Conn, nodes []*server.Server) {
	s, err := c.js.Stream(t.Context(), tasksStream)
	if err != nil {
		t.Error(err)
		return
	}
	for _, node := range nodes {
		if node.Name() == s.CachedInfo().Cluster.Leader {
			node.Shutdown()
			return
		}
	}
	t.Errorf("no server leads the stream: %+v", s.CachedInfo().Cluster)
}

type clusterWorker struct {
	t    *testing.T
	conn *Conn

	mu     sync.Mutex
	halved bool
	calls  map[tree.ID]int
	done   map[tree.ID]bool
}

func (w *clusterWorker) run(ctx context.Context, total int, half, stop func()) {
	for {
		d, err := w.conn.Queue().Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, queue.ErrUnavailable) {
				w.t.Errorf("receive: %v", err)
				return
			}
			continue
		}
		w.work(ctx, d)
		w.mu.Lock()
		now := len(w.done)
		first := now >= total/2 && !w.halved
		w.halved = w.halved || first
		w.mu.Unlock()
		if first {
			half()
		}
		if now == total {
			stop()
		}
	}
}

func (w *clusterWorker) work(ctx context.Context, d queue.Delivery) {
	task := d.Task()
	key := queuetest.JournalKey(task.ID.String())
	w.insist(ctx, func() error {
		_, err := w.conn.Journal().Begin(ctx, "build", task.ID)
		return err
	})
	paid := false
	w.insist(ctx, func() error {
		_, err := w.conn.Journal().Lookup(ctx, key)
		paid = err == nil
		if errors.Is(err, journal.ErrNotFound) {
			return nil
		}
		return err
	})
	if !paid {
		w.mu.Lock()
		w.calls[task.ID]++
		w.mu.Unlock()
		w.insist(ctx, func() error { return w.conn.Journal().Record(ctx, key, journal.Entry{Text: "summary"}) })
	}
	w.mu.Lock()
	w.done[task.ID] = true
	w.mu.Unlock()
	w.insist(ctx, func() error { return d.Done(ctx) })
}

// insist repeats a call while the queue is away.
func (w *clusterWorker) insist(ctx context.Context, call func() error) {
	for {
		err := call()
		if err == nil || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, queue.ErrUnavailable) {
			w.t.Error(err)
			return
		}
	}
}
