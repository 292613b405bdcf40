package natsqueue

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// wantWorks sends one task through.
func wantWorks(t *testing.T, url string, cfg Config) {
	t.Helper()
	c, err := Connect(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, c, queuetest.Tasks("corpus", "build", 1, 1)...)
	done(t, receive(t, c))
}

// wantRefused accepts a refusal at once, or by the end of the connection: the client can't know in advance whether the
// server will change its mind.
func wantRefused(t *testing.T, url string, cfg Config) {
	t.Helper()
	c, err := Connect(url, cfg)
	if err == nil {
		defer c.Close()
		err = c.Check(t.Context())
	}
	wantUnavailable(t, "check", err)
	if !errors.Is(err, nats.ErrAuthorization) && (c == nil || !errors.Is(c.Err(), nats.ErrAuthorization)) {
		t.Errorf("got error %v, want one that says why", err)
	}
}

func TestServerWithNKey(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, fmt.Sprintf("authorization { users: [ { nkey: %s } ] }", public))
	wantWorks(t, p.url(), Config{NKeySeedFile: file})
	wantRefused(t, p.url(), Config{})
}

func TestServerWithPassword(t *testing.T) {
	t.Parallel()
	p := startProcess(t, `authorization { user: "aerie", password: "p w" }`)
	wantWorks(t, "nats://aerie:p%20w@"+p.address, Config{})
	wantRefused(t, "nats://aerie:wrong@"+p.address, Config{})
}

func TestServerWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir)
	p := startProcess(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q }", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	wantWorks(t, p.url(), Config{TLS: &tls.Config{RootCAs: pool}})
	c, err := Connect(p.url(), Config{}) // doesn't know the certificate
	if err == nil {
		defer c.Close()
		err = c.Check(t.Context())
	}
	if err == nil {
		t.Error("a server with an unknown certificate: got no error")
	}
}

// certificate writes a self-signed one for 127.0.0.1 and returns a pool that trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "aerie test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// TestWorkerNeedsFewRights: a worker's account may neither create nor delete streams and consumers.
func TestWorkerNeedsFewRights(t *testing.T) {
	t.Parallel()
	p := startProcess(t, `authorization { users: [
	{ user: admin, password: pw }
	{ user: worker, password: pw, permissions: {
		subscribe: "_INBOX.worker.>"
		publish: { allow: [
			"$JS.API.CONSUMER.MSG.NEXT.AERIE_TASKS.workers", "$JS.ACK.AERIE_TASKS.workers.>"
			"$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.AERIE_TASKS.workers", "$JS.API.STREAM.MSG.GET.*"
			"$JS.API.STREAM.PURGE.KV_AERIE_ATTEMPTS"
			"aerie.dead.>", "$KV.AERIE_JOURNAL.>", "$KV.AERIE_ATTEMPTS.>"
		] }
	} }
] }`)
	admin, err := Connect("nats://admin:pw@"+p.address, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	plan := planOf("corpus", "build", 1, 4)
	putPlan(t, admin, plan)
	publish(t, admin, queuetest.Tasks("corpus", "build", 1, 4)...)

	worker, err := Connect("nats://worker:pw@"+p.address, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	if err := worker.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPlan(t, worker, plan)
	task := queuetest.Tasks("corpus", "build", 1, 1)[0]
	if _, err := worker.Journal().Begin(t.Context(), "build", task.ID); err != nil {
		t.Error(err)
	}
	if err := worker.Journal().Forget(t.Context(), "build", task.ID); err != nil {
		t.Error(err)
	}
	for _, settle := range []func(queue.Delivery) error{
		func(d queue.Delivery) error { return errors.Join(d.Extend(t.Context()), d.Done(t.Context())) },
		func(d queue.Delivery) error { return d.Bury(t.Context(), "refused", "no") },
		func(d queue.Delivery) error { return d.Retry(t.Context(), 0) },
	} {
		if err := settle(receive(t, worker)); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the server refuses without a word to the caller
	defer cancel()
	if err := worker.Queue().Publish(ctx, []queue.Task{task}); err == nil {
		t.Error("a worker without the right published a task")
	}
}

// TestDamagedStoreOpens: a queue whose files were damaged opens with what is left. The rest is made again from
// plans and nodes.
func TestDamagedStoreOpens(t *testing.T) {
	t.Parallel()
	tasks := queuetest.Tasks("corpus", "build", 1, 10)
	for name, damage := range map[string]func(stream string) error{
		"without description": func(stream string) error { return os.Remove(filepath.Join(stream, "meta.inf")) },
		"without consumer":    func(stream string) error { return os.RemoveAll(filepath.Join(stream, "obs")) },
		"without messages":    func(stream string) error { return os.Remove(filepath.Join(stream, "msgs", "1.blk")) },
		"with garbage": func(stream string) error {
			return os.WriteFile(filepath.Join(stream, "msgs", "1.blk"), []byte("garbage"), 0o600)
		},
		"cut off": func(stream string) error { return os.Truncate(filepath.Join(stream, "msgs", "1.blk"), 500) },
	} {
		dir := t.TempDir()
		c := embedded(t, dir)
		publish(t, c, tasks...)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage(filepath.Join(dir, "nats", "jetstream", "$G", "streams", tasksStream)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c = embedded(t, dir)
		publish(t, c, tasks...)
		if got := queued(t, c, tasks[0].Of()); len(got) != len(tasks) {
			t.Errorf("%s: %d tasks are queued after they were published again, want %d", name, len(got), len(tasks))
		}
		for range tasks {
			done(t, receive(t, c))
		}
	}
}
