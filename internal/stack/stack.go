package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aerie-rag/aerie/internal/weaviate/weaviatetest"
)

// Stack is three servers and the folder with their files. Its methods are not for use by several goroutines.
type Stack struct {
	Folder   string  `json:"-"`
	NATS     Process `json:"nats"`
	Redis    Process `json:"redis"`
	Weaviate Process `json:"weaviate"`
	GRPC     string  `json:"grpc"` // host:port of Weaviate's other side

	log io.Writer
}

// Files in the folder.
const (
	stateFile  = "stack.json"
	configFile = "aerie.yaml"
)

// startTimeout is how long a server may take to answer.
const startTimeout = 60 * time.Second

// Up starts the servers that don't run yet, with their files in folder, waits until they are ready and writes their
// configuration for aerie, as [Stack.Config] names it. What builds say goes to log.
func Up(ctx context.Context, folder string, log io.Writer) (*Stack, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	s, err := Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = &Stack{Folder: folder}, nil
	}
	if err != nil {
		return nil, err
	}
	s.log = log
	for _, start := range []func(context.Context) error{s.StartNATS, s.StartRedis, s.StartWeaviate} {
		if err := start(ctx); err != nil {
			return s, err
		}
	}
	return s, s.writeConfig()
}

// Open reads what was started in a folder; fs.ErrNotExist if nothing was.
func Open(folder string) (*Stack, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, stateFile))
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	s := &Stack{Folder: folder, log: io.Discard}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("stack: %s: %w", stateFile, err)
	}
	return s, nil
}

// Down stops the servers and waits until they have ended. Their files stay.
func (s *Stack) Down(ctx context.Context) error {
	return errors.Join(s.Weaviate.Stop(ctx), s.Redis.Stop(ctx), s.NATS.Stop(ctx))
}

// Config returns the path of a configuration file for aerie.
func (s *Stack) Config() string { return filepath.Join(s.Folder, configFile) }

// URLs returns what the configuration says of the servers, by key.
func (s *Stack) URLs() map[string]string {
	return map[string]string{
		"queue.url": "nats://" + s.NATS.Address, "state.url": "redis://" + s.Redis.Address,
		"store.url": "http://" + s.Weaviate.Address, "store.grpc_url": s.GRPC,
	}
}

func (s *Stack) writeConfig() error {
	u := s.URLs()
	text := fmt.Sprintf("# The servers that `make stack` has started; `make stack-stop` ends them.\n"+
		"queue: {url: %q}\nstate: {url: %q}\nstore: {url: %q, grpc_url: %q}\n", u["queue.url"], u["state.url"], u["store.url"], u["store.grpc_url"])
	return replace(s.Config(), []byte(text))
}

// save writes down what runs.
func (s *Stack) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	return replace(filepath.Join(s.Folder, stateFile), append(text, '\n'))
}

func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	return nil
}

// address returns where a server listens: where it did before, or at a free port.
func address(before Process) (string, error) {
	if before.Address != "" {
		return before.Address, nil
	}
	p, err := freePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p)), err
}

// folder makes a folder for a server's files.
func (s *Stack) folder(name string) (string, error) {
	dir := filepath.Join(s.Folder, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("stack: %w", err)
	}
	return dir, nil
}

// run starts a server unless it runs, and waits until it is ready.
func (s *Stack) run(ctx context.Context, p *Process, name string, ready func(address string) bool, program func(dir, address string) []string) error {
	if p.Runs() {
		return nil
	}
	dir, err := s.folder(name)
	if err != nil {
		return err
	}
	at, err := address(*p)
	if err != nil {
		return err
	}
	words := program(dir, at)
	if *p, err = start(name, dir, at, words[0], words[1:]...); err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	if !wait(ctx, startTimeout, func() bool { return !p.Runs() || ready(at) }) || !p.Runs() {
		return fmt.Errorf("stack: %s does not answer at %s; %s says why", name, at, filepath.Join(dir, name+".log"))
	}
	return nil
}

// StartNATS starts the NATS server with JetStream, if it doesn't run.
func (s *Stack) StartNATS(ctx context.Context) error {
	binary, err := natsServer(ctx, s.log)
	if err != nil {
		return err
	}
	return s.run(ctx, &s.NATS, "nats", listens, func(dir, at string) []string {
		return []string{binary, "--addr", "127.0.0.1", "--port", port(at), "--jetstream", "--store_dir", dir}
	})
}

// StartRedis starts the Redis server, if it doesn't run. It never evicts keys, and writes each second's changes to its
// append-only file.
func (s *Stack) StartRedis(ctx context.Context) error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("stack: redis-server is not installed: apt-get install redis-server (Debian, Ubuntu) or brew install redis (macOS)")
	}
	return s.run(ctx, &s.Redis, "redis", pong, func(dir, at string) []string {
		return []string{binary, "--bind", "127.0.0.1", "--port", port(at), "--dir", dir, "--appendonly", "yes", "--save", "",
			"--maxmemory-policy", "noeviction", "--daemonize", "no"}
	})
}

// pong asks a Redis whether it is ready: while it loads its file it says that it isn't.
func pong(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 5)
	_, err = io.ReadFull(conn, reply)
	return err == nil && bytes.Equal(reply, []byte("+PONG"))
}

// StartWeaviate starts the Weaviate server, if it doesn't run. The first time on a machine it is built, which takes about
// five minutes.
func (s *Stack) StartWeaviate(ctx context.Context) error {
	if s.Weaviate.Runs() {
		return nil
	}
	dir, err := s.folder("weaviate")
	if err != nil {
		return err
	}
	options := weaviatetest.Options{Folder: dir, Log: s.log, Detached: true}
	if s.Weaviate.Address != "" {
		options.Port, options.GRPCPort = portNumber(s.Weaviate.Address), portNumber(s.GRPC)
	}
	server, err := weaviatetest.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	s.Weaviate = Process{Name: "weaviate", PID: server.PID, Started: startTime(server.PID), Address: server.URL[len("http://"):]}
	s.GRPC = server.GRPC
	return s.save()
}
