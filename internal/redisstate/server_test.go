//go:build stack

package redisstate

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// shared is the server of all tests that don't need one of their own.
var shared *server

func TestMain(m *testing.M) {
	flag.Parse()
	code := func() int {
		if f := flag.Lookup("test.fuzzworker"); f != nil && f.Value.String() == "true" {
			return m.Run() // what is fuzzed needs no server, and workers end without a word
		}
		binary("redis-server")
		dir, err := os.MkdirTemp("", "redisstate")
		if err != nil {
			fatal("%v", err)
		}
		defer os.RemoveAll(dir)
		shared = newServer(dir)
		shared.start()
		defer shared.kill()
		return m.Run()
	}()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fatal("%v", err)
		}
	}
	os.Exit(code)
}

func fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "redisstate: "+format+"\n", args...)
	os.Exit(1)
}

// binary returns the path of a program of Redis.
func binary(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		fatal("these tests run on a real Redis, and %s is not installed: apt-get install redis-server (Debian, Ubuntu) or brew install redis (macOS)", name)
	}
	return path
}

// server is a redis-server that this process has started.
type server struct {
	dir   string
	port  int
	args  []string
	cmd   *exec.Cmd
	alive io.Closer // the server ends when this is closed

	sentinelOf *server // nil: a server with data
}

// newServer returns a server on a free port of the loopback interface, not yet started. It keeps its files in dir.
func newServer(dir string, args ...string) *server {
	return &server{dir: dir, port: freePort(), args: args}
}

// startServer returns a server of a test's own, which ends with it.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := newServer(t.TempDir(), args...)
	s.start()
	t.Cleanup(s.kill)
	return s
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal("%v", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }
func (s *server) url() string  { return "redis://" + s.addr() }

// start returns when the server answers.
func (s *server) start() {
	log := filepath.Join(s.dir, "redis.log")
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", log,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.args...)
	if s.sentinelOf != nil {
		args = []string{s.sentinelConfig(), "--sentinel"}
	}
	// The shell waits for the end of its input, which comes when this process closes it or dies, whatever of: a test
	// that runs into its time-out must leave no server behind.
	s.cmd = exec.Command("sh", append([]string{"-c", `"$@" & cat >/dev/null; kill -9 $!; wait`, "sh", binary("redis-server")}, args...)...)
	alive, err := s.cmd.StdinPipe()
	if err != nil {
		fatal("redis-server: %v", err)
	}
	if err := s.cmd.Start(); err != nil {
		fatal("redis-server: %v", err)
	}
	s.alive = alive
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if s.answers() {
			return
		}
		<-tick.C
	}
	text, _ := os.ReadFile(log)
	fatal("redis-server %v does not answer: %s", args, text)
}

// sentinelConfig writes the file that a Sentinel needs, since it keeps its state there.
func (s *server) sentinelConfig() string {
	path := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 2000\n", s.port, s.dir, s.sentinelOf.port)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fatal("%v", err)
	}
	return path
}

// answers reports whether the server says anything to a PING, be it that a password is needed.
func (s *server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.addr(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, _ := conn.Read(reply)
	return bytes.HasPrefix(reply[:n], []byte("+PONG")) || bytes.HasPrefix(reply[:n], []byte("-NOAUTH"))
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.alive.Close()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// client is a plain connection, to look at what is there and to do harm.
func (s *server) client(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connect returns a State that is closed when the test ends.
func connect(t *testing.T, cfg Config) *State {
	t.Helper()
	s, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sharedState returns a State on the shared server whose keys are the test's own.
func sharedState(t *testing.T) *State {
	t.Helper()
	return connect(t, Config{URL: shared.url(), Prefix: t.Name()})
}

// wait lets time pass for what follows the server's clock.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
