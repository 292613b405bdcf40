package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/natsqueue"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// places are settings that a fleet needs; nobody listens there.
var places = []string{"--queue.url", "nats://127.0.0.1:1", "--state.url", "redis://127.0.0.1:1", "--store.url", "http://127.0.0.1:1"}

func program(listen string, serve func(context.Context, *Daemon) error) Program {
	return Program{
		Name: "sentry", About: "stands for a daemon", Version: "v", Shown: []string{"queue.url"},
		Listen: func(*config.Config) string { return listen }, Serve: serve,
	}
}

// running is a Main under way.
type running struct {
	t    *testing.T
	log  *bufio.Reader
	exit chan int
}

func start(t *testing.T, p Program, args ...string) *running {
	t.Helper()
	from, to := io.Pipe()
	r := &running{t: t, log: bufio.NewReader(from), exit: make(chan int, 1)}
	go func() {
		r.exit <- Main(p, append(args, places...), nil, io.Discard, to)
		to.Close()
	}()
	return r
}

// line reads the log up to a message, and returns that line.
func (r *running) line(message string) map[string]any {
	r.t.Helper()
	for {
		text, err := r.log.ReadString('\n')
		if err != nil {
			r.t.Fatalf("the log ends before %q", message)
		}
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) != nil {
			r.t.Fatalf("%q is no JSON", text)
		}
		if line["msg"] == message {
			return line
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestLife follows a daemon: probes answer before it is ready, what waits is told, and SIGTERM ends it with 0 after its work has
// been told to stop.
func TestLife(t *testing.T) {
	go1, go2 := make(chan struct{}), make(chan struct{})
	ready := errors.New("no streams yet")
	var mu sync.Mutex
	r := start(t, program("127.0.0.1:0", func(ctx context.Context, d *Daemon) error {
		<-go1
		err := d.Until(ctx, "the queue is not ready", func(context.Context) error { mu.Lock(); defer mu.Unlock(); return ready }, func(error) bool { return false })
		if err != nil {
			return err
		}
		d.Handle(d.Telemetry.Handler())
		close(go2)
		<-ctx.Done()
		return nil
	}))
	base := fmt.Sprint("http://", r.line("listening")["address"])
	if status, body := get(t, base+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if status, body := get(t, base+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "not connected yet") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	close(go1)
	if line := r.line("the queue is not ready"); line["error"] != ready.Error() || line["level"] != "WARN" {
		t.Errorf("the log says %v", line)
	}
	if status, body := get(t, base+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, ready.Error()) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	mu.Lock()
	ready = nil
	mu.Unlock()
	<-go2
	if status, body := get(t, base+"/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := get(t, base+"/metrics"); status != http.StatusOK || !strings.Contains(body, "aerie_ready 1") {
		t.Errorf("/metrics: %d %.200s", status, body)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil { // Main has it
		t.Fatal(err)
	}
	r.line("stopped")
	if code := <-r.exit; code != api.ExitDone {
		t.Errorf("exit %d", code)
	}
}

// TestExitCodes: how Serve ends decides.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, api.ExitDone},
		{errors.New("broken"), api.ExitFailed},
		{fmt.Errorf("queue: %w", queue.ErrUnavailable), api.ExitUnreachable},
		{api.Usagef("", "no such schedule"), api.ExitUsage},
		{natsqueue.ErrMismatch, api.ExitFailed},
	} {
		r := start(t, program("", func(context.Context, *Daemon) error { return c.err }))
		line := r.line("stopped")
		if said := fmt.Sprint(line["error"]); c.err != nil && said != c.err.Error() {
			t.Errorf("%v: the log says %v", c.err, line)
		}
		if got := <-r.exit; got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}

// TestListenerInUse: a port that is taken is an error at once, and names it.
func TestListenerInUse(t *testing.T) {
	served := make(chan struct{})
	first := start(t, program("127.0.0.1:0", func(ctx context.Context, _ *Daemon) error { <-served; return nil }))
	address := fmt.Sprint(first.line("listening")["address"])
	second := start(t, program(address, func(context.Context, *Daemon) error { t.Error("it serves"); return nil }))
	if line := second.line("stopped"); !strings.Contains(fmt.Sprint(line["error"]), address) {
		t.Errorf("the log says %v", line)
	}
	if code := <-second.exit; code != api.ExitFailed {
		t.Errorf("exit %d", code)
	}
	close(served)
	first.line("stopped")
	<-first.exit
}

// TestConnectWaits: while a server is away, Connect tries again until it is told to stop.
func TestConnectWaits(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := config.Default()
	cfg.Queue.URL, cfg.State.URL, cfg.Store.URL = "nats://127.0.0.1:1", "redis://127.0.0.1:1", "http://127.0.0.1:1"
	from, to := io.Pipe()
	tel, err := telemetry.New(telemetry.Config{Program: "sentry", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(t.Context())
	d := &Daemon{Config: cfg, Log: slog.New(slog.NewJSONHandler(to, nil)), Telemetry: tel}
	ended := make(chan error, 1)
	go func() {
		_, err := d.Connect(ctx)
		ended <- err
		to.Close()
	}()
	r := &running{t: t, log: bufio.NewReader(from)}
	for range 2 {
		if line := r.line("a server can't be reached, trying again"); !strings.Contains(fmt.Sprint(line["error"]), "127.0.0.1:1") {
			t.Errorf("the log says %v", line)
		}
	}
	stop()
	go func() { _, _ = io.Copy(io.Discard, r.log) }()
	if err := <-ended; err == nil {
		t.Error("it has connected")
	}
}

// TestUntilEndsOnAFatalError, which is returned as it is.
func TestUntilEndsOnAFatalError(t *testing.T) {
	tel, err := telemetry.New(telemetry.Config{Program: "sentry", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(t.Context())
	var log bytes.Buffer
	d := &Daemon{Log: slog.New(slog.NewJSONHandler(&log, nil)), Telemetry: tel}
	asked := 0
	err = d.Until(t.Context(), "not yet", func(context.Context) error {
		asked++
		if asked == 1 {
			return queue.ErrUnavailable
		}
		return fmt.Errorf("stream: %w", natsqueue.ErrMismatch)
	}, Mismatch)
	if asked != 2 || !Mismatch(err) || strings.Count(log.String(), "not yet") != 1 {
		t.Errorf("asked %d times, error %v, log %s", asked, err, &log)
	}
}

// TestHolders: no two processes have the same name, and a name tells which process it is.
func TestHolders(t *testing.T) {
	a := Holder("worker")
	if !strings.HasPrefix(a, "worker-") || !strings.Contains(a, fmt.Sprintf("-%d-", syscall.Getpid())) {
		t.Error(a)
	}
	seen := map[string]bool{}
	for range 3 {
		seen[Holder("worker")] = true
		<-time.After(time.Millisecond)
	}
	if len(seen) != 3 {
		t.Errorf("three names are %v", seen)
	}
}

// TestParse: environment and flags, of which flags win, and what is refused before anything runs.
func TestParse(t *testing.T) {
	t.Chdir(t.TempDir())
	p := program("", nil)
	env := []string{"AERIE_LOG_LEVEL=debug", "AERIE_STATE_URL=redis://env", "AERIE_LOG_FORMAT=text"}
	cfg, o, err := p.parse(append([]string{"--log-format", "json", "--corpus", "docs"}, places[:2]...), append(env, "AERIE_STORE_URL=http://env"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.level != "debug" || o.format != "json" || cfg.State.URL != "redis://env" || cfg.Corpus != "docs" || cfg.Queue.URL != places[1] {
		t.Errorf("options %+v, state %s, corpus %s, queue %s", o, cfg.State.URL, cfg.Corpus, cfg.Queue.URL)
	}
	var stderr bytes.Buffer
	for _, args := range [][]string{{"--log-level", "loud"}, {"--log-format", "xml"}, {"--config", "nowhere.yaml"}} {
		stderr.Reset()
		if code := Main(p, append(args, places...), nil, io.Discard, &stderr); code != api.ExitUsage || !strings.Contains(stderr.String(), args[1]) {
			t.Errorf("%v: exit %d, %s", args, code, &stderr)
		}
	}
}

// TestChecks: those of the places, by name.
func TestChecks(t *testing.T) {
	away := errors.New("away")
	checks := Checks(&wire.Places{Checks: []wire.Check{{Name: "nats", Ask: func(context.Context) error { return away }}}})
	if len(checks) != 1 || checks[0].Name != "nats" || !errors.Is(checks[0].Ask(t.Context()), away) {
		t.Errorf("%+v", checks)
	}
}

// TestA28AddressInUse: a daemon whose address is taken names the key's flag and an address that is free, and with that it starts.
func TestA28AddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, key := range []string{"server.listen", "worker.listen"} {
		p := program("", func(ctx context.Context, _ *Daemon) error { <-ctx.Done(); return nil })
		p.ListenKey = key
		p.Listen = func(c *config.Config) string {
			return map[string]string{"server.listen": c.Server.Listen, "worker.listen": c.Worker.Listen}[key]
		}
		flag := "--" + strings.ReplaceAll(key, ".", "-")
		var log bytes.Buffer
		if exit := Main(p, append([]string{flag, taken.Addr().String()}, places...), nil, io.Discard, &log); exit != api.ExitUsage {
			t.Errorf("exit %d: %s", exit, &log)
		}
		advice := regexp.MustCompile(flag + ` (127\.0\.0\.1:\d+)`).FindStringSubmatch(log.String())
		if advice == nil || !strings.Contains(log.String(), key+" is "+taken.Addr().String()) {
			t.Fatalf("the log says %s", &log)
		}
		r := start(t, p, flag, advice[1])
		if at := r.line("listening")["address"]; at != advice[1] {
			t.Errorf("it listens at %v", at)
		}
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.line("stopped")
		if exit := <-r.exit; exit != api.ExitDone {
			t.Errorf("exit %d", exit)
		}
	}
}

// TestA28ReadmesFleet: the daemons of README's fleet, started line by line on one machine, have each an address of their own.
func TestA28ReadmesFleet(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir(".stack", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(".stack/aerie.yaml", []byte("queue: {url: \"nats://127.0.0.1:1\"}\nstate: {url: \"redis://127.0.0.1:1\"}\nstore: {url: \"http://127.0.0.1:1\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	started := map[string]int{}
	at := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^bin/(coordinator|worker) +(.*?) *&`).FindAllStringSubmatch(string(text), -1) {
		cfg, _, err := Program{Name: m[1]}.parse(strings.Fields(m[2]), nil, io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		address := cfg.Server.Listen
		if m[1] == "worker" {
			address = cfg.Worker.Listen
		}
		if at[address] {
			t.Errorf("%s: %s is taken by a line above", m[0], address)
		}
		at[address] = true
		started[m[1]]++
	}
	if started["coordinator"] < 2 || started["worker"] < 2 {
		t.Errorf("README starts %v", started)
	}
}
