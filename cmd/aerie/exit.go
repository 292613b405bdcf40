package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/printable"
)

// The exit codes are a contract with scripts.
const (
	exitDone        = api.ExitDone
	exitFailed      = api.ExitFailed
	exitUsage       = api.ExitUsage
	exitLeftOut     = api.ExitLeftOut
	exitBudget      = api.ExitBudget
	exitUnreachable = api.ExitUnreachable
	exitInterrupted = api.ExitInterrupted
)

// errInterrupted is the cause of a context that SIGINT or SIGTERM has ended. It is a context.Canceled, so that whoever
// looks at the cause takes it for the caller's wish.
var errInterrupted error = interruption{}

type interruption struct{}

func (interruption) Error() string        { return "interrupted" }
func (interruption) Is(target error) bool { return target == context.Canceled }

// failure is an error with an exit code and a hint at what to do.
type failure struct {
	err  error // nil: the command has said on stderr what there is to say, and only the code is left
	hint string
	exit int
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef returns the error of a wrong command line.
func usagef(hint, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, exit: exitUsage}
}

// failf returns an error of any other kind with a hint.
func failf(exit int, hint, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, exit: exit}
}

// leave ends a command with a code when its result says everything.
func leave(exit int) error {
	if exit == exitDone {
		return nil
	}
	return &failure{exit: exit}
}

// judge turns any error into a failure.
func judge(ctx context.Context, err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(context.Cause(ctx), errInterrupted) && errors.Is(err, context.Canceled) {
		return &failure{err: errInterrupted, hint: "everything that was finished is kept; run the same command again", exit: exitInterrupted}
	}
	e := api.Judge(err)
	var told *api.Error
	if !errors.As(err, &told) {
		err = e.Err
	}
	return &failure{err: err, hint: e.Hint, exit: e.Exit}
}

// tell writes a failure to stderr: a line of JSON when results are JSON, else a sentence and a hint.
func (f *failure) tell(w io.Writer, asJSON bool) {
	if f.err == nil {
		return
	}
	sentence := strings.TrimSpace(f.err.Error())
	if !asJSON {
		sentence, f.hint = printable.Line(sentence), printable.Line(f.hint)
	}
	if asJSON {
		line, err := json.Marshal(struct {
			Error string `json:"error"`
			Hint  string `json:"hint"`
			Exit  int    `json:"exit"`
		}{sentence, f.hint, f.exit})
		if err != nil {
			panic("texts always encode: " + err.Error())
		}
		fmt.Fprintf(w, "%s\n", line)
		return
	}
	fmt.Fprintf(w, "aerie: %s\n", sentence)
	if f.hint != "" {
		fmt.Fprintf(w, "  %s\n", f.hint)
	}
}
