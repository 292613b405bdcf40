package access

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// largest bounds the file.
const largest = 1 << 20

// File is a tokens file that is read again when it has changed.
type File struct {
	path  string
	every time.Duration
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time
	text    string
	failing string // the last failure that was logged
	entries []entry
}

// Open reads a tokens file. A token that is added or taken out later counts within about every, or at once if that is 0. A file that
// can't be read any more, or has a wrong line, leaves the tokens as they were, and log says so.
func Open(path string, every time.Duration, log *slog.Logger) (*File, error) {
	f := &File{path: path, every: every, log: log, read: time.Now()}
	text, err := f.load()
	if err != nil {
		return nil, fmt.Errorf("access: %s: %w", path, err)
	}
	if f.entries, err = parse(text); err != nil {
		return nil, fmt.Errorf("access: %s, %w", path, err)
	}
	f.text = text
	return f, nil
}

// Find returns what the holder of a token may do; ok is false for a token that is none.
func (f *File) Find(token string) (g Grant, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.read) >= f.every {
		f.read = now
		f.again()
	}
	return find(f.entries, token)
}

// again takes the file as it is now.
func (f *File) again() {
	text, err := f.load()
	if err == nil && text == f.text {
		f.failing = ""
		return
	}
	var entries []entry
	if err == nil {
		entries, err = parse(text)
	}
	if err != nil {
		if why := err.Error(); why != f.failing {
			f.failing = why
			f.log.Error("the tokens file can't be taken as it is now, so the tokens are those of before", "file", f.path, "error", err)
		}
		return
	}
	f.text, f.entries, f.failing = text, entries, ""
	f.log.Info("the tokens file has changed", "file", f.path, "tokens", len(entries))
}

// load reads the file. One that others may write to lets them in, so it is refused.
func (f *File) load() (string, error) {
	in, err := os.Open(f.path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o022 != 0 {
		return "", fmt.Errorf("it is %v; it must be a file that only its owner can write to (chmod go-w)", mode)
	}
	data, err := io.ReadAll(io.LimitReader(in, largest+1))
	if err == nil && len(data) > largest {
		err = fmt.Errorf("it is larger than %d bytes", largest)
	}
	return string(data), err
}
