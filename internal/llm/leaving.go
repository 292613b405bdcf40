package llm

import (
	"context"
	"errors"
)

// ErrLeaving: the call only waited, for a limit, for an endpoint that asked for patience or for another try, and whoever wants it
// is leaving. Nothing was sent for it.
var ErrLeaving = errors.New("llm: given back while it waited")

type leavingKey struct{}

// WithLeaving returns a context under which calls that would have to wait end with ErrLeaving from the moment that leaving is
// closed. Calls that are under way, and calls that need not wait, go on: what is paid for is to be used.
func WithLeaving(ctx context.Context, leaving <-chan struct{}) context.Context {
	return context.WithValue(ctx, leavingKey{}, leaving)
}

// Leaving returns the channel of [WithLeaving]; nil, which is never ready, if there is none.
func Leaving(ctx context.Context) <-chan struct{} {
	leaving, _ := ctx.Value(leavingKey{}).(<-chan struct{})
	return leaving
}

// WaitErr returns why a call must not wait any longer: the error of ctx, ErrLeaving, or nil.
func WaitErr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-Leaving(ctx):
		return ErrLeaving
	default:
		return nil
	}
}
