package llm

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrUnreachable: no connection to an endpoint could be made. An *Error of kind Unreachable is one.
var ErrUnreachable = errors.New("llm: endpoint can't be reached")

// ErrBudget: the build's budget doesn't allow the call; the build pauses.
var ErrBudget = errors.New("llm: the budget doesn't allow the call")

// Kind says what a caller must do about an Error.
type Kind string

// The kinds.
const (
	// Throttled: the endpoint asks for patience. Wait RetryAfter; it is no failed attempt.
	Throttled Kind = "throttled"
	// Quota: the account has nothing left, and waiting won't help. Stop the build.
	Quota Kind = "quota"
	// Auth: the endpoint refuses the key, the model or the address (401, 403, 404, redirects). Every call would fail
	// like this one; stop the build.
	Auth Kind = "auth"
	// TooLong: the request doesn't fit into the model's window. Ask for less.
	TooLong Kind = "too_long"
	// Invalid: the endpoint refuses this request, whenever it is sent.
	Invalid Kind = "invalid"
	// Transient: the endpoint failed: 5xx, a broken connection, no answer in time, or something that isn't an answer.
	// Trying again may help.
	Transient Kind = "transient"
	// BadAnswer: the model answered, and a check refused the answer; Reason says why. The second try with more output
	// tokens, where that can help, has been made.
	BadAnswer Kind = "bad_answer"
	// Unreachable: no connection could be made: refused, unknown host, a certificate that isn't trusted.
	Unreachable Kind = "unreachable"
)

// Reason says why an answer was refused.
type Reason string

// The reasons.
const (
	Empty         Reason = "empty"
	OnlyReasoning Reason = "only_reasoning"
	CutOff        Reason = "cut_off"
	Refusal       Reason = "refusal"
	Failed        Reason = "failed"      // it ended in another way than answers do: an error, a tool call
	Planning      Reason = "planning"    // what a model says to itself, without a mark
	AsksBack      Reason = "asks_back"   // it asks for the passages
	Loops         Reason = "loops"       // the same over and over
	SameAnswer    Reason = "same_answer" // as to other texts, of which it says little
	BadVectors    Reason = "bad_vectors" // of an embedding endpoint: too few, of another width, not finite, zero
)

// Error is a call that failed. It never holds the API key.
type Error struct {
	Kind     Kind
	Reason   Reason // of BadAnswer
	Endpoint string // its address, without credentials
	Status   int    // of HTTP; 0 if there was none
	Message  string // what the endpoint said, or what is wrong with its answer; one line
	// RetryAfter is how long the endpoint asks to wait; 0 if it doesn't say.
	RetryAfter time.Duration
	// Sent says that the request had been sent when the call failed without an answer: it may have been paid for.
	Sent bool
	// TimedOut says that no answer came within the time that a call may take: another one would be paid for again.
	TimedOut bool
	// Err is the cause, if it is an error of its own.
	Err error

	parameter string // that the endpoint doesn't know, such as max_tokens
	busy      bool   // of Throttled: a server that is overloaded, not a limit of ours
}

// Error says where, what and how to go on.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("llm: ")
	if e.Endpoint != "" {
		fmt.Fprintf(&b, "endpoint %s: ", e.Endpoint)
	}
	switch {
	case e.Kind == BadAnswer:
		b.WriteString("the answer is " + e.Reason.phrase())
	case e.Status != 0:
		fmt.Fprintf(&b, "%d %s", e.Status, strings.ReplaceAll(string(e.Kind), "_", " "))
	default:
		b.WriteString(strings.ReplaceAll(string(e.Kind), "_", " "))
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

func (r Reason) phrase() string {
	switch r {
	case Empty:
		return "empty"
	case OnlyReasoning:
		return "only reasoning"
	case CutOff:
		return "cut off"
	case Refusal:
		return "a refusal"
	case Failed:
		return "not brought to an end"
	case Planning:
		return "what the model says to itself"
	case AsksBack:
		return "a question for the passages"
	case Loops:
		return "the same over and over"
	case SameAnswer:
		return "the same as to other passages"
	default:
		return strings.ReplaceAll(string(r), "_", " ")
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports an error of kind Unreachable as ErrUnreachable.
func (e *Error) Is(target error) bool { return target == ErrUnreachable && e.Kind == Unreachable }

// until returns a throttled call's error with the time until which it is to wait, if the endpoint said one that is far away.
func (e *Error) until(now time.Time) *Error {
	if e.RetryAfter <= longestThrottle {
		return e
	}
	told := *e
	told.Message = strings.TrimSuffix(e.Message, ".") + "; it asks to wait until " + now.Add(e.RetryAfter).Format(time.DateTime)
	return &told
}

// TooLong reports whether less text may help. Package mapreduce asks.
func (e *Error) TooLong() bool { return e.Kind == TooLong }

// Cause is one word for grouping: the reason of a bad answer, else the kind.
func (e *Error) Cause() string {
	if e.Kind == BadAnswer && e.Reason != "" {
		return string(e.Reason)
	}
	return string(e.Kind)
}

// kindOf returns the kind of an error, or "" if it isn't an *Error.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}
