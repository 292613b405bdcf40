package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
)

// Plan implements api.Builds.
func (c *Client) Plan(ctx context.Context, corpus string, full bool) (api.Estimate, error) {
	var estimate api.Estimate
	query := url.Values{}
	if full {
		query.Set("full", "true")
	}
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "plan"), query, nil, &estimate)
	return estimate, err
}

// attempts is how often a start is sent before it counts as failed: with its key it is the same start.
const attempts = 3

// pause is the time between two attempts.
const pause = time.Second

// Start implements api.Builds. Without a key it makes one, so that a lost answer can be asked for again.
func (c *Client) Start(ctx context.Context, corpus string, s api.Start) (api.Build, error) {
	if s.Key == "" {
		s.Key = rand.Text()
	}
	path, body := corpusPath(corpus, "builds"), any(s.BuildRequest)
	if s.Retry {
		path, body = corpusPath(corpus, "retry"), api.RetryRequest{Cause: s.Cause, BuildRequest: s.BuildRequest}
	}
	for attempt := 1; ; attempt++ {
		var b api.Build
		err := c.call(ctx, http.MethodPost, path, nil, body, &b, "Idempotency-Key", s.Key)
		if attempt == attempts || !transient(err) {
			return b, err
		}
		if !wait(ctx, pause) {
			return b, ctx.Err()
		}
	}
}

// transient reports whether an error may pass: there was no answer, or one of something between.
func transient(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Exit == api.ExitUnreachable
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Build implements api.Builds.
func (c *Client) Build(ctx context.Context, corpus, build string) (api.Build, error) {
	var b api.Build
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "builds", build), nil, nil, &b)
	return b, err
}

// Stop implements api.Builds.
func (c *Client) Stop(ctx context.Context, corpus, build string, cancel bool) (api.Build, error) {
	verb := "pause"
	if cancel {
		verb = "cancel"
	}
	var b api.Build
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "builds", build, verb), nil, nil, &b)
	return b, err
}

// Rollback implements api.Builds.
func (c *Client) Rollback(ctx context.Context, corpus string, forward bool) (api.Rolled, error) {
	var out api.Rolled
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "rollback"), nil, api.RollbackRequest{Forward: forward}, &out)
	return out, err
}

// Collect implements api.Builds.
func (c *Client) Collect(ctx context.Context, corpus string) (api.Collected, error) {
	var out api.Collected
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "gc"), nil, nil, &out)
	return out, err
}

// Watch follows a build until it rests, and returns it. on is told of every change. A coordinator that goes away is waited for,
// since another one may take its place.
func (c *Client) Watch(ctx context.Context, corpus, build string, on func(api.Build)) (api.Build, error) {
	last, answered := "", time.Now()
	for {
		b, id, err := c.watch(ctx, corpus, build, last, func(b api.Build) { answered = time.Now(); on(b) })
		if id != "" {
			last = id
		}
		switch {
		case b != nil:
			return *b, nil
		case ctx.Err() != nil:
			return api.Build{}, ctx.Err()
		case err != nil && !transient(err):
			return api.Build{}, err
		case time.Since(answered) > c.cfg.Patience:
			return api.Build{}, c.unreachable(errors.New("the build's events have stopped"))
		}
		if !wait(ctx, pause) {
			return api.Build{}, ctx.Err()
		}
	}
}

// watch reads one stream of events. It returns the build once it rests, and the id of the last event.
func (c *Client) watch(ctx context.Context, corpus, build, last string, on func(api.Build)) (*api.Build, string, error) {
	req, err := c.request(ctx, http.MethodGet, corpusPath(corpus, "builds", build, "events"), nil, nil)
	if err != nil {
		return nil, last, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.send(req)
	if err != nil {
		return nil, last, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		b, err := c.Build(ctx, corpus, build)
		return &b, last, err
	}
	var rest *api.Build
	err = readEvents(res.Body, func(e event) error {
		if e.name == "gone" {
			var p api.Problem
			if err := json.Unmarshal(e.data, &p); err != nil {
				return err
			}
			return p.Err()
		}
		var b api.Build
		if err := json.Unmarshal(e.data, &b); err != nil {
			return err
		}
		last = e.id
		on(b)
		if e.name == "rest" {
			rest = &b
		}
		return nil
	})
	var told *api.Error
	if err != nil && !errors.As(err, &told) {
		err = c.unreachable(err)
	}
	return rest, last, err
}
