package server

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/semaphore"
)

// room bounds how much of a kind is in hand at once: what comes beyond it waits for a while, and then is told to come again.
type room struct {
	what string // in the plural, for the sentence
	*semaphore.Weighted
}

func newRoom(what string, size int64) *room { return &room{what, semaphore.NewWeighted(size)} }

// enter takes n places, and waits for them until patience ends.
func (r *room) enter(ctx context.Context, n int64, patience time.Duration) (leave func(), err error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.Acquire(within, n); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = tooMany(r.what)
		}
		return nil, err
	}
	return func() { r.Release(n) }, nil
}

// How much is in hand at once. What reads a whole tree or a whole corpus takes memory by its size, an ingest by that of the
// documents that it has in hand, and a JSON body while it is decoded up to thirty times its bytes.
const (
	ingestsAtOnce = 4
	scansAtOnce   = 4
	streamsAtOnce = 256
	othersAtOnce  = 64
	bodiesAtOnce  = 4 // of the largest size
)

// rooms are those of a server.
type rooms struct {
	ingests, scans, streams, others, bodies *room
}

func newRooms(maxBody int64) rooms {
	return rooms{
		ingests: newRoom("ingests", ingestsAtOnce), scans: newRoom("reads of whole trees", scansAtOnce), streams: newRoom("streams of events", streamsAtOnce),
		others: newRoom("requests", othersAtOnce), bodies: newRoom("large bodies", bodiesAtOnce*maxBody),
	}
}

// of returns the room that an operation takes a place in.
func (r *rooms) of(operation string) *room {
	switch operation {
	case "ingest-documents":
		return r.ingests
	case "list-nodes", "show-node", "get-tree", "get-plan", "collect-garbage", "forget-documents":
		return r.scans
	case "watch-build":
		return r.streams
	}
	return r.others
}

// admit lets an operation in when there is room for it and for its body. It is a middleware, so that the place is kept until the
// answer has gone out.
func (s *Server) admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	leave, err := s.rooms.of(ctx.Operation().OperationID).enter(r.Context(), 1, s.cfg.Turn)
	if err != nil {
		writeProblem(w, s.problem(r.Context(), err))
		return
	}
	defer leave()
	if r.ContentLength != 0 && ctx.Operation().OperationID != "ingest-documents" {
		size := r.ContentLength
		if size < 0 || size > s.cfg.MaxBody {
			size = s.cfg.MaxBody
		}
		release, err := s.rooms.bodies.enter(r.Context(), size, s.cfg.Turn)
		if err != nil {
			writeProblem(w, s.problem(r.Context(), err))
			return
		}
		defer release()
	}
	next(ctx)
}
