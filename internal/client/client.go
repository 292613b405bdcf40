// Package client works through a coordinator's HTTP API: it offers the ports of package api again, and its errors leave with
// the exit code and the hint that they have on the other side.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
)

// Config says where a coordinator is.
type Config struct {
	// URL is http(s)://host:port, with a path if the coordinator stands behind one.
	URL string
	// Token is sent as a bearer token; "" sends none.
	Token string
	// CAFile names a PEM file of the authority that an https:// coordinator's certificate is checked against; "" is the system's.
	CAFile string
	// Patience is how long an attached build's events are waited for while the coordinator can't be reached; 0 means a minute.
	Patience time.Duration
}

// Client is a client of one coordinator. Its methods may be called from many goroutines.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
}

var _ api.Service = (*Client)(nil)

// New returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(cfg.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, api.Usagef("", "server.url is %q; it must be http(s)://host:port", cfg.URL)
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = 5 * time.Second
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, api.Usagef("", "server.ca_file can't be read: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, api.Usagef("", "server.ca_file: %s holds no PEM certificate", cfg.CAFile)
		}
	}
	return &Client{cfg: cfg, base: base, http: &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { // a token goes where it was meant for, and nowhere else
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request makes a request; path is a list of segments below /v1.
func (c *Client) request(ctx context.Context, method string, path []string, query url.Values, body io.Reader) (*http.Request, error) {
	u := c.base.JoinPath("v1")
	escaped := make([]string, len(path))
	for i, segment := range path {
		escaped[i] = url.PathEscape(segment)
	}
	u.RawPath = u.EscapedPath() + "/" + strings.Join(escaped, "/")
	u.Path += "/" + strings.Join(path, "/")
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// send sends a request. An answer that is a problem is an error, and so is no answer.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return nil, c.unreachable(err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	var p api.Problem
	if err != nil || json.Unmarshal(data, &p) != nil || p.Detail == "" {
		return nil, c.strange(res)
	}
	return nil, p.Err()
}

// unreachable is the error of no answer.
func (c *Client) unreachable(err error) error {
	var down *url.Error
	if errors.As(err, &down) {
		err = down.Err
	}
	return &api.Error{
		Err:  fmt.Errorf("the coordinator at %s can't be reached: %w", c.base.Redacted(), err),
		Hint: "start it, or set server.url (AERIE_SERVER_URL) to where it listens", Exit: api.ExitUnreachable, Status: http.StatusServiceUnavailable,
	}
}

// strange is the error of an answer that no coordinator gives: something else listens there, or stands between.
func (c *Client) strange(res *http.Response) error {
	exit := api.ExitFailed
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		exit = api.ExitUnreachable
	}
	return &api.Error{
		Err:  fmt.Errorf("%s answered %s, which no coordinator of aerie does", c.base.Redacted(), res.Status),
		Hint: "look at server.url, and at what stands between", Exit: exit, Status: res.StatusCode,
	}
}

// call sends a body as JSON, if there is one, and reads the answer into out.
func (c *Client) call(ctx context.Context, method string, path []string, query url.Values, body, out any, headers ...string) error {
	var src io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		src = bytes.NewReader(data)
	}
	req, err := c.request(ctx, method, path, query, src)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.decode(ctx, res, out)
}

func (c *Client) decode(ctx context.Context, res *http.Response, out any) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return c.strange(res)
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreachable(fmt.Errorf("its answer broke off: %w", err))
	}
	return nil
}

// corpusPath is the path of what a corpus has.
func corpusPath(corpus string, more ...string) []string {
	return append([]string{"corpora", corpus}, more...)
}

// Status implements api.Statuses.
func (c *Client) Status(ctx context.Context, corpus string) (api.Status, error) {
	if corpus == "" {
		var status api.Status
		err := c.call(ctx, http.MethodGet, []string{"status"}, nil, nil, &status)
		return status, err
	}
	status := api.Status{Corpora: make([]api.CorpusStatus, 1)}
	err := c.call(ctx, http.MethodGet, corpusPath(corpus), nil, nil, &status.Corpora[0])
	if err == nil {
		status.Workers, err = c.Workers(ctx)
	}
	return status, err
}

// Workers implements api.Statuses.
func (c *Client) Workers(ctx context.Context) (api.Workers, error) {
	var workers api.Workers
	err := c.call(ctx, http.MethodGet, []string{"workers"}, nil, nil, &workers)
	return workers, err
}

// History implements api.Builds.
func (c *Client) History(ctx context.Context, corpus string) (api.PastBuilds, error) {
	var history api.PastBuilds
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "builds"), nil, nil, &history)
	return history, err
}

// Dead implements api.Statuses.
func (c *Client) Dead(ctx context.Context, corpus string) (api.Dead, error) {
	var dead api.Dead
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "dead"), nil, nil, &dead)
	return dead, err
}
