package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Scrub takes what was deleted out of every file of the home: words of a corpus's keyword index, the caches beside the database, free
// pages and gaps of pages, and the log. It needs as much room again as the database takes, and that nobody else reads an old state.
func (db *DB) Scrub(ctx context.Context, corpus string) error {
	if _, err := db.Repair(ctx, corpus); err != nil {
		return err
	}
	if err := db.vacuum(ctx); err != nil {
		return fmt.Errorf("sqlite: %s: taking out what was deleted: %w", db.home, plain(err))
	}
	return nil
}

// errRead: somebody reads what the log has replaced.
var errRead = errors.New("another process still reads an old state of it; end that, and do the same again")

func (db *DB) vacuum(ctx context.Context) (err error) {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.active.Done()
	s, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The connection may have been a reader's, and becomes one again. A copy of the whole database is no matter for the memory.
	if err := errors.Join(s.exec("PRAGMA query_only = 0"), s.exec("PRAGMA temp_store = file")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.exec("PRAGMA temp_store = memory")) }()
	if err := retryBusy(ctx, db.writer.timeout, func() error { return s.exec("VACUUM") }); err != nil {
		return err
	}
	deadline := time.Now().Add(db.writer.timeout)
	for {
		var busy, log, done int
		if _, err := s.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &log, &done); err != nil {
			return err
		}
		switch {
		case busy == 0:
			return nil
		case time.Now().After(deadline):
			return errRead
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
