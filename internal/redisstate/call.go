package redisstate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/space"
)

// Errors of a State, besides those of the ports.
var (
	// ErrUnavailable: Redis can't be reached, or can't serve now.
	ErrUnavailable = fmt.Errorf("redis: %w", levels.ErrUnavailable)
	// ErrRefused: Redis refuses the user, the password or a command.
	ErrRefused = errors.New("redis refuses access")
	// ErrEviction: the server may drop keys when its memory is full.
	ErrEviction = errors.New("redis may evict keys")
	// ErrClosed: the State was closed.
	ErrClosed = errors.New("redisstate: closed")
)

// rights are what a user with access control needs.
const rights = "~aerie:* +@read +@write +@scripting +@connection +info +time +cluster|slots +cluster|shards"

const (
	firstPause   = 10 * time.Millisecond // after a try that failed; doubles
	longestPause = time.Second
)

// try makes a call, and again while it fails for a reason that may pass. Every call that is given to it may be made
// twice. Its error is that of ctx, ErrUnavailable, or one that won't pass.
func (s *State) try(ctx context.Context, call func(context.Context) error) error {
	deadline := time.Now().Add(s.cfg.Patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, min(s.cfg.Timeout, time.Until(deadline)))
		err := call(bounded)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return explain(err)
		}
		wait := pause/2 + rand.N(pause/2) // so that a fleet doesn't come back in step
		if time.Now().Add(wait).After(deadline) {
			return fmt.Errorf("%w: %w", ErrUnavailable, explain(err))
		}
		if s.pauseHook != nil {
			s.pauseHook()
		}
		if err := s.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pause waits for a time; it ends early with ctx or the State.
func (s *State) pause(ctx context.Context, d time.Duration) error { return s.rest(ctx, d, nil) }

// hold is pause for a call to a model, which is given back while it only waits.
func (s *State) hold(ctx context.Context, d time.Duration) error {
	if err := llm.WaitErr(ctx); err != nil {
		return err
	}
	return s.rest(ctx, d, llm.Leaving(ctx))
}

func (s *State) rest(ctx context.Context, d time.Duration, leaving <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return ErrClosed
	case <-leaving:
		return llm.ErrLeaving
	case <-timer.C:
		return nil
	}
}

// run calls a script and returns its reply: a word, and what comes after it.
func (s *State) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (reply, error) {
	var start time.Time
	return s.runFrom(ctx, &start, script, keys, args...)
}

// runFrom is run; start is set to the time from before the try that succeeded.
func (s *State) runFrom(ctx context.Context, start *time.Time, script *redis.Script, keys []string, args ...any) (reply, error) {
	var out reply
	err := s.try(ctx, func(ctx context.Context) error {
		*start = time.Now()
		list, err := script.Run(ctx, s.client, keys, args...).Slice()
		out = reply(list)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("redisstate: a script's reply is empty")
	}
	return out, nil
}

// passing reports whether an error may pass by itself: the server is away, starting, or electing a master.
func passing(err error) bool {
	var refused redis.Error
	if errors.As(err, &refused) {
		for _, word := range []string{
			"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "NOREPLICAS", "MOVED", "ASK",
			"UNBLOCKED", "max number of clients",
		} {
			if redis.HasErrorPrefix(refused, word) {
				return true
			}
		}
		return false
	}
	return !errors.Is(err, redis.ErrClosed) && !wrongTLS(err) && !errors.Is(err, errConfig)
}

// errConfig marks an error of this side, which no further try will mend.
var errConfig = errors.New("this process's configuration")

func wrongTLS(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &verify) ||
		errors.As(err, &record) || errors.As(err, &alert)
}

// explain says what to do about an error, where that isn't plain.
func explain(err error) error {
	var refused redis.Error
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, redis.ErrClosed):
		return ErrClosed
	case errors.As(err, &record):
		return fmt.Errorf("%w; the server doesn't speak TLS on this port: write redis:// or give its TLS port", err)
	case wrongTLS(err):
		return fmt.Errorf("%w; the server's certificate must be for its host and signed by an authority that is known here", err)
	case !errors.As(err, &refused):
		return err
	case has(refused, "NOAUTH", "WRONGPASS", "ERR AUTH", "ERR Client sent AUTH", "invalid password", "invalid username"):
		return fmt.Errorf("%w: %w; check the user and the password", ErrRefused, err)
	case has(refused, "NOPERM"):
		return fmt.Errorf("%w: %w; the user needs %s", ErrRefused, err, rights)
	case has(refused, "OOM"):
		return &space.FullError{Where: "the memory of Redis", Free: "raise its maxmemory, or take away what else is kept there", Err: err}
	case has(refused, "MISCONF"):
		return &space.FullError{Where: "the disk of Redis", Free: "make room on it, so that it can save again", Err: err}
	}
	return err
}

func has(err redis.Error, beginnings ...string) bool {
	text := strings.TrimPrefix(err.Error(), "ERR ")
	for _, b := range beginnings {
		if strings.HasPrefix(text, strings.TrimPrefix(b, "ERR ")) {
			return true
		}
	}
	return false
}
