package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
)

// pair is a certificate and its key, in files.
type pair struct{ cert, key string }

// sign writes a fresh certificate of this machine into the files.
func (p pair) sign(t *testing.T, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial asks a listener for its certificate.
func serial(t *testing.T, address string, trusted pair) int64 {
	t.Helper()
	roots := x509.NewCertPool()
	data, err := os.ReadFile(trusted.cert)
	if err != nil || !roots.AppendCertsFromPEM(data) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	res, err := client.Get("https://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// TestTLS: a listener with a certificate speaks TLS and nothing else.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	files := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	files.sign(t, 7)
	p := program("127.0.0.1:0", func(ctx context.Context, d *Daemon) error {
		d.Handle(d.Telemetry.Handler())
		d.Log.Info("ready")
		<-ctx.Done()
		return nil
	})
	p.TLS = func(*config.Config) (string, string) { return files.cert, files.key }
	r := start(t, p)
	address, _ := r.line("listening")["address"].(string)
	r.line("ready")
	if got := serial(t, address, files); got != 7 {
		t.Errorf("serial %d", got)
	}
	if status, body := get(t, "http://"+address+"/healthz"); status != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("plain HTTP: %d %s", status, body)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil { // Main has it
		t.Fatal(err)
	}
	r.line("stopped")
	if code := <-r.exit; code != api.ExitDone {
		t.Errorf("exit %d", code)
	}
	p.TLS = func(*config.Config) (string, string) { return files.cert, files.cert }
	bad := start(t, p)
	if line := bad.line("stopped"); !strings.Contains(line["error"].(string), "server.tls_cert") {
		t.Errorf("%v", line)
	}
	if got := <-bad.exit; got != api.ExitUsage {
		t.Errorf("exit %d", got)
	}
}

// TestCertificateAgain: a certificate that is replaced is served from the next connection on; one that can't be read leaves the one of
// before.
func TestCertificateAgain(t *testing.T) {
	dir := t.TempDir()
	files := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	files.sign(t, 1)
	c, err := newCertificate(files.cert, files.key, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	number := func() int64 {
		t.Helper()
		now, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return now.Leaf.SerialNumber.Int64()
	}
	if got := number(); got != 1 {
		t.Errorf("serial %d, want 1", got)
	}
	files.sign(t, 2)
	if got := number(); got != 2 {
		t.Errorf("serial %d, want 2", got)
	}
	if err := os.WriteFile(files.key, []byte("half a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := number(); got != 2 {
		t.Errorf("serial %d, want 2", got)
	}
	files.sign(t, 3)
	if got := number(); got != 3 {
		t.Errorf("serial %d, want 3", got)
	}
}
