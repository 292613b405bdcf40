package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// faults breaks one thing after another while builds run.
type faults struct {
	t    *test
	left []special // those that have not happened yet, in the order of this seed
	// again says that they happen again and again.
	again bool

	mu   sync.Mutex // guards what follows
	done map[string]int
	lost int // calls that workers may have had under way when they were killed or paused
}

// special is a fault that happens once.
type special struct {
	name string
	// run does it, and returns once it is over; false if it could not be done just now.
	run func(ctx context.Context, corpus string) (bool, error)
}

func newFaults(t *test) *faults {
	f := &faults{t: t, done: map[string]int{}}
	f.left = []special{
		{"NATS killed and started again", f.restartNATS},
		{"Redis flushed", f.flushRedis},
		{"Weaviate stopped for 20 s", f.stopWeaviate},
		{"a worker paused beyond its lease on tasks", f.pauseWorker},
		{"the leading coordinator paused beyond its lease", f.pauseLeader},
	}
	t.random.Shuffle(len(f.left), func(i, j int) { f.left[i], f.left[j] = f.left[j], f.left[i] })
	return f
}

// enough reports whether everything has happened.
func (f *faults) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.left) == 0 && f.done[killedWorker]+f.done[killedCoordinator] >= leastKills
}

const (
	killedWorker      = "a worker killed"
	killedCoordinator = "a coordinator killed"
)

// losable is how many calls may have been paid for whose answers nobody got.
func (f *faults) losable() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

func (f *faults) note(what string, lost int) {
	f.mu.Lock()
	f.done[what]++
	f.lost += lost
	f.mu.Unlock()
	f.t.say("  %s", what)
}

func (f *faults) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, n := range f.done {
		f.t.say("%3d x %s", n, what)
	}
}

// run breaks things until ctx ends, which it does when the build of the corpus rests. A fault that has begun is always undone.
func (f *faults) run(ctx context.Context, corpus string) error {
	pause := f.between(300*time.Millisecond, 1500*time.Millisecond) // the first one hits a build of a few seconds
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = f.between(2*time.Second, 5*time.Second)
		if len(f.left) > 0 && f.t.random.IntN(2) == 0 {
			done, err := f.left[0].run(ctx, corpus)
			if err != nil {
				return fmt.Errorf("%s: %w", f.left[0].name, err)
			}
			if done {
				f.mu.Lock()
				happened := f.left[0]
				f.left = f.left[1:]
				if f.again {
					f.left = append(f.left, happened)
				}
				f.mu.Unlock()
				continue
			}
		}
		if err := f.killOne(); err != nil {
			return err
		}
	}
}

func (f *faults) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.t.random.Int64N(int64(most-least)))
}

func (f *faults) killOne() error {
	all := f.t.fleet.all()
	d := all[f.t.random.IntN(len(all))]
	d.kill()
	if strings.HasPrefix(d.name, "worker") {
		f.note(killedWorker, slots)
	} else {
		f.note(killedCoordinator, 0)
	}
	return d.start()
}

func (f *faults) restartNATS(ctx context.Context, _ string) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	if err := f.t.stack.NATS.Kill(ctx); err != nil {
		return false, err
	}
	f.note("NATS killed and started again", 0)
	return true, f.t.stack.StartNATS(ctx)
}

func (f *faults) flushRedis(context.Context, string) (bool, error) {
	conn, err := net.DialTimeout("tcp", f.t.stack.Redis.Address, 5*time.Second)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		return false, err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(reply, "+OK") {
		return false, fmt.Errorf("FLUSHALL: %q, %v", reply, err)
	}
	f.note("Redis flushed", 0)
	return true, nil
}

func (f *faults) stopWeaviate(ctx context.Context, _ string) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	if err := f.t.stack.Weaviate.Stop(ctx); err != nil {
		return false, err
	}
	f.note("Weaviate stopped for 20 s", 0)
	time.Sleep(20 * time.Second)
	return true, f.t.stack.StartWeaviate(ctx)
}

func (f *faults) pauseWorker(context.Context, string) (bool, error) {
	d := f.t.fleet.workers[f.t.random.IntN(workers)]
	d.signal(syscall.SIGSTOP)
	f.note("a worker paused beyond its lease on tasks", slots)
	time.Sleep(ackWait + 3*time.Second)
	d.signal(syscall.SIGCONT)
	return true, nil
}

func (f *faults) pauseLeader(ctx context.Context, corpus string) (bool, error) {
	d := f.t.fleet.leader(ctx, corpus)
	if d == nil {
		return false, nil // nobody leads just now; another time
	}
	d.signal(syscall.SIGSTOP)
	f.note("the leading coordinator paused beyond its lease", 0)
	time.Sleep(lease + 4*time.Second)
	d.signal(syscall.SIGCONT)
	return true, nil
}

// pauseCoordinator pauses one that may be changing documents.
func (f *faults) pauseCoordinator(context.Context, string) (bool, error) {
	d := f.t.fleet.coordinators[f.t.random.IntN(coordinators)]
	d.signal(syscall.SIGSTOP)
	f.note("a coordinator paused beyond its rights", 0)
	time.Sleep(lease + 4*time.Second)
	d.signal(syscall.SIGCONT)
	return true, nil
}
