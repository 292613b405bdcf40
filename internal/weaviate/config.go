package weaviate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config says where Weaviate is and how nodes are laid out in it.
type Config struct {
	// URL is http://host:port or https://host:port of the REST side. Without a port 8080, or 443 with https. Required.
	URL string
	// GRPC is host:port of the gRPC side, optionally after grpc:// or grpcs:// (TLS). Empty: the host of URL, at port
	// 50051, or 443 with https. Without a scheme it uses TLS if URL is https.
	GRPC string

	// CAFile names a PEM file with the certificates that the server's may be signed by, instead of the system's. Only
	// with TLS.
	CAFile string
	// CertFile and KeyFile name PEM files of this client's certificate and key, for servers that ask for one. Both or
	// none, only with TLS.
	CertFile, KeyFile string
	// ServerName is what the server's certificate must be for, if that isn't the host. Only with TLS.
	ServerName string

	// APIKey is sent with each request, on both sides.
	APIKey string
	// APIKeyFile names a file that holds the key. It is read anew at least every minute, so that a key can be changed
	// under a running process. It wins over APIKey.
	APIKeyFile string
	// Token returns a bearer token, such as one of OIDC; it is asked before each request and has to cache by itself. It
	// wins over APIKey and APIKeyFile.
	Token func(context.Context) (string, error)
	// Headers are sent with each request, on both sides, for gateways that want them.
	Headers map[string]string

	// Prefix begins the name of each collection: a capital letter, then letters and digits. Empty: "Aerie".
	Prefix string
	// Tenant, if not empty, makes the collections multi-tenant and works within this tenant: 1 to 64 letters, digits,
	// "-" or "_". The tenants of a corpus share its schema and its width.
	Tenant string
	// Replicas is the replication factor of collections that are created. 0: the server's default.
	Replicas int
	// Consistency is ONE, QUORUM or ALL: how many replicas must answer a read or a write. Empty: the server's default,
	// QUORUM.
	Consistency string

	// Compat lists the systems whose property names are written beside ours: "helix", "llama_index".
	Compat []string
	// Metadata, if not empty, lists the only metadata keys that leaves may have.
	Metadata []string
	// MaxMetadata is how many metadata properties a corpus may have, since each costs the server an index. 0: 200.
	MaxMetadata int

	// BatchBytes is the size of a batch that is sent, and of a page that is read. 0: 8 MB; from 64 KB to 64 MB.
	BatchBytes int
	// Writers is how many batches of one Put are under way at a time. 0: 2.
	Writers int
	// Readers is how many pages of one Each are read at a time. 0: 4.
	Readers int
	// SpoolDir is where Each copies what doesn't fit into SpoolBytes of memory. Empty: the system's temporary folder.
	SpoolDir string
	// SpoolBytes is what one Each may hold in memory. 0: 64 MB.
	SpoolBytes int

	// Timeout bounds one try of a call. 0: 60 s.
	Timeout time.Duration
	// Patience is how long a call is repeated while Weaviate is away; then it fails with ErrUnavailable. 0: 30 s.
	Patience time.Duration
}

// Systems whose property names can be written beside ours.
const (
	Helix      = "helix"
	LlamaIndex = "llama_index"
)

var (
	prefixPattern = regexp.MustCompile(`^[A-Z][0-9A-Za-z]{0,31}$`)
	tenantPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
)

// Validate reports what is wrong with the config. It doesn't look at files.
func (c Config) Validate() error {
	place, err := c.place()
	if err != nil {
		return err
	}
	c = c.filled()
	certificates := c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.ServerName != ""
	switch {
	case certificates && !place.tls && !place.grpcTLS:
		return errors.New("weaviate: certificates are given, but the URL begins with http://, which is not encrypted: write https://")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("weaviate: a client's certificate and its key must be given together")
	case !prefixPattern.MatchString(c.Prefix):
		return fmt.Errorf("weaviate: the prefix %q must be a capital letter and up to 31 letters (a-z, A-Z) or digits", c.Prefix)
	case c.Tenant != "" && !tenantPattern.MatchString(c.Tenant):
		return fmt.Errorf(`weaviate: the tenant %q must be 1 to 64 letters (a-z, A-Z), digits, "-" or "_"`, c.Tenant)
	case c.Replicas < 0:
		return fmt.Errorf("weaviate: the replication factor %d is below 0", c.Replicas)
	case c.Consistency != "" && consistencyLevels[c.Consistency] == 0:
		return fmt.Errorf("weaviate: the consistency level %q must be ONE, QUORUM or ALL", c.Consistency)
	case c.MaxMetadata < 0 || c.MaxMetadata > 1000:
		return fmt.Errorf("weaviate: the number of metadata properties %d must be from 1 to 1000", c.MaxMetadata)
	case c.BatchBytes < 64<<10 || c.BatchBytes > 64<<20:
		return fmt.Errorf("weaviate: the batch size %d must be from 65536 to 67108864 bytes", c.BatchBytes)
	case c.Writers < 0 || c.Writers > 64:
		return fmt.Errorf("weaviate: %d writers must be from 1 to 64", c.Writers)
	case c.Readers < 0 || c.Readers > 64:
		return fmt.Errorf("weaviate: %d readers must be from 1 to 64", c.Readers)
	case c.SpoolBytes < 0:
		return fmt.Errorf("weaviate: the memory of a spool, %d bytes, is below 0", c.SpoolBytes)
	case c.Timeout < 0 || c.Patience < 0:
		return fmt.Errorf("weaviate: timeout %v and patience %v must not be below 0", c.Timeout, c.Patience)
	}
	for _, name := range c.Compat {
		if name != Helix && name != LlamaIndex {
			return fmt.Errorf("weaviate: compat %q is not known; it may be %s or %s", name, Helix, LlamaIndex)
		}
	}
	return nil
}

// filled returns the config with defaults in place of zeros.
func (c Config) filled() Config {
	orInt := func(v *int, fallback int) {
		if *v == 0 {
			*v = fallback
		}
	}
	if c.Prefix == "" {
		c.Prefix = "Aerie"
	}
	orInt(&c.MaxMetadata, 200)
	orInt(&c.BatchBytes, 8<<20)
	orInt(&c.Writers, 2)
	orInt(&c.Readers, 4)
	orInt(&c.SpoolBytes, 64<<20)
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	return c
}

func (c Config) compat(system string) bool { return slices.Contains(c.Compat, system) }

// place is where the two sides of a server listen.
type place struct {
	tls     bool
	host    string // host:port of REST
	grpcTLS bool
	grpc    string // host:port
}

// place reads URL and GRPC. Its errors don't repeat the URL, which may hold a password.
func (c Config) place() (place, error) {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return place{}, errors.New("weaviate: the URL is missing; it looks like http://host:8080")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return place{}, errors.New("weaviate: the URL must look like http://host:8080 or https://host")
	case u.User != nil:
		return place{}, errors.New("weaviate: the URL takes no user and password; give an API key")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return place{}, errors.New("weaviate: the URL ends with the port; Weaviate has no path before its /v1")
	}
	p := place{tls: u.Scheme == "https"}
	p.host = hostPort(u, map[bool]string{false: "8080", true: "443"}[p.tls])
	p.grpcTLS = p.tls
	if c.GRPC == "" {
		p.grpc = net.JoinHostPort(u.Hostname(), map[bool]string{false: "50051", true: "443"}[p.tls])
		return p, nil
	}
	text := c.GRPC
	switch scheme, rest, ok := strings.Cut(text, "://"); {
	case !ok:
	case scheme == "grpcs" || scheme == "https":
		p.grpcTLS, text = true, rest
	case scheme == "grpc" || scheme == "http":
		p.grpcTLS, text = false, rest
	default:
		return place{}, fmt.Errorf("weaviate: the gRPC address %q must be host:port, after grpc:// or grpcs:// if it differs from the URL in using TLS", c.GRPC)
	}
	g, err := url.Parse("grpc://" + text)
	if err != nil || g.Hostname() == "" || g.Port() == "" || g.Host != text {
		return place{}, fmt.Errorf("weaviate: the gRPC address %q must be host:port, such as localhost:50051", c.GRPC)
	}
	p.grpc = g.Host
	return p, nil
}

func hostPort(u *url.URL, fallback string) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), fallback)
}

// tlsConfig reads the certificates.
func (c Config) tlsConfig() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("weaviate: certificates of the authority: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("weaviate: %s holds no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("weaviate: certificate of this client: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
