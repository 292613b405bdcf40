package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
)

// Error is an error with what a person and a program may do about it.
type Error struct {
	Err error
	// Hint is a sentence about what to do; "" if there is nothing to say.
	Hint string
	// Exit is the code that the command line leaves with.
	Exit int
	// Status is that of HTTP.
	Status int
	// Report is what an ingest or a deletion had done before the error; nil for all else.
	Report *IngestReport
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Usagef returns the error of a request that can't be meant: exit 2.
func Usagef(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Exit: ExitUsage, Status: http.StatusUnprocessableEntity}
}

// Missingf returns the error of something that isn't there: exit 1.
func Missingf(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Exit: ExitFailed, Status: http.StatusNotFound}
}

// Conflictf returns the error of what can't be done just now: exit 1.
func Conflictf(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Exit: ExitFailed, Status: http.StatusConflict}
}

// Forbidden returns the error of who has no right to something: exit 2.
func Forbidden(who string) error {
	return &Error{Err: fmt.Errorf("no right to it: %s", who), Exit: ExitUsage, Status: http.StatusForbidden}
}

// Judge turns any error into an Error.
func Judge(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	e = &Error{Err: err, Exit: ExitFailed, Status: http.StatusInternalServerError}
	var wrong interface { // of the configuration
		error
		Advice() string
	}
	var settings interface { // a build or a tree was made with other settings
		error
		Hint() string
	}
	var noWay interface { // what was asked for can't be had here
		error
		Remedy() string
	}
	switch {
	case space.Is(err):
		e.Err = space.Plain(err)
		e.Hint, e.Exit, e.Status = "make room, and give the same command again: it goes on with what is missing", ExitUnreachable, http.StatusInsufficientStorage
	case errors.As(err, &noWay):
		e.Err, e.Hint, e.Status = noWay, noWay.Remedy(), http.StatusConflict
	case errors.As(err, &settings):
		e.Err, e.Hint, e.Exit, e.Status = settings, settings.Hint(), ExitUsage, http.StatusConflict
	case errors.As(err, &wrong):
		e.Hint, e.Exit = wrong.Advice(), ExitUsage
	case errors.Is(err, store.ErrIndexDamaged):
		e.Hint = "aerie repair makes it again from the texts; nothing else is touched"
	case errors.Is(err, store.ErrReadOnly):
		e.Hint, e.Status = "give this user the right to write there, or name a copy with --home", http.StatusConflict
	case errors.Is(err, ErrPinned):
		e.Exit, e.Status = ExitUsage, http.StatusConflict
	case errors.Is(err, ErrUnknown):
		e.Status = http.StatusNotFound
	case errors.Is(err, levels.ErrHeld), errors.Is(err, levels.ErrFenced):
		e.Status = http.StatusConflict
	case errors.Is(err, llm.ErrBudget):
		e.Exit, e.Status = ExitBudget, http.StatusConflict
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, store.ErrUnavailable), errors.Is(err, levels.ErrUnavailable), errors.Is(err, llm.ErrUnreachable):
		e.Exit, e.Status = ExitUnreachable, http.StatusServiceUnavailable
	default:
		return retrieval(e)
	}
	return e
}

// retrieval gives the errors of package retrieve their codes and hints.
func retrieval(e *Error) *Error {
	var usage *retrieve.UsageError
	var unused *retrieve.UnusedError
	var embedder *retrieve.EmbedderError
	switch {
	case errors.As(e.Err, &embedder) && embedder.Pinned == levels.Given:
		e.Exit, e.Status = ExitUsage, http.StatusConflict
		e.Hint = "set embeddings to the model that made them, or ask by keywords alone: --alpha 0"
		e.Err = fmt.Errorf("corpus %s holds vectors of %d numbers that were brought along, but the query's has %d",
			embedder.Corpus, embedder.PinnedWidth, embedder.Width)
	case errors.As(e.Err, &embedder):
		e.Exit, e.Status = ExitUsage, http.StatusConflict
	case errors.As(e.Err, &usage):
		e.Exit, e.Status, e.Hint = ExitUsage, http.StatusUnprocessableEntity, "aerie query --help lists the options"
	case errors.As(e.Err, &unused):
		e.Exit, e.Status, e.Hint = ExitUsage, http.StatusUnprocessableEntity, "leave it out or choose another mode"
	case errors.Is(e.Err, retrieve.ErrUnknown), errors.Is(e.Err, retrieve.ErrEmpty):
		e.Status, e.Hint = http.StatusNotFound, "aerie ingest PATH brings text in; aerie status lists the corpora"
	}
	return e
}

// Problem is an Error on the wire: RFC 9457, with extensions.
type Problem struct {
	Type   string        `json:"type" doc:"always about:blank: the title says it all"`
	Title  string        `json:"title" doc:"the status in words"`
	Status int           `json:"status"`
	Detail string        `json:"detail" doc:"one sentence: what is wrong, and where"`
	Hint   string        `json:"hint" doc:"what to do about it, or empty"`
	Exit   int           `json:"exit" doc:"the code that the command line leaves with: 1 failed, 2 usage, 3 left out, 4 budget, 5 unreachable"`
	Report *IngestReport `json:"report,omitempty" doc:"what an ingest or a deletion had done before the error"`
}

// ProblemOf returns an error as it goes over the wire.
func ProblemOf(err error) *Problem {
	e := Judge(err)
	return &Problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Error(), Hint: e.Hint, Exit: e.Exit, Report: e.Report,
	}
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status of HTTP.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType says how a problem is labeled.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Err returns the error that a problem tells of.
func (p *Problem) Err() *Error {
	e := &Error{Err: errors.New(p.Detail), Hint: p.Hint, Exit: p.Exit, Status: p.Status, Report: p.Report}
	if p.Report != nil && p.Status == http.StatusNotFound {
		e.Err = &unknown{p.Detail}
	}
	return e
}

// unknown is ErrUnknown that has been over the wire.
type unknown struct{ sentence string }

func (u *unknown) Error() string { return u.sentence }
func (u *unknown) Unwrap() error { return ErrUnknown }
