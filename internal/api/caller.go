package api

import "context"

// Caller is who asks for something.
type Caller struct {
	// Name is that of the token, or of what acts by itself, such as "growth".
	Name string
	// Remote is the address that a request came from; "" if none did.
	Remote string
}

type callerKey struct{}

// WithCaller notes who asks.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who asks; the zero Caller if nobody has noted it.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type corporaKey struct{}

// WithCorpora narrows what who asks may learn of: corpora for which sees is false are as if they weren't there.
func WithCorpora(ctx context.Context, sees func(corpus string) bool) context.Context {
	return context.WithValue(ctx, corporaKey{}, sees)
}

// Sees reports whether who asks may learn of a corpus.
func Sees(ctx context.Context, corpus string) bool {
	sees, ok := ctx.Value(corporaKey{}).(func(string) bool)
	return !ok || sees(corpus)
}
