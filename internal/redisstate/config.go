package redisstate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config says where Redis is and how it is spoken to.
type Config struct {
	// URL is redis://[user[:password]@]host[:port][/database], or rediss:// for TLS. Several servers of one Redis
	// Cluster may be given as host:port,host:port; one is enough, since it names the others. Sentinels are
	// given as host:26379,host:26379/name-of-the-master. Required.
	URL string
	// User and Password win over those of the URL.
	User, Password string
	// PasswordFile names a file that holds the password. It is read for each new connection, so that a password can
	// be changed under a running process. It wins over Password.
	PasswordFile string

	// CAFile names a PEM file with the certificates that the server's may be signed by, instead of the system's. Only
	// with rediss.
	CAFile string
	// CertFile and KeyFile name PEM files of this client's certificate and key, for servers that ask for one. Both or
	// none, only with rediss.
	CertFile, KeyFile string
	// ServerName is what the server's certificate must be for, if that isn't the host of the URL. Only with rediss.
	ServerName string

	// Prefix begins every key, before a colon. Empty: "aerie".
	Prefix string
	// Timeout bounds one try of a call. 0: 2 s.
	Timeout time.Duration
	// Patience is how long a call is repeated while Redis is away; then it fails with ErrUnavailable. 0: 15 s.
	Patience time.Duration
	// BarrierTTL is how long a barrier lives after its last mark. 0: 14 days.
	BarrierTTL time.Duration
	// Connections to a server at a time. 0: 16.
	Connections int

	// Log receives warnings. Nil: slog.Default().
	Log *slog.Logger
}

const (
	defaultTimeout     = 2 * time.Second
	defaultPatience    = 15 * time.Second
	defaultBarrierTTL  = 14 * 24 * time.Hour
	defaultConnections = 16
	// remembered is how long a call is known by its key, for repeats. A repeat comes within Patience.
	remembered = 10 * time.Minute
)

// Validate reports what is wrong with the config. It doesn't look at files.
func (c Config) Validate() error {
	place, err := parseURL(c.URL)
	if err != nil {
		return err
	}
	switch {
	case !place.tls && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.ServerName != ""):
		return errors.New("redisstate: certificates are given, but the URL begins with redis://, which is not encrypted: write rediss://")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("redisstate: a client's certificate and its key must be given together")
	case strings.ContainsAny(c.Prefix, "{}"):
		return fmt.Errorf("redisstate: the key prefix %q must not contain braces", c.Prefix)
	case c.Timeout < 0 || c.Patience < 0 || c.BarrierTTL < 0:
		return fmt.Errorf("redisstate: timeout %v, patience %v and barrier TTL %v must not be below 0", c.Timeout, c.Patience, c.BarrierTTL)
	case c.BarrierTTL > 0 && c.BarrierTTL < time.Minute:
		return fmt.Errorf("redisstate: barrier TTL %v is below one minute, less than a level takes", c.BarrierTTL)
	case c.Patience > remembered/2:
		return fmt.Errorf("redisstate: patience %v must be at most %v, since repeats are not known for longer", c.Patience, remembered/2)
	case c.Connections < 0:
		return fmt.Errorf("redisstate: %d connections are below 0", c.Connections)
	}
	return nil
}

// filled returns the config with defaults in place of zeros.
func (c Config) filled() Config {
	if c.Prefix == "" {
		c.Prefix = "aerie"
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.BarrierTTL == 0 {
		c.BarrierTTL = defaultBarrierTTL
	}
	if c.Connections == 0 {
		c.Connections = defaultConnections
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// place is a parsed URL.
type place struct {
	tls            bool
	user, password string
	addrs          []string // host:port
	db             int
	master         string // of the Sentinels at addrs
}

// parseURL reads a URL. Its errors don't repeat the text, which may hold a password.
func parseURL(text string) (place, error) {
	var p place
	scheme, rest, ok := strings.Cut(text, "://")
	switch scheme = strings.ToLower(scheme); {
	case text == "":
		return p, errors.New("redisstate: the URL is missing; it looks like redis://host:6379")
	case !ok || scheme != "redis" && scheme != "rediss":
		return p, errors.New("redisstate: the URL must begin with redis:// or, for TLS, rediss://")
	}
	p.tls = scheme == "rediss"
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest, "?#") {
		return p, errors.New("redisstate: the URL takes no options after ? or #; escape these characters in a password as %3F and %23")
	}
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var errs [2]error
		p.user, errs[0] = url.PathUnescape(user)
		p.password, errs[1] = url.PathUnescape(password)
		if errs[0] != nil || errs[1] != nil {
			return p, errors.New("redisstate: user or password of the URL has a % that begins no escape; write %25 for a percent sign")
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := parseHost(strings.TrimSpace(host))
		if err != nil {
			return p, err
		}
		p.addrs = append(p.addrs, addr)
	}
	if path = strings.Trim(path, "/"); path != "" {
		n, err := strconv.Atoi(path)
		switch {
		case err != nil && !strings.ContainsAny(path, "/%"):
			p.master = path
		case err != nil || n < 0:
			return p, fmt.Errorf("redisstate: %q after the host is neither the number of a database nor the name of a Sentinel's master", path)
		}
		p.db = max(n, 0)
	}
	return p, nil
}

// parseHost returns host:port of a host that may lack its port.
func parseHost(text string) (string, error) {
	u, err := url.Parse("redis://" + text)
	bare := err == nil && strings.Contains(u.Hostname(), ":") && text[0] != '[' // an IPv6 address without brackets
	if err != nil || bare || u.Hostname() == "" || u.Host != text {
		return "", errors.New("redisstate: the host is missing or no host:port; the URL looks like redis://host:6379")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("redisstate: port %s is not from 1 to 65535", port)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// tlsConfig reads the certificates; nil for a connection that isn't encrypted.
func (c Config) tlsConfig(p place) (*tls.Config, error) {
	if !p.tls {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redisstate: certificates of the authority: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisstate: %s holds no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redisstate: certificate of this client: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// credentials returns user and password.
func (c Config) credentials(p place) (user, password string, err error) {
	user, password = p.user, p.password
	if c.User != "" {
		user = c.User
	}
	if c.Password != "" {
		password = c.Password
	}
	if c.PasswordFile != "" {
		text, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return "", "", fmt.Errorf("redisstate: password: %w", err)
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	return user, password, nil
}
