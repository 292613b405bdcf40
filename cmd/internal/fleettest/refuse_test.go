//go:build stack

package fleettest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// TestOtherStreamsAreRefused: a coordinator whose configuration doesn't fit the streams that are there is refused with the list of
// differences, and changes nothing.
func TestOtherStreamsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	f.coordinator()
	for range 2 { // what differs still does
		p := f.daemon("coordinator", "other", "--queue.max_in_hand", "77", "--queue.ack_wait", "44s")
		p.start()
		if code := p.exit(30 * time.Second); code == 0 {
			t.Errorf("the coordinator left with 0")
		}
		for _, want := range []string{"1024, want 77", "5s, want 44s"} {
			if !strings.Contains(p.said(), want) {
				t.Errorf("it doesn't say %q:\n%s", want, p.said())
			}
		}
	}
	r := f.aerie(nil, "ingest", f.jsonl(rows(5)), "--queue.max_in_hand", "77") // status reads, for which it needs no queue
	if r.exit == 0 || !strings.Contains(r.stderr, "1024, want 77") {
		t.Errorf("it doesn't say what differs: %v", r)
	}
}

// TestWorkersMakeNoStreams: a worker that comes first waits for a coordinator, and says so.
func TestWorkersMakeNoStreams(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	w := f.daemon("worker", "worker")
	w.start()
	until(t, 30*time.Second, "the worker says that streams are missing", func() (bool, string) {
		status, checks := w.probe("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(fmt.Sprint(checks), "is missing"), fmt.Sprint(status, checks)
	})
	if status, checks := w.probe("/healthz"); status != http.StatusOK {
		t.Errorf("health is %d %v", status, checks)
	}
	if names := f.streams(); len(names) > 0 {
		t.Errorf("the worker has made %v", names)
	}
	f.coordinator()
	if names := f.streams(); len(names) == 0 {
		t.Error("the coordinator has made none")
	}
	w.untilReady()
}

func (f *fleet) streams() []string {
	f.t.Helper()
	conn, err := nats.Connect(f.stack.URLs()["queue.url"])
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	list := js.StreamNames(f.t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if list.Err() != nil {
		f.t.Fatal(list.Err())
	}
	return names
}

// redis sends a command and returns the first line of the answer.
func (f *fleet) redis(command string) string {
	f.t.Helper()
	conn, err := net.DialTimeout("tcp", f.stack.Redis.Address, 5*time.Second)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		f.t.Fatal(err)
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(reply)
}

// TestAsynq799EvictingRedisIsRefused: a Redis that may drop keys is refused at the start, by all three programs.
func TestAsynq799EvictingRedisIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, llmtest.Config{}, nil)
	if got := f.redis("CONFIG SET maxmemory-policy allkeys-lru"); got != "+OK" {
		t.Fatal(got)
	}
	for _, program := range []string{"coordinator", "worker"} {
		p := f.daemon(program, program)
		p.start()
		if code := p.exit(30 * time.Second); code == 0 || !strings.Contains(p.said(), "noeviction") {
			t.Errorf("%s left with %d and says\n%s", program, code, p.said())
		}
	}
	if r := f.aerie(nil, "status"); r.exit == 0 || !strings.Contains(r.stderr, "noeviction") {
		t.Errorf("it doesn't say that noeviction is needed: %v", r)
	}
}

// TestServersThatAreAway: a command that can't reach a server says which and leaves with 5. Daemons live, say why they aren't
// ready, and get ready by themselves when the server comes.
func TestServersThatAreAway(t *testing.T) {
	for _, c := range []struct {
		server string
		kill   func(*fleet, context.Context) error
		start  func(*fleet, context.Context) error
	}{
		{"redis", func(f *fleet, ctx context.Context) error { return f.stack.Redis.Kill(ctx) }, func(f *fleet, ctx context.Context) error { return f.stack.StartRedis(ctx) }},
		{"nats", func(f *fleet, ctx context.Context) error { return f.stack.NATS.Kill(ctx) }, func(f *fleet, ctx context.Context) error { return f.stack.StartNATS(ctx) }},
	} {
		t.Run(c.server, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, llmtest.Config{}, nil)
			address := map[string]string{"redis": f.stack.Redis.Address, "nats": f.stack.NATS.Address}[c.server]
			if err := c.kill(f, t.Context()); err != nil {
				t.Fatal(err)
			}
			daemons := []*process{f.daemon("coordinator", "coordinator"), f.daemon("worker", "worker")}
			for _, p := range daemons {
				p.start()
			}
			commands := [][]string{{"ingest", f.jsonl(rows(5))}, {"build"}}
			if c.server == "redis" { // without NATS status reads on: it needs no queue
				commands = append(commands, []string{"status"})
			} else if r := f.aerie(nil, "status"); r.exit != api.ExitFailed || !strings.Contains(r.stderr, "there is no corpus") {
				t.Errorf("status needs no queue: %v", r)
			}
			for _, command := range commands {
				if r := f.aerie(nil, command...); r.exit != api.ExitUnreachable || !strings.Contains(r.stderr, address) {
					t.Errorf("exit %d and %s are wanted: %v", api.ExitUnreachable, address, r)
				}
			}
			for _, p := range daemons {
				until(t, 30*time.Second, p.name+" says what it waits for", func() (bool, string) {
					status, checks := p.probe("/readyz")
					return status == http.StatusServiceUnavailable && strings.Contains(fmt.Sprint(checks), address), fmt.Sprint(status, checks)
				})
				if status, checks := p.probe("/healthz"); status != http.StatusOK {
					t.Errorf("%s: health is %d %v", p.name, status, checks)
				}
			}
			if err := c.start(f, t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, p := range daemons {
				p.untilReady()
			}
			f.ingest(daemons[0], rows(30))
			f.built(daemons[0])
		})
	}
	t.Run("weaviate", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, llmtest.Config{}, nil)
		address := freeAddress(t)
		urls := f.urls()
		urls["store.url"] = "http://" + address
		f.write("fleet.yaml", yaml(f.settings, urls))
		if r := f.aerie(nil, "status"); r.exit != api.ExitUnreachable || !strings.Contains(r.stderr, address) {
			t.Errorf("exit %d and %s are wanted: %v", api.ExitUnreachable, address, r)
		}
		p := f.daemon("coordinator", "coordinator")
		p.start()
		until(t, 30*time.Second, "the coordinator says what it waits for", func() (bool, string) {
			status, checks := p.probe("/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(fmt.Sprint(checks), address), fmt.Sprint(status, checks)
		})
	})
	t.Run("coordinator", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, llmtest.Config{}, nil)
		address := freeAddress(t)
		if r := f.aerie(&process{address: address}, "status"); r.exit != api.ExitUnreachable || !strings.Contains(r.stderr, address) {
			t.Errorf("exit %d and %s are wanted: %v", api.ExitUnreachable, address, r)
		}
	})
}
