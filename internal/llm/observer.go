package llm

import "context"

// Observer is told of each request to a model as it is sent, second tries and throttled ones included. It must not
// block.
type Observer interface {
	// Calling is told of a request that goes out, after it has waited for its limits. The request is made under the
	// context that it returns, and done is called once, with the tokens that it took (0 where nobody knows) and how
	// it ended.
	Calling(ctx context.Context) (under context.Context, done func(used Need, err error))
}

// unobserved is the Observer of those who have none.
type unobserved struct{}

func (unobserved) Calling(ctx context.Context) (context.Context, func(Need, error)) {
	return ctx, func(Need, error) {}
}
