package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestA26ServersAway: a command that somebody waits for answers within five seconds, with one sentence and a hint, when the servers of a
// fleet aren't there, or take connections and say nothing.
func TestA26ServersAway(t *testing.T) {
	fresh(t)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for at, cause := range map[string]string{gone.Addr().String(): "connection refused", mute.Addr().String(): "no answer in time"} {
		places := []string{"--queue.url=nats://" + at, "--state.url=redis://" + at, "--store.url=http://" + at, "--store.grpc_url=" + at}
		for _, line := range []string{"query x", "ask x", "status", "tree", "workers", "dead"} {
			begun := time.Now()
			r := aerie(t, append(strings.Fields(line), places...)...).want(t, exitUnreachable)
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s: it took %v", line, took)
			}
			want := "aerie: Weaviate at http://" + at + " can't be reached: " + cause + "\n  start it, or set store.url (AERIE_STORE_URL) to where it listens\n"
			if r.stderr != want || r.stdout != "" {
				t.Errorf("%s says\n%s%s\nwant\n%s", line, r.stdout, r.stderr, want)
			}
		}
	}
}
