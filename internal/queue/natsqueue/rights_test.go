package natsqueue

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// TestA22InboxByUser: answers go where the rights of one user alone reach.
func TestA22InboxByUser(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	creds := file + ".creds"
	text := "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	if err := errors.Join(os.WriteFile(file, seed, 0o600), os.WriteFile(creds, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url  string
		cfg  Config
		want string
	}{
		{"nats://h:4222", Config{}, "_INBOX"},
		{"nats://worker:pw@h:4222", Config{}, "_INBOX.worker"},
		{"nats://a:1, nats://worker:pw@b:2", Config{}, "_INBOX.worker"},
		{"nats://sometoken@h", Config{}, "_INBOX"}, // no user, and nothing to show
		{"nats://h", Config{NKeySeedFile: file}, "_INBOX." + public},
		{"nats://worker:pw@h", Config{CredentialsFile: creds}, "_INBOX." + public},
	} {
		if got, err := inboxPrefix(c.url, c.cfg); got != c.want || err != nil {
			t.Errorf("%s %+v: %q, %v; want %q", c.url, c.cfg, got, err, c.want)
		}
	}
	if got, err := inboxPrefix("nats://a.b*%3E:pw@h", Config{}); err != nil || strings.ContainsAny(strings.TrimPrefix(got, "_INBOX."), ".*> ") {
		t.Errorf("a name that is no token: %q, %v", got, err)
	}
}

// TestA22Flush: a server that confirms before it flushes is refused at the start, if it may be asked.
func TestA22Flush(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		always   bool
		replicas int
		want     string
	}{"every write": {true, 1, ""}, "now and then": {false, 1, "sync_interval: always"}} {
		s, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), SyncAlways: c.always,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		defer s.WaitForShutdown()
		defer s.Shutdown()
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("the server doesn't start")
		}
		conn, err := Connect(s.ClientURL(), Config{MonitorURL: "http://" + s.MonitorAddr().String(), Replicas: c.replicas, CallTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.Migrate(t.Context())
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := conn.Check(t.Context()); (err == nil) != (c.want == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	c := &Conn{cfg: Config{MonitorURL: other.URL + "/?token=secret"}.withDefaults()}
	if err := c.checkFlush(t.Context()); err == nil || !strings.Contains(err.Error(), "queue.monitor_url") {
		t.Errorf("something else: %v", err)
	}
}

// TestA31Traceparent: the headers of a trace are found in any case, and as a server with message tracing renames them.
func TestA31Traceparent(t *testing.T) {
	const span, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-01"
	for name, c := range map[string]struct {
		header nats.Header
		want   map[string]string
	}{
		"as sent":            {nats.Header{"traceparent": {span}, "tracestate": {"a=b"}}, map[string]string{"traceparent": span, "tracestate": "a=b"}},
		"canonical":          {nats.Header{"Traceparent": {span}, "Tracestate": {"a=b"}}, map[string]string{"traceparent": span, "tracestate": "a=b"}},
		"capitals":           {nats.Header{"TRACEPARENT": {span}, "TraceState": {"a=b"}, "BAGGAGE": {"k=v"}}, map[string]string{"traceparent": span, "tracestate": "a=b", "baggage": "k=v"}},
		"renamed":            {nats.Header{"Xraceparent": {span}, "tracestate": {"a=b"}}, map[string]string{"traceparent": span, "tracestate": "a=b"}},
		"renamed, canonical": {nats.Header{"XRaceparent": {span}}, map[string]string{"traceparent": span}},
		"both":               {nats.Header{"Xraceparent": {other}, "traceparent": {span}, "Traceparent": {other}}, map[string]string{"traceparent": span}},
		"strangers":          {nats.Header{"Nats-Trace-Dest": {"trace disabled"}, "Content-Type": {"x"}, "traceparent": {"\u00e9"}}, nil},
		"empty":              {nats.Header{"Traceparent": {}}, nil},
	} {
		if diff := cmp.Diff(c.want, headersOf(&nats.Msg{Header: c.header})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
