package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/word"
)

// makePrivate makes the folder and the file of a database, for their owner alone. SQLite gives its other files the rights of the
// first. A file that others may read is closed to them; a folder that was there keeps its rights unless it is empty.
func makePrivate(path string) error {
	home := filepath.Dir(path)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if entries, err := os.ReadDir(home); err == nil && len(entries) == 1 {
			_ = os.Chmod(home, 0o700) // ours, or else the rights are its owner's affair
		}
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
			_ = os.Chmod(path+suffix, 0o600)
		}
	}
	return nil
}

// ReadOnly reports whether the home can only be read: every change is then [store.ErrReadOnly].
func (db *DB) ReadOnly() bool { return db.writer == nil }

// readOnly reports whether there is a database that this process can't write to, or whose folder it can't: SQLite's log must be
// made there.
func readOnly(path string) bool {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return false // nothing to read; making it says what is wrong
	}
	return unix.Access(path, unix.W_OK) != nil || unix.Access(filepath.Dir(path), unix.W_OK) != nil
}

// readOnlyDSN names a database for reading alone. If a process that may write has it open, its log is read too. If none has, nobody
// changes the file, and SQLite must be told so: it could not make the files by which it would notice. A log that was left behind,
// and can't be folded in, holds the newest changes; without them the file would be read as it never was.
func readOnlyDSN(path string) (string, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	query := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "foreign_keys(0)", "cache_size(-8000)", "temp_store(memory)"}}
	log, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && log.Size() == 0 {
		query.Set("immutable", "1")
	} else if _, err := os.Stat(path + "-shm"); err != nil {
		return "", fmt.Errorf("%w, and its last changes are not folded in (%s-wal): open it once where it can be written, or copy the folder", store.ErrReadOnly, FileName)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// startReading is start for a home that can't be written to.
func (db *DB) startReading(Config) error {
	s, err := db.connect(context.Background())
	if err != nil {
		return plain(err)
	}
	v, err := version(s)
	old := 0
	if err == nil && v == schemaVersion {
		_, err = s.row("SELECT count(*) FROM collections WHERE segmenter <> ?", []any{word.Version}, &old)
	}
	if err == nil && (v != schemaVersion || old > 0) {
		err = fmt.Errorf("%w, and was made by an older aerie: open it once where it can be written, or copy the folder", store.ErrReadOnly)
	}
	return errors.Join(plain(err), s.close())
}
