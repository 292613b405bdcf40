//go:build stack

package weaviate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
	"github.com/aerie-rag/aerie/internal/weaviate/weaviatetest"
)

// start runs a server of the test's own.
func start(t *testing.T, o weaviatetest.Options) *weaviatetest.Server {
	t.Helper()
	o.Folder = t.TempDir()
	s, err := weaviatetest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// refused checks that a connection fails with an error, and soon.
func refused(t *testing.T, cfg weaviate.Config, want error, words ...string) {
	t.Helper()
	started := time.Now()
	s, err := weaviate.Connect(t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		t.Errorf("Connect succeeded, want an error with %q", words)
		return
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("Connect: %v, want %v", err, want)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Connect: %v, want %q in it", err, word)
		}
	}
	if took := time.Since(started); took > 10*time.Second && !errors.Is(want, weaviate.ErrUnavailable) {
		t.Errorf("Connect took %v to see what no waiting mends", took)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error tells a key: %v", err)
	}
}

// certificate writes a certificate for 127.0.0.1 that signs itself, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "aerie test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
}

// The client library of Weaviate doesn't verify certificates on its gRPC side; here both sides do, and both send the key.
func TestTLSAndKey(t *testing.T) {
	cert, key := certificate(t)
	other, _ := certificate(t)
	s := start(t, weaviatetest.Options{CertFile: cert, KeyFile: key, APIKey: "s3cret"})
	cfg := weaviate.Config{URL: s.URL, GRPC: s.GRPC, CAFile: cert, APIKey: "s3cret"}
	with := func(change func(*weaviate.Config)) weaviate.Config { c := cfg; change(&c); return c }

	n := leaf("d", 0, "encrypted")
	put(t, connect(t, cfg), "tls", n)
	keyPath := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyPath, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, "with the key of a file", each(t, connect(t, with(func(c *weaviate.Config) { c.APIKey, c.APIKeyFile = "", keyPath })), "tls", store.AnyLevel()), []tree.Node{n})
	same(t, "with a token", each(t, connect(t, with(func(c *weaviate.Config) {
		c.APIKey, c.Token = "", func(context.Context) (string, error) { return "s3cret", nil }
	})), "tls", store.AnyLevel()), []tree.Node{n})

	refused(t, with(func(c *weaviate.Config) { c.CAFile = "" }), nil, "certificate")
	refused(t, with(func(c *weaviate.Config) { c.CAFile = other }), nil, "certificate")
	refused(t, with(func(c *weaviate.Config) { c.ServerName = "elsewhere.example" }), nil, "elsewhere.example")
	refused(t, with(func(c *weaviate.Config) { c.APIKey = "" }), weaviate.ErrRefused, "check the API key")
	refused(t, with(func(c *weaviate.Config) { c.APIKey = "s3cret-but-wrong" }), weaviate.ErrRefused, "check the API key")
	refused(t, with(func(c *weaviate.Config) { c.CAFile += ".none" }), os.ErrNotExist)
	refused(t, with(func(c *weaviate.Config) { c.APIKey, c.APIKeyFile = "", keyPath+".none" }), os.ErrNotExist)
	tokenErr := errors.New("the issuer is away")
	refused(t, with(func(c *weaviate.Config) { c.Token = func(context.Context) (string, error) { return "", tokenErr } }), tokenErr)

	// The gRPC side alone must verify too: REST through a certificate that is known, gRPC against one that isn't.
	otherServer := start(t, weaviatetest.Options{CertFile: other, KeyFile: strings.Replace(other, "cert.pem", "key.pem", 1), APIKey: "s3cret"})
	refused(t, with(func(c *weaviate.Config) { c.GRPC = otherServer.GRPC }), nil, "certificate")
}

func TestTenants(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return connect(t, weaviate.Config{Tenant: "a-1", Prefix: "Shared"}) })
	a, b := connect(t, weaviate.Config{Tenant: "a", Prefix: "Shared"}), connect(t, weaviate.Config{Tenant: "b", Prefix: "Shared"})
	n, m := leaf("d", 0, "of a"), leaf("d", 0, "of b")
	put(t, a, "tenants", n)
	same(t, "b before it has a node", each(t, b, "tenants", store.AnyLevel()), []tree.Node{})
	if err := b.Delete(t.Context(), "tenants", []tree.ID{n.ID}); err != nil {
		t.Error(err)
	}
	if err := b.SetLife(t.Context(), "tenants", []tree.ID{n.ID}, 0, 1); err != nil {
		t.Error(err)
	}
	hits, err := b.Keyword(t.Context(), "tenants", store.Query{Text: "of", Limit: 3, Filter: store.AnyLevel()})
	if err != nil || len(hits) > 0 {
		t.Errorf("Keyword of b: %v, %v", hits, err)
	}
	put(t, b, "tenants", m)
	same(t, "a", each(t, a, "tenants", store.AnyLevel()), []tree.Node{n})
	same(t, "b", each(t, b, "tenants", store.AnyLevel()), []tree.Node{m})
	for _, s := range []store.Store{a, b} {
		if err := s.Drop(t.Context(), "tenants"); err != nil {
			t.Fatal(err)
		}
		same(t, "dropped", count(t, s, "tenants", store.AnyLevel()), 0)
	}
	none := connect(t, weaviate.Config{Prefix: "Shared"})
	put(t, a, "tenants", n)
	if _, err := none.Count(t.Context(), "tenants", store.AnyLevel()); err == nil || !strings.Contains(err.Error(), "tenant") {
		t.Errorf("Count without a tenant: %v, want an error that says so", err)
	}
}

func TestConsistencyAndReplicas(t *testing.T) {
	for _, level := range []string{"ONE", "QUORUM", "ALL"} {
		s := connect(t, weaviate.Config{Consistency: level, Replicas: 1, Headers: map[string]string{"X-Gateway": "aerie"}})
		n := leaf("d", 0, "a")
		put(t, s, "consistency", n)
		if err := s.SetLife(t.Context(), "consistency", []tree.ID{n.ID}, 1, 2); err != nil {
			t.Error(err)
		}
		n.Born, n.Died = 1, 2
		same(t, "nodes", each(t, s, "consistency", store.AnyLevel()), []tree.Node{n})
		if err := s.Delete(t.Context(), "consistency", []tree.ID{n.ID}); err != nil {
			t.Error(err)
		}
	}
	// More replicas than servers can't be had; the error must say so and not wait.
	s := connect(t, weaviate.Config{Replicas: 3})
	if err := s.Put(t.Context(), "replicas", []tree.Node{leaf("d", 0, "a")}); err == nil || !strings.Contains(err.Error(), "replic") {
		t.Errorf("Put with three replicas on one server: %v, want an error about replicas", err)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	refused(t, weaviate.Config{URL: "http://127.0.0.1:1", Patience: 300 * time.Millisecond}, weaviate.ErrUnavailable, "127.0.0.1:1")
	refused(t, weaviate.Config{URL: server.URL, GRPC: "127.0.0.1:1", Patience: 300 * time.Millisecond}, weaviate.ErrUnavailable, "gRPC at 127.0.0.1:1")
	// The two sides mixed up.
	refused(t, weaviate.Config{URL: server.URL, GRPC: strings.TrimPrefix(server.URL, "http://"), Patience: 300 * time.Millisecond}, nil, "gRPC at")
}

// A server that is away for a while is waited for, and what was written before it was killed is there.
func TestServerIsKilledAndComesBack(t *testing.T) {
	folder := t.TempDir()
	running, err := weaviatetest.Start(t.Context(), weaviatetest.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, weaviate.Config{URL: running.URL, GRPC: running.GRPC, Patience: 90 * time.Second})
	hasty := connect(t, weaviate.Config{URL: running.URL, GRPC: running.GRPC, Patience: 200 * time.Millisecond})
	a, b := leaf("d", 0, "before"), leaf("d", 1, "while away")
	put(t, s, "killed", a)
	if err := running.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := hasty.Put(t.Context(), "killed", []tree.Node{b}); !errors.Is(err, weaviate.ErrUnavailable) {
		t.Errorf("Put while the server is away: %v, want ErrUnavailable", err)
	}
	if _, err := hasty.Get(t.Context(), "killed", []tree.ID{a.ID}, allFields); !errors.Is(err, weaviate.ErrUnavailable) {
		t.Errorf("Get while the server is away: %v, want ErrUnavailable", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Put(context.Background(), "killed", []tree.Node{b}) }()
	again, err := running.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := <-done; err != nil {
		t.Fatalf("Put that began while the server was away: %v", err)
	}
	same(t, "nodes", each(t, s, "killed", store.AnyLevel()), []tree.Node{a, b})
}
