package service

import (
	"context"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
)

// patience is how long what a person waits for goes on before somebody asks whether the servers that it needs are there, and reachWait
// for how long that is asked.
const (
	patience  = 1500 * time.Millisecond
	reachWait = 2 * time.Second
	awayWait  = time.Second
)

// Server is one that answers depend on.
type Server int

// The servers.
const (
	ServerStore Server = iota
	ServerState
	ServerQueue
)

// away tells of the servers that a status is answered without: of the queue, which it doesn't need and builds do. It asks for at most
// awayWait.
func (s *Service) away(ctx context.Context) []string {
	said := []string{}
	if s.deps.Reach == nil {
		return said
	}
	ctx, cancel := context.WithTimeout(ctx, awayWait)
	defer cancel()
	if err := s.deps.Reach(ctx, ServerQueue); err != nil {
		e := api.Judge(err)
		said = append(said, e.Error()+"; builds wait for it: "+e.Hint)
	}
	return said
}

// within does what a person waits for. Where that takes a while, it is asked whether the servers can be reached, and if one can't, its
// error is the answer, instead of that of whatever waits for the server with more patience.
func within[T any](ctx context.Context, s *Service, needs []Server, do func(context.Context) (T, error)) (T, error) {
	if s.deps.Reach == nil {
		return do(ctx)
	}
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		value, err := do(ctx)
		done <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-timer.C:
		}
		asked, end := context.WithTimeout(ctx, reachWait)
		err := s.deps.Reach(asked, needs...)
		end()
		if err != nil && ctx.Err() == nil {
			cancel()
			<-done // it ends with its context
			var none T
			return none, err
		}
		timer.Reset(10 * time.Second)
	}
}
