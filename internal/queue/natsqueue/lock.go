package natsqueue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// ErrLocked: another process uses the directory of an embedded queue. The error is a *LockedError.
var ErrLocked = errors.New("in use by another process")

// LockedError names the process that holds a directory.
type LockedError struct {
	Dir string
	PID int // 0 if it isn't known
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("natsqueue: %s is %v", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("natsqueue: %s is %v (pid %d)", e.Dir, ErrLocked, e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lock takes the directory for this process until unlock; the system takes it back when the process ends,
// however it ends. The holder's number stands in a file of its own, since some systems let nobody read a locked one.
func lock(dir string) (unlock func() error, err error) {
	held, pid := flock.New(filepath.Join(dir, "lock")), filepath.Join(dir, "pid")
	locked, err := held.TryLock()
	if err != nil {
		return nil, fmt.Errorf("natsqueue: lock %s: %w", dir, err)
	}
	if !locked {
		b, err := os.ReadFile(pid)
		number, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || convErr != nil {
			number = 0
		}
		return nil, &LockedError{Dir: dir, PID: number}
	}
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("natsqueue: lock %s: %w", dir, errors.Join(err, held.Unlock()))
	}
	return func() error {
		// The lock file stays: removing it would let a third process lock a new file beside the old one.
		return errors.Join(os.Remove(pid), held.Unlock())
	}, nil
}
