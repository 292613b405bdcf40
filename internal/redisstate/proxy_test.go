//go:build stack

package redisstate

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and a server, and loses replies: the server has done what it was asked, and the
// connection breaks before the client hears of it.
type proxy struct {
	t        *testing.T
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	lose  func(request []byte) bool // nil: nothing
	lost  int
	conns map[net.Conn]bool
	ended bool
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listener: listener, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

// losing makes the proxy lose the reply to each request for which lose is true.
func (p *proxy) losing(lose func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// everyScript returns a function that is true for the call of a script, once in n.
func everyScript(n int) func([]byte) bool {
	seen := 0
	return func(request []byte) bool {
		if !bytes.Contains(bytes.ToLower(request), []byte("evalsha")) {
			return false
		}
		seen++
		return seen%n == 0
	}
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		var once sync.Once
		end := func() {
			once.Do(func() { _ = client.Close(); _ = server.Close() })
		}
		doomed := make(chan bool, 1) // whether the reply that comes next is lost
		p.wg.Go(func() { p.requests(client, server, doomed); end() })
		p.wg.Go(func() { p.replies(client, server, doomed); end() })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.ended {
			_ = c.Close()
		}
		p.conns[c] = true
	}
	return !p.ended
}

// requests passes on what the client sends. A request of these tests arrives in one piece, or begins with one that
// tells what it is.
func (p *proxy) requests(client io.Reader, server io.Writer, doomed chan bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			p.mu.Lock()
			if p.lose != nil && p.lose(buf[:n]) {
				select {
				case doomed <- true:
					p.lost++
				default:
				}
			}
			p.mu.Unlock()
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) replies(client io.Writer, server io.Reader, doomed chan bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		select {
		case <-doomed:
			return // the reply is here, so the effect is; nobody hears of it
		default:
		}
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) stop() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cut()
	p.wg.Wait()
}
