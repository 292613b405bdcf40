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
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/printable"
)

// endpoint sends requests to one OpenAI-compatible server. It makes no second try of its own.
type endpoint struct {
	url     *url.URL
	name    string // for people: without credentials or query
	key     string
	section string // of the configuration, such as "summaries", for messages
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

func newEndpoint(section, base, key string, timeout time.Duration, limit int64, transport http.RoundTripper) (*endpoint, error) {
	u, err := parseBase(section, base)
	if err != nil {
		return nil, err
	}
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64 // a worker has many calls under way to one host
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		transport = t
	}
	return &endpoint{
		url: u, name: u.Scheme + "://" + u.Host + u.Path, key: key, section: section, timeout: timeout, limit: limit,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
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
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "aerie")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
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
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &dns), errors.As(err, &cert), errors.As(err, &unknown):
		out.Kind = Unreachable
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"):
		out.Kind = Unreachable
	default:
		out.Sent = true
	}
	return out
}

// scrub drops the wrapper that repeats the URL, which may hold credentials or a key in its query.
func (e *endpoint) scrub(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
