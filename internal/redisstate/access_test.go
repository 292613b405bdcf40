//go:build stack

package redisstate

import (
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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/space"
)

// refused checks that a connection is refused for a reason, with words that tell what to do, and at once.
func refused(t *testing.T, cfg Config, want error, words ...string) {
	t.Helper()
	start := time.Now()
	s, err := Connect(t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		t.Errorf("Connect to %s: no error, want %v", cfg.URL, want)
		return
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("Connect: %v, want %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Connect: %v, want that it mentions %q", err, w)
		}
	}
	if took := time.Since(start); took > 2*time.Second && want != ErrUnavailable {
		t.Errorf("Connect took %v to see what no waiting can mend", took)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error tells a password: %v", err)
	}
}

// hibiken/asynq#799: keys are evicted when memory is full, and tasks are lost.
func TestAsynq799EvictionIsRefused(t *testing.T) {
	server := startServer(t)
	raw := server.client(t)
	s := connect(t, Config{URL: server.url()})
	for _, policy := range []string{"allkeys-lru", "volatile-ttl", "volatile-lru", "allkeys-random"} {
		if err := raw.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		refused(t, Config{URL: server.url()}, ErrEviction, policy, "CONFIG SET maxmemory-policy noeviction", server.addr())
		if err := s.Check(t.Context()); !errors.Is(err, ErrEviction) {
			t.Errorf("Check of a server whose policy has become %s: %v, want ErrEviction", policy, err)
		}
	}
	if err := raw.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// TestA18RedisIsFull: a server whose memory is full refuses to write. Nothing is half done, the error tells what to do, at once, and it
// goes on when there is room.
func TestA18RedisIsFull(t *testing.T) {
	server := startServer(t)
	s, raw := connect(t, Config{URL: server.url(), Patience: 100 * time.Millisecond}), server.client(t)
	b := s.Barrier()
	open(t, b, 4)
	if err := raw.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Mark(t.Context(), l1, "digest", done(1)...)
	if !space.Is(err) || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the memory of Redis is full: raise its maxmemory") {
		t.Errorf("Mark: %v, want a full place with what to do", err)
	}
	if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Count(t.Context(), l1); err != nil || got.Done != 0 {
		t.Errorf("counts after a mark that was refused: %+v, %v", got, err)
	}
	if _, err := b.Mark(t.Context(), l1, "digest", done(1)...); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// The rights that the package comment lists are enough for everything, and without one it says which are needed.
func TestAccessControl(t *testing.T) {
	server := startServer(t)
	raw := server.client(t)
	setUser := func(name string, rules ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", name, "reset", "on", ">s3cret%/@:?"}
		for _, r := range rules {
			args = append(args, r)
		}
		if err := raw.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setUser("aerie", strings.Fields(rights)...)
	setUser("reader", "~*", "+@read", "+@connection", "+info")
	setUser("blind", "~*", "+@all", "-info")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret%/@:?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("Contracts", func(t *testing.T) {
		leveltest.Run(t, func(t *testing.T) leveltest.Ports {
			s := connect(t, Config{URL: server.url(), User: "aerie", PasswordFile: file})
			direct := connect(t, Config{URL: server.url()})
			p := ports(t, s)
			p.Advance = func(d time.Duration) { age(t, direct, d) }
			return p
		})
	})
	connect(t, Config{URL: "redis://aerie:s3cret%25%2F%40%3A%3F@" + server.addr()})
	connect(t, Config{URL: server.url(), User: "aerie", Password: "s3cret%/@:?"})
	refused(t, Config{URL: "redis://aerie:s3cret-but-wrong@" + server.addr()}, ErrRefused, "check the user and the password")
	refused(t, Config{URL: server.url(), User: "nobody", Password: "s3cret"}, ErrRefused, "check the user and the password")
	refused(t, Config{URL: server.url(), User: "blind", PasswordFile: file}, ErrRefused, "the user needs")
	refused(t, Config{URL: server.url(), User: "aerie", PasswordFile: file + ".none"}, os.ErrNotExist)

	reader := connect(t, Config{URL: server.url(), User: "reader", PasswordFile: file})
	if err := reader.Barrier().Open(t.Context(), l1, "digest", 1); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "+@scripting") {
		t.Errorf("Open by a user who may only read: %v, want ErrRefused with what is needed", err)
	}

	if err := raw.ConfigSet(t.Context(), "requirepass", "s3cret").Err(); err != nil {
		t.Fatal(err)
	}
	refused(t, Config{URL: server.url()}, ErrRefused, "check the user and the password")
	connect(t, Config{URL: "redis://:s3cret@" + server.addr()})
}

// A password that is changed while the process runs is read anew for the next connection.
func TestPasswordIsChanged(t *testing.T) {
	server := startServer(t)
	raw := server.client(t)
	file := filepath.Join(t.TempDir(), "password")
	set := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := raw.Do(t.Context(), "ACL", "SETUSER", "aerie", "reset", "on", ">"+password, "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	s := connect(t, Config{URL: server.url(), User: "aerie", PasswordFile: file})
	open(t, s.Barrier(), 1)
	set("second") // which breaks the user's connections
	open(t, s.Barrier(), 1)
}

// authority is a certificate authority that a test makes.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.crt and name.key, signed by the authority, or by itself if that is the first.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.path(name+ext), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	ca.issue("server", &x509.Certificate{Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.internal"}})
	ca.issue("other", &x509.Certificate{Subject: pkix.Name{CommonName: "redis"}, DNSNames: []string{"redis.internal"}})
	ca.issue("client", &x509.Certificate{Subject: pkix.Name{CommonName: "aerie"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	encrypted := func(cert string, args ...string) *server {
		port := freePort()
		s := startServer(t, append([]string{
			"--tls-port", strconv.Itoa(port), "--tls-cert-file", ca.path(cert + ".crt"), "--tls-key-file", ca.path(cert + ".key"),
			"--tls-ca-cert-file", ca.path("ca.crt"),
		}, args...)...)
		return &server{port: port, dir: s.dir}
	}
	url := func(s *server) string { return "rediss://" + s.addr() }

	plain := startServer(t)
	own := encrypted("server", "--tls-auth-clients", "no")
	s := connect(t, Config{URL: url(own), CAFile: ca.path("ca.crt")})
	open(t, s.Barrier(), 1)
	refused(t, Config{URL: url(own)}, nil, "authority")
	refused(t, Config{URL: url(own), CAFile: stranger.path("ca.crt")}, nil, "authority")
	refused(t, Config{URL: url(own), CAFile: ca.path("ca.key")}, nil, "holds no PEM certificate")
	refused(t, Config{URL: url(own), CAFile: ca.path("none")}, os.ErrNotExist)
	refused(t, Config{URL: url(plain), CAFile: ca.path("ca.crt"), Patience: 100 * time.Millisecond}, ErrUnavailable, "is it redis://?")
	refused(t, Config{URL: strings.Replace(url(own), "rediss", "redis", 1), Patience: 100 * time.Millisecond}, ErrUnavailable, "is it rediss://?")

	named := encrypted("other", "--tls-auth-clients", "no")
	refused(t, Config{URL: url(named), CAFile: ca.path("ca.crt")}, nil, "for its host")
	connect(t, Config{URL: url(named), CAFile: ca.path("ca.crt"), ServerName: "redis.internal"})

	mutual := encrypted("server", "--tls-auth-clients", "yes")
	connect(t, Config{URL: url(mutual), CAFile: ca.path("ca.crt"), CertFile: ca.path("client.crt"), KeyFile: ca.path("client.key")})
	refused(t, Config{URL: url(mutual), CAFile: ca.path("ca.crt"), Patience: 100 * time.Millisecond}, nil)
	refused(t, Config{URL: url(mutual), CAFile: ca.path("ca.crt"), CertFile: ca.path("client.crt"), KeyFile: ca.path("server.key")}, nil, "certificate of this client")
}
