package llm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/aerie-rag/aerie/internal/printable"
)

// endpoint sends requests to one OpenAI-compatible server. It makes no second try of its own.
type endpoint struct {
	url     *url.URL
	name    string // for people: without credentials or query
	key     string
	header  http.Header // of every request
	section string      // of the configuration, such as "summaries", for messages
	timeout time.Duration
	client  *http.Client
	limit   int64 // bytes of a response
}

// parseBase reads a base URL: http or https, with or without a slash at the end. Without a path, /v1 is meant.
func parseBase(section, base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s.base_url is %q: it must be an address such as http://127.0.0.1:8000/v1", section, printable.URL(base))
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.Path = strings.TrimSuffix(u.Path, "/chat/completions")
	u.Path = strings.TrimSuffix(u.Path, "/embeddings")
	if u.Path == "" {
		u.Path = "/v1"
	}
	return u, nil
}

// endpointConfig is what newEndpoint needs to know.
type endpointConfig struct {
	section, base, key string
	timeout            time.Duration
	limit              int64 // bytes of a response
	caFile             string
	headers            map[string]string
	transport          http.RoundTripper // nil: one that verifies TLS
}

func newEndpoint(c endpointConfig) (*endpoint, error) {
	u, err := parseBase(c.section, c.base)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"aerie"}}
	for name, value := range c.headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("%s.headers holds %q, which can't be sent: names are letters, digits and dashes, values one line", c.section, name)
		}
		header.Set(name, value)
	}
	if c.key != "" {
		header.Set("Authorization", "Bearer "+c.key)
	}
	if c.transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64 // a worker has many calls under way to one host
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if c.caFile != "" {
			if t.TLSClientConfig.RootCAs, err = authorities(c.section, c.caFile); err != nil {
				return nil, err
			}
		}
		c.transport = t
	}
	return &endpoint{
		url: u, name: u.Scheme + "://" + u.Host + u.Path, key: c.key, header: header, section: c.section, timeout: c.timeout, limit: c.limit,
		client: &http.Client{
			Transport:     c.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// authorities returns those of the machine, and those in a file.
func authorities(section, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s.ca_file: %w", section, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s.ca_file: %s holds no certificate in PEM", section, file)
	}
	return pool, nil
}

// post sends a JSON body and returns the body of a reply with status 200. Any other reply is an *Error; so is a broken
// connection. When ctx has ended, its error is returned as it is.
func (e *endpoint) post(ctx context.Context, path string, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("llm: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	to := *e.url
	to.Path += path
	req, err := http.NewRequestWithContext(call, http.MethodPost, to.String(), bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("llm: %w", e.scrub(err))
	}
	req.Header = e.header.Clone()
	req.Header.Set("Accept", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		return nil, e.broken(ctx, call, err)
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, e.limit+1))
	if err != nil {
		return nil, e.broken(ctx, call, err)
	}
	if int64(len(reply)) > e.limit {
		return nil, &Error{Kind: Transient, Endpoint: e.name, Status: res.StatusCode, Message: fmt.Sprintf("the reply is larger than %d MB", e.limit>>20)}
	}
	if res.StatusCode != http.StatusOK {
		return nil, e.refused(res.StatusCode, res.Header, reply)
	}
	return reply, nil
}

// refused is the error for a reply that reports one, whatever its status.
func (e *endpoint) refused(status int, header http.Header, body []byte) *Error {
	err := classify(status, header, body, time.Now())
	err.Endpoint = e.name
	if e.key != "" {
		err.Message = strings.ReplaceAll(err.Message, e.key, "***")
	}
	switch {
	case err.Kind == Auth && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		err.Message += fmt.Sprintf("; check %s.api_key (or AERIE_%s_API_KEY)", e.section, strings.ToUpper(strings.ReplaceAll(e.section, ".", "_")))
	case err.Kind == Auth:
		err.Message += fmt.Sprintf("; check %s.base_url and %s.model", e.section, e.section)
	}
	return err
}

// notJSON is the error for a reply that can't be read.
func (e *endpoint) notJSON(body []byte, why string) *Error {
	msg := why + ": " + oneLine(string(body[:min(len(body), 120)]))
	if e.key != "" {
		msg = strings.ReplaceAll(msg, e.key, "***")
	}
	return &Error{Kind: Transient, Endpoint: e.name, Status: http.StatusOK, Message: msg}
}

// broken is the error for a call that got no reply.
func (e *endpoint) broken(ctx, call context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &Error{Kind: Transient, Endpoint: e.name, Err: e.scrub(err)}
	if call.Err() != nil {
		out.Sent, out.TimedOut = true, true
		out.Message = fmt.Sprintf("no answer within %s (%s.timeout)", e.timeout, e.section)
		return out
	}
	out.Message = oneLine(out.Err.Error())
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case e.distrusted(out):
	case errors.As(err, &dns):
		out.Kind = Unreachable
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"):
		out.Kind = Unreachable
	default:
		out.Sent = true
	}
	return out
}

// distrusted reports whether TLS failed in a way that waiting won't mend, and then says what to do.
func (e *endpoint) distrusted(out *Error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(out.Err, &cert):
		out.Message += fmt.Sprintf("; if it is yours, name its authority in %s.ca_file", e.section)
	case errors.As(out.Err, &record), strings.Contains(out.Message, "server gave HTTP response to HTTPS client"):
		out.Message = fmt.Sprintf("it doesn't speak TLS: write http:// for https:// in %s.base_url, or ask its TLS port", e.section)
	default:
		return false
	}
	out.Kind = Auth
	return true
}

// scrub drops the wrapper that repeats the URL, which may hold credentials or a key in its query.
func (e *endpoint) scrub(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
