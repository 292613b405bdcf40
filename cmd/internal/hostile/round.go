package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// round is one attack under way.
type round struct {
	*victim
	folder string
	random *rand.Rand

	mu      sync.Mutex
	answers map[int]int // by status; 0: the connection was closed without one
	kinds   map[string]int
	faults  []string
	clients int64 // most bytes that a process that read a file has held
}

func (r *round) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// longest is how long an answer is waited for. What is slow on purpose is dropped by the server long before.
const longest = 2 * time.Minute

// all does so many attacks, one after the other, with slow clients beside them, and in the end large ones all at once.
func (r *round) all(ctx context.Context, count int) {
	var slow sync.WaitGroup
	var large []request
	for i := range count {
		if ctx.Err() != nil || !r.alive() {
			break
		}
		switch kind := r.random.IntN(100); {
		case kind < 12:
			x := drawSlow(r.random)
			slow.Go(func() { r.slowly(ctx, x) })
			r.count(x.name)
		case kind < 30:
			r.file(ctx, i)
		default:
			x := drawRequest(r.random)
			if len(x.body) > 4<<20 && len(large) < 16 {
				large = append(large, x)
			}
			r.measured(x.name, len(x.body), func() { r.send(ctx, x) })
			r.count(x.name)
		}
	}
	slow.Wait()
	var together sync.WaitGroup
	for _, x := range large {
		together.Go(func() { r.send(ctx, x) })
	}
	together.Wait()
	if !r.alive() {
		r.fault("the server has ended")
	}
}

func (r *round) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[name]++
}

// measured holds one attack to its share of the processor; size is its bytes, unpacked.
func (r *round) measured(name string, size int, fn func()) {
	before, err1 := r.cpu()
	fn()
	after, err2 := r.cpu()
	if err := errors.Join(err1, err2); err != nil {
		r.fault("%s: %v", name, err)
	} else if after-before > mostCPU+float64(size)/leastSpeed {
		r.fault("%s of %d bytes took %.1f s of the processor", name, size, after-before)
	}
}

// send sends a request as it was drawn, and takes the answer.
func (r *round) send(ctx context.Context, x request) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
	if err != nil {
		r.fault("%s: %v", x.name, err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(longest))
	go func() { // the server may answer before it has read all, and close
		_, _ = conn.Write(x.head)
		_, _ = conn.Write(x.body)
	}()
	r.answer(x.name, conn)
}

// answer takes what the server says to a connection. That it says nothing and hangs up is as good as 400.
func (r *round) answer(name string, conn net.Conn) {
	status := 0
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case err == nil:
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<20))
		_ = res.Body.Close()
		status = res.StatusCode
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.fault("%s: no answer in %s", name, longest)
	}
	r.mu.Lock()
	r.answers[status]++
	r.mu.Unlock()
	own := status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported // of net/http, to what is no HTTP/1.1
	if status >= 500 && !own || status >= 300 && status < 400 {
		r.fault("%s was answered %d", name, status)
	}
}

// slowly sends a request piece by piece, each after a pause, or doesn't take the answer. The server must end it.
func (r *round) slowly(ctx context.Context, x slow) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
	if err != nil {
		r.fault("%s: %v", x.name, err)
		return
	}
	defer conn.Close()
	began := time.Now()
	_ = conn.SetDeadline(began.Add(longest))
	if x.deaf {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	_, _ = conn.Write(x.head)
	var dripping sync.WaitGroup
	dripping.Go(func() {
		tick := time.NewTicker(x.pause)
		defer tick.Stop()
		for _, b := range x.drip {
			<-tick.C
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	})
	if x.deaf {
		dripping.Wait() // meanwhile nothing is read; then the server has hung up, or had little to say
	}
	r.answer(x.name, conn)
	conn.Close()
	dripping.Wait()
}

// file writes a file as it was drawn and has it ingested by a process of its own.
func (r *round) file(ctx context.Context, i int) {
	name, path, bytes := drawFile(r.random, filepath.Join(r.folder, fmt.Sprintf("f%d", i)))
	r.count(name)
	if path == "" {
		r.fault("%s can't be written", name)
		return
	}
	defer os.Remove(path)
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		r.fault("%s: %v", name, err)
		return
	}
	cmd := exec.CommandContext(ctx, self, "--to", r.address, path)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	r.measured(name, bytes, func() { err = cmd.Run() })
	if err != nil {
		r.fault("%s: the process that read it: %v: %.300s", name, err, said.String())
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory := usage.Maxrss << 10
		r.clients = max(r.clients, memory)
		if memory > mostMemory {
			r.fault("%s: the process that read it took %d MiB", name, memory>>20)
		}
	}
}

// report prints what was done and what came of it.
func (r *round) report(out io.Writer, seed uint64, memory int64) {
	fmt.Fprintf(out, "seed %d: the server took %d MiB at most, a process that reads files %d MiB\n", seed, memory>>20, r.clients>>20)
	for _, status := range slices.Sorted(maps.Keys(r.answers)) {
		what := fmt.Sprint(status)
		if status == 0 {
			what = "hung up on"
		}
		fmt.Fprintf(out, "%6d %s\n", r.answers[status], what)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		fmt.Fprintf(out, "%6d %s\n", r.kinds[kind], kind)
	}
	for _, f := range r.faults {
		fmt.Fprintln(out, "FAULT:", f)
	}
}
