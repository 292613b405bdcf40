package weaviatetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Options say how a server is started.
type Options struct {
	// Folder holds the server's data and its log. Required; it must exist.
	Folder string
	// Port and GRPCPort are those of the two sides; 0 takes free ones.
	Port, GRPCPort int
	// APIKey, if not empty, is what every request must carry. Otherwise everybody may do everything.
	APIKey string
	// CertFile and KeyFile, if not empty, are PEM files for TLS on both sides.
	CertFile, KeyFile string
	// Env holds further variables, such as "USE_BLOCKMAX_WAND=true"; they win over ours.
	Env []string
	// Log receives what a build of the server says. Nil discards it.
	Log io.Writer
	// Detached lets the server outlive this process, in a session of its own: a Ctrl-C here doesn't reach it.
	Detached bool
}

// Server is a Weaviate that runs on this machine.
type Server struct {
	URL  string // http://127.0.0.1:port, or https://
	GRPC string // 127.0.0.1:port
	PID  int

	options Options
	client  *http.Client
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // of the process; read after ended
}

const (
	startupTime = 3 * time.Minute
	stopTime    = 20 * time.Second
	// portTries is how often other ports are taken if some program was quicker.
	portTries = 3
)

// Start runs a server and waits until it is ready.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	binary, err := Build(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := launch(ctx, binary, o)
		if err == nil || try == portTries || ctx.Err() != nil {
			return s, err
		}
	}
}

func launch(ctx context.Context, binary string, o Options) (*Server, error) {
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	if o.Port == 0 {
		o.Port = ports[4]
	}
	if o.GRPCPort == 0 {
		o.GRPCPort = ports[5]
	}
	s := &Server{
		URL: fmt.Sprintf("http://127.0.0.1:%d", o.Port), GRPC: fmt.Sprintf("127.0.0.1:%d", o.GRPCPort),
		options: o, client: &http.Client{Timeout: 5 * time.Second}, ended: make(chan struct{}),
	}
	args := []string{"--host", "127.0.0.1", "--port", strconv.Itoa(o.Port), "--scheme", "http"}
	if o.CertFile != "" {
		s.URL = fmt.Sprintf("https://127.0.0.1:%d", o.Port)
		args = []string{
			"--scheme", "https", "--tls-host", "127.0.0.1", "--tls-port", strconv.Itoa(o.Port),
			"--tls-certificate", o.CertFile, "--tls-key", o.KeyFile,
		}
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("weaviatetest: %w", err)
	}
	defer log.Close() // the process has its own copy
	s.cmd = exec.Command(binary, args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = o.Folder, log, log
	s.cmd.Env = append(os.Environ(), environment(o, ports)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: o.Detached}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("weaviatetest: %w", err)
	}
	s.PID = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// environment returns what makes a server of one node that behaves the same everywhere.
func environment(o Options, ports []int) []string {
	env := []string{
		"PERSISTENCE_DATA_PATH=" + filepath.Join(o.Folder, "data"),
		"GRPC_PORT=" + strconv.Itoa(o.GRPCPort),
		"CLUSTER_HOSTNAME=node1",
		"CLUSTER_ADVERTISE_ADDR=127.0.0.1", // an IPv6 address of the machine would end it
		"CLUSTER_GOSSIP_BIND_PORT=" + strconv.Itoa(ports[0]),
		"CLUSTER_DATA_BIND_PORT=" + strconv.Itoa(ports[1]),
		"RAFT_PORT=" + strconv.Itoa(ports[2]),
		"RAFT_INTERNAL_RPC_PORT=" + strconv.Itoa(ports[3]),
		"RAFT_JOIN=node1:" + strconv.Itoa(ports[2]),
		"RAFT_BOOTSTRAP_EXPECT=1",
		"DEFAULT_VECTORIZER_MODULE=none",
		"AUTOSCHEMA_ENABLED=false",
		"DISABLE_GRAPHQL=true",
		"DISABLE_TELEMETRY=true",
		"GO_PROFILING_DISABLE=true",
		"LOG_LEVEL=warning",
		// Its newer keyword index loses rare words that were just written (weaviate/weaviate#11780).
		"USE_BLOCKMAX_WAND=false",
		"USE_INVERTED_SEARCHABLE=false",
		// A nearly full disk of the machine must not fail tests that write some megabytes.
		"DISK_USE_WARNING_PERCENTAGE=98",
		"DISK_USE_READONLY_PERCENTAGE=99",
	}
	if o.APIKey == "" {
		env = append(env, "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=true")
	} else {
		env = append(env, "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=false", "AUTHENTICATION_APIKEY_ENABLED=true",
			"AUTHENTICATION_APIKEY_ALLOWED_KEYS="+o.APIKey, "AUTHENTICATION_APIKEY_USERS=aerie")
	}
	if o.CertFile != "" {
		env = append(env, "GRPC_CERT_FILE="+o.CertFile, "GRPC_KEY_FILE="+o.KeyFile)
	}
	return append(env, o.Env...)
}

// waitReady waits until the server takes requests.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.isReady(ctx) {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("weaviatetest: the server ended while it started: %w\n%s", s.err, s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("weaviatetest: the server is not ready: %w\n%s", ctx.Err(), s.logTail())
		case <-tick.C:
		}
	}
}

func (s *Server) isReady(ctx context.Context) bool {
	if s.options.CertFile != "" { // its certificate is the test's own; a connection shows that it listens
		return listens(s.GRPC) && listens(fmt.Sprintf("127.0.0.1:%d", s.options.Port))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/.well-known/ready", nil)
	if err != nil {
		return false
	}
	reply, err := s.client.Do(request)
	if err != nil {
		return false
	}
	_ = reply.Body.Close()
	return reply.StatusCode == http.StatusOK && listens(s.GRPC)
}

func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Stop ends the server, gently first, and waits for its end.
func (s *Server) Stop() error {
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("weaviatetest: %w", err)
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopTime):
		return s.Kill()
	}
}

// Kill ends the server as a power cut would.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("weaviatetest: %w", err)
	}
	<-s.ended
	return nil
}

// Restart starts a server that was ended, on the same ports and data.
func (s *Server) Restart(ctx context.Context) (*Server, error) {
	o := s.options
	return Start(ctx, o)
}

func (s *Server) logFile() string { return filepath.Join(s.options.Folder, "weaviate.log") }

// logTail returns the end of the server's log.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	const most = 4000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(bytes.TrimSpace(text))
}

// freePorts returns ports of the loopback interface that nobody listens at.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("weaviatetest: %w", err)
		}
		defer l.Close() // all are held until all are known, so that none comes twice
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
