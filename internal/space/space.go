// Package space tells a place that takes no more writes from one that is away: a full disk, a quota or a limit that is reached, a
// memory that is used up. Trying again doesn't help then; making room does.
package space

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// FullError says which place is full, and what to free. It is not the error that a call has met, which it wraps.
type FullError struct {
	Where string // "the disk of the home folder /data/.aerie"
	Free  string // what to do there, as an order: "make room on it"
	Err   error
}

func (e *FullError) Error() string { return fmt.Sprintf("%s is full: %s: %v", e.Where, e.Free, e.Err) }
func (e *FullError) Unwrap() error { return e.Err }

// numbers are the errors of the system that say so: the disk, somebody's share of it, or what one file may hold.
var numbers = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// Is reports whether an error says that a place is full.
func Is(err error) bool {
	var full *FullError
	if errors.As(err, &full) {
		return true
	}
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// Plain is what people are told of an error that says that a place is full: which, and what to do, without what was being done.
func Plain(err error) error {
	var full *FullError
	if errors.As(err, &full) {
		return full
	}
	return err
}

// Told reports whether the words of a server, which has no other way to say so, are those of the system for a full disk.
func Told(words string) bool {
	words = strings.ToLower(words)
	for _, n := range numbers {
		if strings.Contains(words, n.Error()) {
			return true
		}
	}
	return false
}

// Alarm is how the parts of one process tell each other that nothing can be written. Its zero value is ready; a nil one is never
// raised.
type Alarm struct {
	mu  sync.Mutex
	err error
}

// Raise notes the error, and reports whether the alarm was not raised before.
func (a *Alarm) Raise(err error) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	first := a.err == nil
	if first {
		a.err = err
	}
	return first
}

// Err returns what the alarm was raised for; nil if it isn't.
func (a *Alarm) Err() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Clear ends the alarm: somebody says that there is room, or tries.
func (a *Alarm) Clear() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = nil
}
