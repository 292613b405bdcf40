package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/weaviate/weaviate-go-client/v4/weaviate/fault"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
)

// Errors beside those of package store.
var (
	// ErrUnavailable: the server was away, or overloaded, for as long as the config's patience.
	ErrUnavailable = store.ErrUnavailable
	// ErrRefused: the server doesn't know the key, or its owner may not do this.
	ErrRefused = errors.New("refused")
	// ErrForeign: a collection with the name that a corpus needs wasn't made by aerie.
	ErrForeign = errors.New("not a collection of aerie's")
	// ErrReadOnly: the server takes no writes, as it does when its disk is nearly full.
	ErrReadOnly = errors.New("read-only")
)

// statusError is an answer of the REST side other than success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.text) }

// The pauses between tries of a call double from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// call tries fn until it succeeds, fails for good, or patience is over. Each try has the config's timeout.
func (s *Store) call(ctx context.Context, what string, fn func(context.Context) error) error {
	return s.callOf(ctx, true, what, fn)
}

// callOf is call, which gives up after one try that takes too long unless patient.
func (s *Store) callOf(ctx context.Context, patient bool, what string, fn func(context.Context) error) error {
	started := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		try, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		err := fn(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err = plain(err); !isTransient(err) {
			return classified(err)
		}
		if !patient && isSlow(err) {
			return err
		}
		if time.Since(started)+pause > s.cfg.Patience {
			return fmt.Errorf("%w for %v: %s: %w", ErrUnavailable, s.cfg.Patience, what, err)
		}
		wait := pause/2 + rand.N(pause/2) // so that a fleet doesn't come back in step
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// plain turns the client library's errors into ours.
func plain(err error) error {
	var client *fault.WeaviateClientError
	if !errors.As(err, &client) {
		return err
	}
	if client.IsUnexpectedStatusCode {
		return &statusError{code: client.StatusCode, text: client.Msg}
	}
	if client.DerivedFromError != nil {
		return client.DerivedFromError
	}
	return err
}

// classified wraps an error that no repeat mends in one of the package's, if one fits.
func classified(err error) error {
	var answer *statusError
	if errors.As(err, &answer) && (answer.code == 401 || answer.code == 403) {
		return fmt.Errorf("%w: check the API key and what its owner may do: %w", ErrRefused, err)
	}
	if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
		return fmt.Errorf("%w: check the API key and what its owner may do: %w", ErrRefused, err)
	}
	if text := err.Error(); strings.Contains(text, "read-only") || strings.Contains(text, "READONLY") {
		return &space.FullError{Where: "the disk of Weaviate", Free: "make room on it and set its shards to READY", Err: fmt.Errorf("%w: %w", ErrReadOnly, err)}
	} else if space.Told(text) {
		return &space.FullError{Where: "the disk of Weaviate", Free: "make room on it", Err: err}
	}
	return err
}

// passing are parts of messages about a state that passes. The server sends most errors as codes.Unknown or 500.
var passing = []string{
	"connection refused", "connection reset", "broken pipe", "context deadline exceeded", "leader not found", "no leader",
	"read replica found", "write replica found", // "no …": the server has just started
	"cannot reach enough replicas", "cannot achieve consistency level", "not enough memory", "too many requests",
	"shard is not ready", "non-existing index", "not yet loaded", "store is not ready", "node is not ready", "shutdown in progress", "already shut",
	"transport is closing", "EOF",
}

// isTransient reports whether a repeat may succeed.
func isTransient(err error) bool {
	var answer *statusError
	if errors.As(err, &answer) {
		switch answer.code {
		case 408, 429, 502, 503, 504:
			return true
		case 500:
			return mentions(err, passing)
		}
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return !mentions(err, []string{"x509:", "tls: "})
	case codes.DeadlineExceeded, codes.Aborted:
		return true
	case codes.ResourceExhausted:
		return !isTooLarge(err)
	case codes.Unknown, codes.Internal, codes.FailedPrecondition:
	default:
		return false
	}
	var network net.Error
	var request *url.Error
	if errors.As(err, &request) && mentions(err, []string{"x509:", "tls: "}) {
		return false
	}
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || mentions(err, passing)
}

// isTooLarge reports whether a gRPC message was above a limit of either side.
func isTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && mentions(err, []string{"larger than max", "message too large"})
}

// isSlow reports whether a try took longer than it may.
func isSlow(err error) bool {
	return status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// isMissing reports whether the server doesn't know the collection, the tenant or a property.
func isMissing(err error) bool {
	return errors.Is(err, errDropped) || err != nil && mentions(err, []string{
		"could not find class", "class not found", "not found in schema", "no such class", "tenant not found", "no such prop", "could not find property",
		"not present in schema",
	})
}

func mentions(err error, parts []string) bool {
	text := err.Error()
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
