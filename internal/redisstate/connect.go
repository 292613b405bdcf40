package redisstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// oldest is the first version of Redis whose scripts may read the clock and then write, with access control.
const oldest = 6

// State is a connection to the Redis of a fleet. Its methods, and those of the ports that it gives, may be called from
// many goroutines.
type State struct {
	cfg     Config
	client  redis.UniversalClient
	scripts scripts

	// pauseHook is called before a call is repeated; nil but in tests.
	pauseHook func()

	closeOnce sync.Once
	closed    chan struct{}

	mu           sync.Mutex
	lastSequence int64
}

// Connect connects to Redis and checks that it is fit: reachable, new enough, and set never to evict keys. It waits
// three seconds at most, or Patience if that is less.
func Connect(ctx context.Context, cfg Config) (*State, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	p, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	options, err := cfg.options(p)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{cfg.Log})
	s := &State{cfg: cfg, scripts: loadScripts(), closed: make(chan struct{})}
	s.cfg.Patience = min(cfg.Patience, 3*time.Second)
	if err := s.connect(ctx, p, options); err != nil {
		if s.client != nil {
			err = errors.Join(err, s.client.Close())
		}
		return nil, err
	}
	s.cfg.Patience = cfg.Patience
	return s, nil
}

// quiet takes what the client library would write to stderr, for every client in the process: each failed dial a line,
// besides the error that it returns.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(ctx context.Context, format string, args ...any) {
	q.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}

// connect finds out what kind of server answers, then opens the client for it.
func (s *State) connect(ctx context.Context, p place, options *redis.UniversalOptions) error {
	if p.master != "" {
		s.client = redis.NewFailoverClient(options.Failover())
		return s.Check(ctx)
	}
	cluster := false
	var err error
	for _, addr := range p.addrs {
		one := *options
		one.Addrs = []string{addr}
		s.client = redis.NewClient(one.Simple())
		var about map[string]string
		if about, err = s.info(ctx, s.client); err == nil {
			cluster = about["redis_mode"] == "cluster"
			break
		}
		if closing := s.client.Close(); closing != nil {
			return errors.Join(err, closing)
		}
		s.client = nil
		if !errors.Is(err, ErrUnavailable) {
			break
		}
	}
	switch {
	case errors.Is(err, ErrUnavailable) && p.tls && errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w; a server that doesn't speak TLS on this port doesn't answer either: is it redis://?", err)
	case errors.Is(err, ErrUnavailable) && !p.tls && errors.Is(err, io.EOF):
		err = fmt.Errorf("%w; a server that speaks TLS on this port hangs up like this: is it rediss://?", err)
	}
	switch {
	case err != nil:
		return fmt.Errorf("redisstate: connect to %s: %w", strings.Join(p.addrs, ","), err)
	case !cluster && len(p.addrs) > 1:
		return fmt.Errorf("redisstate: the URL names %d servers, but they are no Redis Cluster: name one, or a Sentinel's as redis://host:26379,…/name-of-the-master", len(p.addrs))
	case cluster && p.db != 0:
		return fmt.Errorf("redisstate: the URL names database %d, but a Redis Cluster has no other than 0", p.db)
	case cluster:
		if err := s.client.Close(); err != nil {
			return fmt.Errorf("redisstate: %w", err)
		}
		s.client = redis.NewClusterClient(options.Cluster())
	}
	return s.Check(ctx)
}

func (c Config) options(p place) (*redis.UniversalOptions, error) {
	encryption, err := c.tlsConfig(p)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.credentials(p); err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: p.addrs, DB: p.db, MasterName: p.master, TLSConfig: encryption,
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			user, password, err := c.credentials(p)
			if err != nil {
				err = fmt.Errorf("%w: %w", errConfig, err)
			}
			return user, password, err
		},
		// State.try repeats calls, and knows which may be.
		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, PoolTimeout: c.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              c.Connections,
		// Neither is of use here, and both cost a round trip for each connection and a permission.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

// Close closes the connections. Calls under way end with an error.
func (s *State) Close() error {
	var err error
	s.closeOnce.Do(func() {
		close(s.closed)
		err = s.client.Close()
	})
	if err != nil {
		return fmt.Errorf("redisstate: close: %w", err)
	}
	return nil
}

// Check reports whether every server can be reached and is fit. Settings can change under a running fleet, and so can
// the server after a failover.
func (s *State) Check(ctx context.Context) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.check(ctx, s.client)
	}
	// ForEachMaster asks several at a time.
	err := s.try(ctx, func(ctx context.Context) error {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error {
			text, err := one.Info(ctx).Result()
			if err != nil {
				return err
			}
			if err := fit(one.Options().Addr, parseInfo(text)); err != nil {
				return fmt.Errorf("%w: %w", errConfig, err)
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("redisstate: %w", err)
	}
	return nil
}

func (s *State) check(ctx context.Context, client redis.UniversalClient) error {
	about, err := s.info(ctx, client)
	if err == nil {
		addr := "redis"
		if one, ok := client.(*redis.Client); ok {
			addr = one.Options().Addr
		}
		err = fit(addr, about)
	}
	if err != nil {
		return fmt.Errorf("redisstate: %w", err)
	}
	return nil
}

// info asks a server about itself.
func (s *State) info(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	var text string
	err := s.try(ctx, func(ctx context.Context) error {
		var err error
		text, err = client.Info(ctx).Result()
		return err
	})
	return parseInfo(text), err
}

func parseInfo(text string) map[string]string {
	about := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			about[key] = value
		}
	}
	return about
}

// fit reports why a server can't be used.
func fit(addr string, about map[string]string) error {
	if mode := about["redis_mode"]; mode == "sentinel" {
		return fmt.Errorf("%s is a Sentinel: write the name of its master after the address, as in redis://%s/mymaster", addr, addr)
	}
	version := about["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("redis at %s has version %q: %d.0 or newer is needed", addr, version, oldest)
	}
	if policy := about["maxmemory_policy"]; policy != "noeviction" {
		return fmt.Errorf("%w: maxmemory-policy of the server at %s is %q, and a barrier or lease that is evicted would stop builds for no visible reason; "+
			"set it with `redis-cli CONFIG SET maxmemory-policy noeviction`, and in redis.conf or the parameters of a managed server so that it lasts",
			ErrEviction, addr, policy)
	}
	return nil
}
