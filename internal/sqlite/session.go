package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
)

// session is one connection with the statements that were prepared on it. One goroutine uses it at a time.
type session struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	// ctx ends a statement early; a writer's is never done, since half a change is worth nothing.
	ctx context.Context
}

// maxStatements bounds the cache: the names of keyword tables make statements differ between corpora.
const maxStatements = 256

func (db *DB) connect(ctx context.Context) (*session, error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, statements: map[string]*sql.Stmt{}, ctx: context.Background()}, nil
}

func (s *session) close() error {
	s.forget()
	return s.conn.Close()
}

// forget closes all prepared statements.
func (s *session) forget() {
	for _, st := range s.statements {
		st.Close()
	}
	clear(s.statements)
}

func (s *session) prepare(query string) (*sql.Stmt, error) {
	if st := s.statements[query]; st != nil {
		return st, nil
	}
	if len(s.statements) >= maxStatements {
		s.forget()
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%w, in %q", err, query)
	}
	s.statements[query] = st
	return st, nil
}

// exec runs a statement that returns no rows.
func (s *session) exec(query string, args ...any) error {
	_, err := s.change(query, args...)
	return err
}

// change runs a statement and returns the number of rows that it changed.
func (s *session) change(query string, args ...any) (int64, error) {
	st, err := s.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(s.ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads one row into dst, and reports whether there was one.
func (s *session) row(query string, args []any, dst ...any) (bool, error) {
	st, err := s.prepare(query)
	if err != nil {
		return false, err
	}
	switch err := st.QueryRowContext(s.ctx, args...).Scan(dst...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// rows calls fn for each row.
func (s *session) rows(query string, args []any, fn func(scan func(dst ...any) error) error) error {
	st, err := s.prepare(query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(s.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// inTransaction calls fn in a transaction that only reads.
func (s *session) inTransaction(ctx context.Context, fn func(*session) error) (err error) {
	if err := s.exec("BEGIN"); err != nil {
		return err
	}
	s.ctx = ctx
	defer func() {
		s.ctx = context.Background()
		err = errors.Join(err, s.exec("COMMIT"))
	}()
	return fn(s)
}

// isBusy reports whether an error says that another connection holds a lock.
func isBusy(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == codes.SQLITE_BUSY
}

// plain says in words what users meet.
func plain(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_FULL:
		return full(err)
	case codes.SQLITE_IOERR:
		switch e.Code() { // a quota and the limit of a file's size are told in no other way
		case codes.SQLITE_IOERR_WRITE, codes.SQLITE_IOERR_SHMSIZE, codes.SQLITE_IOERR_TRUNCATE, codes.SQLITE_IOERR_FSYNC, codes.SQLITE_IOERR_DIR_FSYNC:
			return full(err)
		}
	case codes.SQLITE_NOTADB:
		return fmt.Errorf("this file is not an aerie database: %w", err)
	case codes.SQLITE_CORRUPT:
		if e.Code() == codes.SQLITE_CORRUPT_VTAB { // the keyword tables are the only ones of that kind
			return fmt.Errorf("%w: %w", store.ErrIndexDamaged, err)
		}
		return fmt.Errorf("the database is damaged; restore it from a copy: %w", err)
	case codes.SQLITE_READONLY:
		return fmt.Errorf("the home folder can't be written to, %w: %w", store.ErrReadOnly, err)
	}
	return err
}

// full is the error of a disk that takes no more.
func full(err error) error {
	return &space.FullError{Where: "the disk of the home folder", Free: "make room on it, or raise the quota", Err: err}
}
