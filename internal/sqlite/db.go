package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
)

// FileName is the name of the database in a home folder.
const FileName = "aerie.db"

// ErrClosed: the DB was closed.
var ErrClosed = errors.New("sqlite: closed")

// Config tunes a DB. The zero value is ready for use.
type Config struct {
	// LockTimeout is how long a change waits for another process's change to end. 0: one minute.
	LockTimeout time.Duration
	// Now tells the time, for leases. Nil: time.Now. Processes that share a home must agree on it.
	Now func() time.Time

	// limits is for tests that would otherwise need many thousand nodes. The zero value: those of defaultLimits.
	limits limits
}

// Validate reports what is wrong with the config.
func (c Config) Validate() error {
	if c.LockTimeout < 0 {
		return fmt.Errorf("sqlite: lock timeout %v is below 0", c.LockTimeout)
	}
	return nil
}

// DB is an open home. Its methods, and those of the ports it gives, may be called from many goroutines.
type DB struct {
	home   string
	now    func() time.Time
	sql    *sql.DB
	writer *writer // nil if the home can only be read
	store  *Store

	mu     sync.Mutex // guards what follows
	idle   []*session
	closed bool
	// active counts reads, so that Close can wait for them.
	active sync.WaitGroup
}

// Open opens the database of a home folder, and creates both if they aren't there. A database that a newer
// program has written is refused.
func Open(home string, cfg Config) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.LockTimeout == 0 {
		cfg.LockTimeout = time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.limits == (limits{}) {
		cfg.limits = defaultLimits
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return nil, fmt.Errorf("sqlite: home %s: %w", home, err)
	}
	path, start := filepath.Join(home, FileName), (*DB).start
	name := dsn(path)
	if readOnly(path) {
		start = (*DB).startReading
		if name, err = readOnlyDSN(path); err != nil {
			return nil, fmt.Errorf("sqlite: %s: %w", path, err)
		}
	} else if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("sqlite: home folder: %w", err)
	}
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db := &DB{home: home, now: cfg.Now, sql: pool}
	db.store = &Store{db: db, limits: cfg.limits, tables: map[int64]*table{}, moved: map[int64]int64{}}
	if err := start(db, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %s: %w", path, err), pool.Close())
	}
	return db, nil
}

// start opens the connection that writes and brings the schema up to date.
func (db *DB) start(cfg Config) error {
	ctx := context.Background()
	var first *session
	err := retryBusy(ctx, cfg.LockTimeout, func() (err error) {
		first, err = db.connect(ctx)
		return err
	})
	if err != nil {
		return plain(err)
	}
	db.writer = newWriter(first, cfg.LockTimeout)
	if err := migrate(ctx, db.writer); err != nil {
		return errors.Join(err, first.close())
	}
	if err := db.store.removeStrays(); err != nil {
		return errors.Join(err, first.close())
	}
	// From here on the writer waits by itself, so that a wait ends with its caller's context.
	if err := first.exec("PRAGMA busy_timeout = 20"); err != nil {
		return errors.Join(err, first.close())
	}
	return nil
}

// dsn names the file and what every connection to it is set to. busy_timeout covers the short waits that no
// transaction of ours can take the blame for, such as recovery after a crash. secure_delete overwrites what was
// deleted, so that a text that somebody had to delete isn't in the file any more.
func dsn(path string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{"_pragma": {
		"busy_timeout(10000)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(0)", "secure_delete(on)",
		"wal_autocheckpoint(4000)", "cache_size(-8000)", "temp_store(memory)",
	}}.Encode()}
	return u.String()
}

// Close ends all use of the home, waits for calls in progress and folds the write-ahead log into the file, if no
// other process has it open.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	idle := db.idle
	db.idle = nil
	db.mu.Unlock()

	db.active.Wait()
	var errs []error
	for _, s := range idle {
		errs = append(errs, s.close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.close())
	}
	errs = append(errs, db.sql.Close())
	return errors.Join(errs...)
}

// begin registers a call, so that Close waits for it.
func (db *DB) begin() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.active.Add(1)
	return nil
}

// read calls fn with a session in a transaction that sees one state of the database.
func (db *DB) read(ctx context.Context, fn func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := db.reader(ctx)
	if err != nil {
		return err
	}
	defer db.active.Done()
	err = s.inTransaction(ctx, fn)
	if err != nil {
		// An interrupted connection may hold a half-read statement; a new one is cheap.
		return errors.Join(plain(err), s.close())
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || len(db.idle) >= 8 {
		return s.close()
	}
	db.idle = append(db.idle, s)
	return nil
}

// reader returns a session that can't write, from the idle ones or a new one, and registers the call.
func (db *DB) reader(ctx context.Context) (*session, error) {
	if err := db.begin(); err != nil {
		return nil, err
	}
	db.mu.Lock()
	if n := len(db.idle); n > 0 {
		s := db.idle[n-1]
		db.idle = db.idle[:n-1]
		db.mu.Unlock()
		return s, nil
	}
	db.mu.Unlock()
	s, err := db.connect(ctx)
	if err == nil {
		if err = s.exec("PRAGMA query_only = 1"); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.close())
	}
	db.active.Done()
	return nil, plain(err)
}

// write calls fn in a transaction; see [writer.do]. A change under a lease ([levels.LeasesOf]) is refused, in that transaction, once
// the lease has been passed on.
func (db *DB) write(ctx context.Context, fn func(*session) error) error {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.active.Done()
	if db.writer == nil {
		return fmt.Errorf("sqlite: %s: the home folder can't be written to: %w", db.home, store.ErrReadOnly)
	}
	leases := levels.LeasesOf(ctx)
	return db.writer.do(ctx, func(s *session) error {
		for _, lease := range leases {
			if err := s.newest(lease); err != nil {
				return err
			}
		}
		return fn(s)
	})
}
