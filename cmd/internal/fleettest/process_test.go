//go:build stack

package fleettest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a daemon that may be started again and again.
type process struct {
	t       *testing.T
	name    string
	program string
	args    []string
	env     []string
	address string // where it listens
	log     string // path

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// start starts the process.
func (p *process) start() {
	p.t.Helper()
	if err := p.tryStart(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) tryStart() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command(filepath.Join(programs, p.program), p.args...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = log, log, p.env, filepath.Dir(p.log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.mu.Lock()
	p.cmd, p.ended = cmd, ended
	p.mu.Unlock()
	return nil
}

func (p *process) running() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.ended
}

func (p *process) signal(s syscall.Signal) { cmd, _ := p.running(); _ = cmd.Process.Signal(s) }

// kill ends the process as a power cut would.
func (p *process) kill() {
	_, ended := p.running()
	p.signal(syscall.SIGKILL)
	<-ended
}

// exit waits until the process has ended and returns its exit code.
func (p *process) exit(within time.Duration) int {
	p.t.Helper()
	cmd, ended := p.running()
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s has not ended after %v\n%s", p.name, within, p.said())
		return 0
	}
}

// said returns what the process has logged.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// stop ends the process at the end of a test.
func (p *process) stop() {
	cmd, ended := p.running()
	if cmd == nil {
		return
	}
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		p.t.Errorf("%s did not end when it was told to", p.name)
		p.kill()
	}
	if p.t.Failed() {
		p.t.Logf("%s said at last:\n%s", p.name, last(p.said(), 25))
	}
}

func last(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// probe asks /healthz or /readyz and returns the status with the checks; 0 while nobody listens.
func (p *process) probe(path string) (int, map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return 0, nil
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	var answer struct{ Checks map[string]string }
	if json.Unmarshal(body, &answer) != nil {
		return 0, map[string]string{"body": string(body)}
	}
	return res.StatusCode, answer.Checks
}

// untilReady waits until /readyz says yes.
func (p *process) untilReady() {
	p.t.Helper()
	until(p.t, time.Minute, p.name+" is ready", func() (bool, string) {
		status, checks := p.probe("/readyz")
		return status == http.StatusOK, fmt.Sprint(status, checks)
	})
}

// until asks again and again until yes is true. The text tells what is so far, for the failure.
func until(t *testing.T, within time.Duration, what string, ask func() (yes bool, sofar string)) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, sofar := ask()
		if yes {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after %v still not: %s; %s", within, what, sofar)
		case <-tick.C:
		}
	}
}

// throughout holds that nothing is wrong for a while. check tells what is, or nothing.
func throughout(t *testing.T, d time.Duration, check func() (wrong string)) {
	t.Helper()
	end := time.After(d)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if wrong := check(); wrong != "" {
			t.Fatal(wrong)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ran is what a command did.
type ran struct {
	args           []string
	exit           int
	stdout, stderr string
}

func (r ran) String() string {
	return fmt.Sprintf("aerie %s: exit %d\n%s%s", strings.Join(r.args, " "), r.exit, r.stdout, r.stderr)
}

// aerieProcess runs the command line to its end.
func aerieProcess(ctx context.Context, dir string, env []string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "aerie"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
	err := cmd.Run()
	r := ran{args: args, stdout: stdout.String(), stderr: stderr.String(), exit: -1}
	if cmd.ProcessState != nil {
		r.exit = cmd.ProcessState.ExitCode()
	} else {
		r.stderr += err.Error()
	}
	return r
}

// parsed decodes a command's standard output.
func parsed[T any](t *testing.T, r ran) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("%v\n%v", err, r)
	}
	return v
}

// plainEnv is the environment without settings of aerie.
func plainEnv() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "AERIE_") && !strings.HasPrefix(pair, "OTEL_") {
			env = append(env, pair)
		}
	}
	return env
}
