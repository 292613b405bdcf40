package queue

import "fmt"

// PermanentError marks a task that no further attempt can save.
type PermanentError struct {
	Cause string // one word, for grouping
	Err   error
}

func (e *PermanentError) Error() string { return fmt.Sprintf("%s: %v", e.Cause, e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent returns err marked: the task is buried under the cause.
func Permanent(cause string, err error) error { return &PermanentError{Cause: cause, Err: err} }
