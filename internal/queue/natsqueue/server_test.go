package natsqueue

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// serverBinary builds the nats-server of the module that go.mod names, once for each version, into .cache/bin at the
// module's root, which git ignores.
func serverBinary(t *testing.T) string {
	t.Helper()
	root := filepath.Dir(goOutput(t, "env", "GOMOD"))
	version := goOutput(t, "list", "-m", "-f", "{{.Version}}", "github.com/nats-io/nats-server/v2")
	dir := filepath.Join(root, ".cache", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	building := flock.New(filepath.Join(dir, "nats-server.lock"))
	if err := building.Lock(); err != nil {
		t.Fatal(err)
	}
	defer building.Unlock()
	binary := filepath.Join(dir, "nats-server-"+version)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	goOutput(t, "build", "-o", binary+".new", "github.com/nats-io/nats-server/v2")
	if err := os.Rename(binary+".new", binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

func goOutput(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// process is a nats-server of its own.
type process struct {
	t       *testing.T
	binary  string
	dir     string
	address string // of the first start, and of every one after
	extra   string
	cmd     *exec.Cmd
}

// startProcess starts a server with an empty store on a free port of the loopback interface. extra is added to its
// configuration.
func startProcess(t *testing.T, extra ...string) *process {
	t.Helper()
	p := &process{t: t, binary: serverBinary(t), dir: t.TempDir(), address: "127.0.0.1:-1", extra: strings.Join(extra, "\n")}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) url() string { return "nats://" + p.address }

// start returns when the server is ready. The port may be taken for a moment by somebody's outgoing connection.
func (p *process) start() {
	p.t.Helper()
	var log string
	for range 100 {
		var ready bool
		if ready, log = p.launch(); ready {
			return
		}
		p.kill()
		if !strings.Contains(log, "address already in use") {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	p.t.Fatalf("nats-server did not start:\n%s", log)
}

// launch starts the server and reads its log until it is ready, or has ended.
func (p *process) launch() (ready bool, log string) {
	p.t.Helper()
	config := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n%s\n", p.address, p.dir, p.extra)
	if err := os.WriteFile(filepath.Join(p.dir, "nats.conf"), []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(p.binary, "-c", filepath.Join(p.dir, "nats.conf"))
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		line := lines.Text()
		log += line + "\n"
		if _, address, ok := strings.Cut(line, "Listening for client connections on "); ok {
			p.address = address
		}
		if strings.Contains(line, "Server is ready") {
			go io.Copy(io.Discard, stderr) // ends with the process
			return true, log
		}
	}
	return false, log
}

// kill ends the server as kill -9 does.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// leasesWritten returns when the server last wrote down which leases there are.
func (p *process) leasesWritten() time.Time {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, "jetstream", "*", "streams", tasksStream, "obs", workers, "o.dat"))
	if err != nil || len(files) > 1 {
		p.t.Fatalf("state of the consumer: %v, error %v", files, err)
	}
	if len(files) == 0 {
		return time.Time{}
	}
	info, err := os.Stat(files[0])
	if err != nil { // replaced this moment
		return time.Time{}
	}
	return info.ModTime()
}

func (p *process) restart() {
	p.t.Helper()
	p.kill()
	p.start()
}

// connect returns a client under the default lease of a minute. Its streams exist.
func (p *process) connect(t *testing.T) *Conn {
	t.Helper()
	return p.connectLease(t, 0)
}

func (p *process) connectLease(t *testing.T, lease time.Duration) *Conn {
	t.Helper()
	c, err := Connect(p.url(), Config{AckWait: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerQueue(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T, lease time.Duration) queuetest.Opened {
		p := startProcess(t)
		c := p.connectLease(t, lease)
		return queuetest.Opened{
			Queue:   c.Queue(),
			Second:  func() queue.Queue { return p.connectLease(t, lease).Queue() },
			Restart: func() queue.Queue { p.restart(); return c.Queue() },
		}
	})
}

func TestServerJournal(t *testing.T) {
	t.Parallel()
	queuetest.JournalSuite(t, func(t *testing.T) queuetest.OpenedJournal {
		p := startProcess(t)
		c := p.connect(t)
		return queuetest.OpenedJournal{
			Journal: c.Journal(),
			Second:  func() journal.Journal { return p.connect(t).Journal() },
			Restart: func() journal.Journal { p.restart(); return c.Journal() },
		}
	})
}
