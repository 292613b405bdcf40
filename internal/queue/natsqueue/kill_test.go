package natsqueue

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The test binary runs itself as a child when this variable names what the child does, and where.
const childVariable = "AERIE_NATSQUEUE_CHILD"

const (
	childHold = "hold" // opens the queue and keeps it
	childWork = "work" // opens the queue and does tasks until none is left
)

func TestMain(m *testing.M) {
	if mode, dir, ok := strings.Cut(os.Getenv(childVariable), ":"); ok {
		if err := runChild(mode, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// The tests wait for leases most of the time; one for each processor would take long.
		if err := f.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer // the child ends with it, and so with its parent
	out   *bufio.Reader
}

// startChild returns when the child has opened the queue in dir.
func startChild(t *testing.T, dir, mode string) *child {
	t.Helper()
	c := launch(t, dir, mode)
	if line, err := c.out.ReadString('\n'); err != nil {
		t.Fatalf("child: %q, error %v", line, err)
	}
	return c
}

func launch(t *testing.T, dir, mode string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childVariable+"="+mode+":"+dir)
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin, c.out = stdin, bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func runChild(mode, dir string) error {
	conn, err := Embedded(dir, Config{}) // a lease of a minute, longer than the whole test
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if mode == childHold {
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	if err := (&killedWorker{dir: dir, conn: conn}).run(context.Background()); err != nil {
		return err
	}
	return conn.Close()
}

// killedTasks is the plan of TestKilledAtRandom.
func killedTasks() []queue.Task { return queuetest.Tasks("corpus", "build", 1, 120) }

// killedWorker works as a worker of aerie does, with files in place of the model and the store. A write to a file
// that was opened for appending survives a kill.
type killedWorker struct {
	dir  string
	conn *Conn
	mu   sync.Mutex
	left int
}

func (w *killedWorker) run(ctx context.Context) error {
	missing, err := w.reconcile(ctx)
	if err != nil {
		return err
	}
	if err := w.conn.Queue().Publish(ctx, missing); err != nil {
		return err
	}
	if err := appendLine(w.dir, "published", "all"); err != nil {
		return err
	}
	queued, err := w.conn.Queue().Queued(ctx, killedTasks()[0].Of())
	if err != nil {
		return err
	}
	w.left = len(queued)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.left == 0 {
		return nil
	}
	errs := make([]error, killedSlots)
	var slots sync.WaitGroup
	for i := range errs {
		slots.Go(func() { errs[i] = w.slot(ctx, cancel) })
	}
	slots.Wait()
	return errors.Join(errs...)
}

const killedSlots = 2

// reconcile returns the tasks that are neither queued nor done nor dead; queued is read first, so that a task that
// moves is seen at least once.
func (w *killedWorker) reconcile(ctx context.Context) ([]queue.Task, error) {
	where, err := whereabouts(ctx, w.conn, w.dir)
	if err != nil {
		return nil, err
	}
	var missing []queue.Task
	for _, task := range killedTasks() {
		if where[task.ID] == "" {
			missing = append(missing, task)
		}
	}
	return missing, nil
}

func (w *killedWorker) slot(ctx context.Context, stop func()) error {
	for {
		d, err := w.conn.Queue().Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := w.work(ctx, d); err != nil {
			return err
		}
		w.mu.Lock()
		if w.left--; w.left == 0 {
			stop()
		}
		w.mu.Unlock()
	}
}

func (w *killedWorker) work(ctx context.Context, d queue.Delivery) error {
	task := d.Task()
	if _, err := w.conn.Journal().Begin(ctx, task.Build, task.ID); err != nil {
		return err
	}
	if task.Position%10 == 0 {
		return d.Bury(ctx, "refused", "no")
	}
	key := queuetest.JournalKey(task.ID.String())
	_, err := w.conn.Journal().Lookup(ctx, key)
	if errors.Is(err, journal.ErrNotFound) {
		if err := appendLine(w.dir, "calls", task.ID.String()); err != nil {
			return err
		}
		<-time.After(3 * time.Millisecond) // the model takes its time
		err = w.conn.Journal().Record(ctx, key, journal.Entry{Text: "summary", Build: task.Build})
	}
	if err != nil {
		return err
	}
	if err := appendLine(w.dir, "done", task.ID.String()); err != nil {
		return err
	}
	return d.Done(ctx)
}

func appendLine(dir, name, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func readLines(dir, name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return strings.Fields(string(b)), nil
}

// whereabouts says of each task whether it is queued, dead or done; in two places after a kill between two steps.
func whereabouts(ctx context.Context, c *Conn, dir string) (map[tree.ID]string, error) {
	where := map[tree.ID]string{}
	queued, err := c.Queue().Queued(ctx, killedTasks()[0].Of())
	if err != nil {
		return nil, err
	}
	for _, id := range queued {
		where[id] += "queued "
	}
	dead, err := c.Queue().Dead(ctx, "corpus", "build")
	if err != nil {
		return nil, err
	}
	for _, b := range dead {
		where[b.Task.ID] += "dead "
	}
	done, err := readLines(dir, "done")
	if err != nil {
		return nil, err
	}
	for _, line := range done {
		id, err := tree.ParseID(line)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(where[id], "done") {
			where[id] += "done "
		}
	}
	return where, nil
}

// TestKilledAtRandom kills a process with an embedded queue again and again, and checks each time that
// expected = done + queued + dead, and in the end that no call was made more often than kills explain.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	const seed = 42
	random := rand.New(rand.NewPCG(seed, seed))
	dir, kills := t.TempDir(), 0
	for ; kills < 20; kills++ {
		c := launch(t, dir, childWork)
		if kills%4 > 0 { // the others may die before they have opened the queue
			_, _ = c.out.ReadString('\n')
		}
		<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
		c.kill()
		if c.cmd.ProcessState.Success() {
			break // it had nothing left to do
		}
		wantSum(t, dir)
	}
	last := launch(t, dir, childWork)
	ended := make(chan error, 1)
	go func() { ended <- last.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("the undisturbed run: %v", err)
		}
	case <-time.After(30 * time.Second): // half a lease: what was in hand must not wait for its end
		t.Fatal("the undisturbed run did not end in 30 s")
	}
	for id, where := range wantSum(t, dir) {
		if where != "done " && where != "dead " {
			t.Errorf("in the end task %s is %s", id, where)
		}
	}
	calls, err := readLines(dir, "calls")
	if err != nil {
		t.Fatal(err)
	}
	if most := len(killedTasks()) - len(killedTasks())/10 + kills*killedSlots; len(calls) > most {
		t.Errorf("%d calls after %d kills, want at most %d", len(calls), kills, most)
	}
	t.Logf("%d kills, %d calls for %d tasks", kills, len(calls), len(killedTasks()))
}

// wantSum opens the queue and checks that no task is missing, once all had been published.
func wantSum(t *testing.T, dir string) map[tree.ID]string {
	t.Helper()
	c, err := Embedded(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	where, err := whereabouts(t.Context(), c, dir)
	if err != nil {
		t.Fatal(err)
	}
	published, err := readLines(dir, "published")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range killedTasks() {
		if where[task.ID] == "" && len(published) > 0 {
			t.Errorf("task %d is neither done nor queued nor dead", task.Position)
		}
	}
	return where
}
