package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aerie-rag/aerie/internal/space"
)

// openTimeout bounds the start of the embedded server: recovery of a large store reads all of it.
const openTimeout = 2 * time.Minute

// Embedded starts a NATS server in this process with its files in dir, which is made if it isn't there. The
// server listens on no port. One process at a time can use a dir; another gets a *LockedError.
func Embedded(dir string, cfg Config) (*Conn, error) {
	cfg.Replicas = 1
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = 15 * time.Second
	}
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsqueue: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	c, err := openEmbedded(dir, cfg, unlock)
	if err != nil {
		if space.Told(err.Error()) {
			err = &space.FullError{Where: "the disk of the queue in " + dir, Free: "make room on it", Err: err}
		}
		return nil, errors.Join(err, unlock())
	}
	return c, nil
}

func openEmbedded(dir string, cfg Config, unlock func() error) (*Conn, error) {
	_, err := os.Stat(storeDir(dir))
	fresh := errors.Is(err, fs.ErrNotExist)
	log := &serverLog{slog: cfg.Logger}
	s, err := startServer(dir, cfg, log)
	if err != nil {
		return nil, err
	}
	stop := func() error {
		s.Shutdown()
		s.WaitForShutdown()
		return unlock()
	}
	end := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	c, err := newConn("", cfg, stop, nats.InProcessServer(s))
	if err != nil {
		end()
		return nil, err
	}
	c.home, c.noSpace = dir, log.noSpace
	log.whenFull(c.underway.sever) // no answer comes any more
	if err := prepare(c, s, fresh); err != nil {
		c.nats.Close()
		end()
		return nil, fmt.Errorf("natsqueue: open %s: %w", dir, errors.Join(err, log.fatal()))
	}
	return c, nil
}

// prepare makes the streams what they should be, and their files durable if they are new.
func prepare(c *Conn, s *server.Server, fresh bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	c.dir = filepath.Join(s.StoreDir(), server.DEFAULT_GLOBAL_ACCOUNT, "streams")
	files := newFlusher(c.dir)
	if !c.cfg.SyncAlways {
		c.files = files
	}
	if err := c.adopt(ctx); err != nil {
		return err
	}
	if fresh {
		if err := files.flushAll(); err != nil {
			return err
		}
	}
	return nil
}

func storeDir(dir string) string { return filepath.Join(dir, "nats") }

func startServer(dir string, cfg Config, log *serverLog) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName:             "aerie",
		DontListen:             true,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               storeDir(dir),
		SyncAlways:             cfg.SyncAlways,
		SyncInterval:           cfg.SyncInterval,
		JetStreamMaxMemory:     64 << 20, // every stream is on disk
		// The disk is the limit. The server's own default, three quarters of what is free at its start, would
		// refuse work on a nearly full disk although the streams are already there.
		JetStreamMaxStore: 1 << 50,
	})
	if err != nil {
		return nil, fmt.Errorf("natsqueue: embedded server: %w", err)
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	// Start returns when it is through, or at the first fatal error, after which the server is never ready.
	err = log.fatal()
	if err == nil && !s.ReadyForConnections(openTimeout) {
		err = fmt.Errorf("not ready after %v", openTimeout)
	}
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("natsqueue: embedded server in %s did not start: %w", dir, err)
	}
	return s, nil
}

// serverLog passes the embedded server's log on. Notices and warnings are of no use to the user of a command
// line; after a kill the server always has some.
type serverLog struct {
	slog *slog.Logger

	mu    sync.Mutex
	first error  // fatal
	full  error  // of a disk that takes no more
	told  func() // called with the first such error
}

// noSpace returns the first error that says that the disk is full: the server then switches JetStream off, and knows of no stream.
func (l *serverLog) noSpace() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// isFull notes an error that says that the disk is full. It is told of by whoever meets it.
func (l *serverLog) isFull(text string) bool {
	if !space.Told(text) && !strings.Contains(text, "out of File resources") && !strings.Contains(text, "out of resources") && !strings.Contains(text, "out of space") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full == nil {
		l.full = errors.New(text)
		if l.told != nil {
			l.told()
		}
	}
	return true
}

// whenFull sets what is called with the first error that says that the disk is full.
func (l *serverLog) whenFull(told func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = told
}

// fatal returns the first error that the server could not go on after: it reports those only here.
func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = fmt.Errorf(format, v...)
	}
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if l.isFull(text) || l.noSpace() != nil { // what follows is of the same cause
		l.debug("%s", []any{text})
		return
	}
	l.slog.Error("queue: embedded server: " + text)
}

func (l *serverLog) Warnf(format string, v ...any) {
	l.isFull(fmt.Sprintf(format, v...))
	l.debug(format, v)
}

func (l *serverLog) Noticef(format string, v ...any) { l.debug(format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.debug(format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.debug(format, v) }

func (l *serverLog) debug(format string, v []any) {
	if l.slog.Enabled(context.Background(), slog.LevelDebug) {
		l.slog.Debug("queue: embedded server: " + fmt.Sprintf(format, v...))
	}
}
