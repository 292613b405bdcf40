package daemon

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is one of files that are read again when they change, so that a new one needs no restart.
type certificate struct {
	cert, key string // files
	every     time.Duration
	log       *slog.Logger

	mu      sync.Mutex
	read    time.Time
	pem     [2][]byte
	failing string // the last failure that was logged
	now     *tls.Certificate
}

// newCertificate reads a certificate. What it can't be replaced with later is passed over, and logged.
func newCertificate(cert, key string, every time.Duration, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, every: every, log: log, read: time.Now()}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("server.tls_cert, server.tls_key: %w", err)
	}
	return c, nil
}

// load takes the files as they are.
func (c *certificate) load() error {
	var pem [2][]byte
	for i, name := range []string{c.cert, c.key} {
		var err error
		if pem[i], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if c.now != nil && bytes.Equal(pem[0], c.pem[0]) && bytes.Equal(pem[1], c.pem[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	if c.now != nil {
		c.log.Info("the listener has a new certificate", "file", c.cert)
	}
	c.pem, c.now = pem, &pair
	return nil
}

// get is for [tls.Config].
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.read) >= c.every {
		c.read = now
		switch err := c.load(); {
		case err == nil:
			c.failing = ""
		case err.Error() != c.failing:
			c.failing = err.Error()
			c.log.Error("the certificate can't be taken as it is now, so it is the one of before", "error", err)
		}
	}
	return c.now, nil
}

// config is that of a listener. HTTP/2 is left out: the bounds on slow and greedy clients are those of connections.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}
