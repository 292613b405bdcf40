package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/aerie-rag/aerie/internal/api"
)

// eventStream is the type of server-sent events.
const eventStream = "text/event-stream"

const eventsText = `Each event is the whole build as it is, named progress, or rest for the last; gone, with a problem, if the build was
replaced or deleted. An event's id tells its content: with it in Last-Event-ID a stream goes on at the next change, on any coordinator. A comment
comes every 15 s when nothing else does. Who reads too slowly is dropped, and comes back in the same way.`

type eventsInput struct {
	BuildPath
	Last string `header:"Last-Event-ID" doc:"id of the last event that was read"`
}

// again is how many milliseconds a client should wait before it comes back.
const again = 2000

func (s *Server) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	first, err := s.service.Build(ctx, in.Corpus, in.Build)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		if first.Resting && in.Last == eventID(first) {
			hc.SetStatus(http.StatusNoContent) // the end was read; by the rules of SSE nobody comes back then
			return
		}
		_, w := humago.Unwrap(hc)
		out := s.eventWriter(w)
		out.raw("retry: %d\n\n", again)
		s.follow(ctx, in, first, out)
	}}, nil
}

// follow sends every change until the build rests or nobody reads any more.
func (s *Server) follow(ctx context.Context, in *eventsInput, b api.Build, out *eventWriter) {
	look := time.NewTicker(s.cfg.Look)
	defer look.Stop()
	last, sent := in.Last, time.Now()
	for out.err == nil {
		switch id := eventID(b); {
		case b.Resting:
			out.event(id, "rest", b)
			return
		case id != last:
			out.event(id, "progress", b)
			last, sent = id, time.Now()
		case time.Since(sent) >= s.cfg.Heartbeat:
			out.raw(": nothing new\n\n")
			sent = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.streams.Done():
			return
		case <-look.C:
		}
		now, err := s.service.Build(ctx, in.Corpus, in.Build)
		switch {
		case err == nil:
			b = now
		case ctx.Err() != nil:
			return
		case api.Judge(err).Status == http.StatusNotFound:
			out.event("gone", "gone", api.ProblemOf(err))
			return
		default: // what can't be read now may be readable again
			s.cfg.Log.Warn("a build could not be looked at", "corpus", in.Corpus, "build", in.Build, "error", err)
		}
	}
}

// eventID tells the content of a build, without what moves by itself.
func eventID(b api.Build) string {
	b.Updated, b.Attached = time.Time{}, false
	var data bytes.Buffer
	if err := writeJSON(&data, b); err != nil {
		panic("a build always encodes: " + err.Error())
	}
	sum := sha256.Sum256(data.Bytes())
	return hex.EncodeToString(sum[:8])
}

// eventWriter writes server-sent events. Its first error sticks: the reader has gone, or is too slow.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
	err     error
}

func (s *Server) eventWriter(w http.ResponseWriter) *eventWriter {
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("X-Accel-Buffering", "no") // proxies that know it pass each event on at once
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w, control: http.NewResponseController(w), slow: s.cfg.Slow}
}

func (e *eventWriter) event(id, name string, v any) {
	var data bytes.Buffer
	if err := writeJSON(&data, v); err != nil {
		panic("what is sent always encodes: " + err.Error())
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	e.raw("%sevent: %s\ndata: %s\n", id, name, data.Bytes()) // the JSON ends with a line end
}

func (e *eventWriter) raw(format string, args ...any) {
	if e.err != nil {
		return
	}
	e.control.SetWriteDeadline(time.Now().Add(e.slow)) // what can't have a deadline has none
	if _, e.err = fmt.Fprintf(e.w, format, args...); e.err == nil {
		e.err = e.control.Flush()
	}
}
