package natsqueue

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{AckWait: 499 * time.Millisecond}, "AckWait"},
		{Config{AckWait: -1}, "AckWait"},
		{Config{Heartbeat: -1}, "Heartbeat"},
		{Config{MaxAckPending: -1}, "MaxAckPending"},
		{Config{Replicas: 2}, "Replicas"},
		{Config{JournalTTL: time.Second}, "JournalTTL"},
		{Config{AttemptsTTL: time.Second}, "AttemptsTTL"},
		{Config{SyncInterval: time.Millisecond}, "SyncInterval"},
		{Config{CallTimeout: -1}, "CallTimeout"},
		{Config{CredentialsFile: "a", NKeySeedFile: "b"}, "CredentialsFile"},
	} {
		if err := c.cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want one about %s", c.cfg, err, c.want)
		}
	}
	if _, err := Connect("", Config{}); err == nil {
		t.Error("connect without a URL: got no error")
	}
	if _, err := Connect("nats://127.0.0.1:1", Config{NKeySeedFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("connect with a seed file that doesn't exist: got no error")
	}
}

// TestMigrateReportsAndChangesNothing: a stream that somebody has set up otherwise stays as it is.
func TestMigrateReportsAndChangesNothing(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	c, err := Connect(p.url(), Config{AckWait: lease})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Check(t.Context())
	if !errors.Is(err, ErrMismatch) {
		t.Fatalf("check of an empty server: got error %v, want %v", err, ErrMismatch)
	}
	for _, name := range []string{tasksStream, deadStream, plansStream, journalStream, attemptsStream, "consumer " + workers} {
		if !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("%q doesn't say that %s is missing", err, name)
		}
	}
	theirs := jetstream.StreamConfig{
		Name: deadStream, Subjects: []string{deadPrefix + ">"}, MaxMsgsPerSubject: 2, MaxAge: time.Hour,
	}
	if _, err := c.js.CreateStream(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err = c.Migrate(t.Context())
		if !errors.Is(err, ErrMismatch) {
			t.Fatalf("migrate: got error %v, want %v", err, ErrMismatch)
		}
		for _, want := range []string{
			"stream AERIE_DEAD: subjects is [aerie.dead.>], want [aerie.dead.*.*.*.*]",
			"stream AERIE_DEAD: max messages per subject is 2, want 1",
			"stream AERIE_DEAD: max age is 1h0m0s, want 0s",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q doesn't say %q", err, want)
			}
		}
		if strings.Contains(err.Error(), tasksStream) || strings.Contains(err.Error(), workers) {
			t.Errorf("%q names what it has just made", err)
		}
	}
	if err := c.js.DeleteStream(t.Context(), deadStream); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	worker, err := Connect(p.url(), Config{AckWait: 2 * lease, MaxAckPending: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	err = worker.Check(t.Context())
	for _, want := range []string{"consumer workers: ack wait is 1s, want 2s", "consumer workers: max ack pending is 1024, want 7"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check by a client with another configuration: got error %v, want %q", err, want)
		}
	}
}

// TestConsumerRefusesPrefetch: the server itself keeps a client from fetching ahead.
func TestConsumerRefusesPrefetch(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 2)...)
	consumer, err := c.js.Consumer(t.Context(), tasksStream, workers)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.FetchNoWait(2)
	if err != nil {
		t.Fatal(err)
	}
	for range batch.Messages() {
		t.Error("a request for two was served")
	}
	if batch.Error() == nil {
		t.Error("a request for two: got no error")
	}
}

// TestEmbeddedFollowsItsConfig: a home that was made under another configuration opens under a new one.
func TestEmbeddedFollowsItsConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, cfg := range []Config{{}, {AckWait: lease, MaxAckPending: 3, JournalTTL: time.Hour}, {SyncAlways: true}} {
		c, err := Embedded(dir, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMaxAckPending bounds the tasks in hand over all workers.
func TestMaxAckPending(t *testing.T) {
	t.Parallel()
	c, err := Embedded(t.TempDir(), Config{MaxAckPending: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 3)...)
	first := receive(t, c)
	receive(t, c)
	wantNone(t, c, 100*time.Millisecond)
	done(t, first)
	receive(t, c)
}

func TestLockedByThisProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := embedded(t, dir)
	_, err := Embedded(dir, Config{})
	var locked *LockedError
	if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir {
		t.Errorf("got error %#v, want a LockedError of pid %d", err, os.Getpid())
	}
	if !strings.Contains(fmt.Sprint(err), fmt.Sprint(os.Getpid())) {
		t.Errorf("%q doesn't name the process", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	embedded(t, dir)
}

// TestLockedByAnotherProcess also looks from outside: the other process listens nowhere.
func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := startChild(t, dir, childHold)
	_, err := Embedded(dir, Config{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != child.cmd.Process.Pid {
		t.Errorf("got error %v, want a LockedError of pid %d", err, child.cmd.Process.Pid)
	}
	wantNoListener(t, child.cmd)
	child.kill()
	embedded(t, dir)
}

// wantNoListener reads the sockets of a process from /proc.
func wantNoListener(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
	if err != nil || len(fds) == 0 {
		return // not a system with /proc
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:") {
			t.Errorf("a process with an embedded queue has a socket: %s", target)
		}
	}
}

// TestCallsAfterClose fail at once, and say that the queue is away.
func TestCallsAfterClose(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 1)...)
	d := receive(t, c)
	received := make(chan error)
	go func() {
		_, err := c.Queue().Receive(t.Context())
		received <- err
	}()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	wantUnavailable(t, "receive under way", <-received)
	_, err := c.Queue().Receive(t.Context())
	wantUnavailable(t, "receive", err)
	wantUnavailable(t, "done", d.Done(t.Context()))
	wantUnavailable(t, "publish", c.Queue().Publish(t.Context(), queuetest.Tasks("corpus", "build", 1, 1)))
	if took := time.Since(start); took > time.Second {
		t.Errorf("calls on a closed queue took %v", took)
	}
	select {
	case <-c.Closed():
	default:
		t.Error("Closed is not closed")
	}
}

// TestServerLog: what the embedded server says is for debugging only.
func TestServerLog(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))
		c, err := Embedded(t.TempDir(), Config{Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "Server is ready") || strings.Contains(b.String(), "Starting nats-server"); got != want {
			t.Errorf("at level %v the server's start is logged: %v, want %v\n%s", level, got, want, b.String())
		}
	}
}

// TestUnusableDirectory: the error names the directory.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Embedded(file, Config{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got error %v, want one that names %s", err, file)
	}
	// The server can't use its part of it, and says so only in its log.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nats"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Embedded(dir, Config{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want one that names %s", err, dir)
	}
	// The lock was given back.
	if err := os.Remove(filepath.Join(dir, "nats")); err != nil {
		t.Fatal(err)
	}
	embedded(t, dir)
}

// TestConnectWithoutServer: a client may start before its server does.
func TestConnectWithoutServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + listener.Addr().String()
	listener.Close()
	c, err := Connect(url, Config{CallTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var calls sync.WaitGroup
	for what, call := range map[string]func() error{
		"check":   func() error { return c.Check(t.Context()) },
		"publish": func() error { return c.Queue().Publish(t.Context(), queuetest.Tasks("corpus", "build", 1, 1)) },
		"queued": func() error {
			_, err := c.Queue().Queued(t.Context(), tree.Level{Corpus: "corpus", Build: "build", Level: 1})
			return err
		},
	} {
		calls.Go(func() {
			err := call()
			wantUnavailable(t, what, err)
			if errors.Is(err, ErrMismatch) {
				t.Errorf("%q: a server that is away is no mismatch", err)
			}
		})
	}
	calls.Wait()
}
