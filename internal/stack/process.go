package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a server that runs, or that ran, as it is written down in the folder.
type Process struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"` // when, by the kernel's clock: tells the process from a later one with its number
	Address string `json:"address"` // host:port
}

// start runs a program in a session of its own, its output in a log in dir.
func start(name, dir, address, program string, args ...string) (Process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, fmt.Errorf("stack: %s: %w", name, err)
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("stack: %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // so that it doesn't stay a zombie of ours
	p := Process{Name: name, PID: cmd.Process.Pid, Address: address}
	p.Started = startTime(p.PID)
	return p, nil
}

// startTime returns when a process began, in ticks since the machine did, or "" if there is none or it has ended.
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) || isLinux() {
			return ""
		}
		// Without /proc the number alone must do.
		if syscall.Kill(pid, 0) != nil {
			return ""
		}
		return "unknown"
	}
	// The name of the program, in parentheses, may hold anything; what follows it doesn't.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

func isLinux() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// Runs reports whether the process is alive.
func (p Process) Runs() bool { return p.PID > 0 && p.Started != "" && startTime(p.PID) == p.Started }

// Signal sends a signal to the process, if it is alive.
func (p Process) Signal(s syscall.Signal) error {
	if !p.Runs() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stack: %s, pid %d: %w", p.Name, p.PID, err)
	}
	return nil
}

// Stop ends the process, gently first, and waits until it has ended.
func (p Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.gone(ctx, 20*time.Second) {
		return nil
	}
	return p.Kill(ctx)
}

// Kill ends the process as a power cut would, and waits until it has ended.
func (p Process) Kill(ctx context.Context) error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.gone(ctx, 20*time.Second) {
		return fmt.Errorf("stack: %s, pid %d, did not end", p.Name, p.PID)
	}
	return nil
}

func (p Process) gone(ctx context.Context, within time.Duration) bool {
	return wait(ctx, within, func() bool { return !p.Runs() })
}

// wait asks again and again until ready says yes; false if it didn't in time.
func wait(ctx context.Context, within time.Duration, ready func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return ready()
		case <-tick.C:
		}
	}
	return true
}

// listens reports whether something takes connections at an address.
func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// freePort returns a port of the loopback interface that nobody listens at.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("stack: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func port(address string) string {
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		panic("stack: " + address + " is no host:port")
	}
	return p
}

func portNumber(address string) int {
	n, err := strconv.Atoi(port(address))
	if err != nil {
		panic("stack: " + address + " has no port")
	}
	return n
}
