package server

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/printable"
)

// canonical reports whether a path is its own shortest form, also once it is decoded: whoever stands between a client and the
// coordinator may decode and shorten it, and then DELETE …/documents/.. is one of the corpus.
func canonical(u *url.URL) bool {
	for _, form := range []string{u.EscapedPath(), u.Path} {
		if form != "/" && path.Clean(form) != form || !strings.HasPrefix(form, "/") {
			return false
		}
	}
	return utf8.ValidString(u.Path) && !strings.ContainsFunc(u.Path, unicode.IsControl)
}

// door is what every request passes on its way in, whatever it is for: its path must be canonical, its answer has a deadline for
// each piece, it is counted, and a handler that panics takes nobody along.
func (s *Server) door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w := &patientWriter{ResponseWriter: out, control: http.NewResponseController(out), slow: s.cfg.Slow}
		body := &patientBody{readCloser: r.Body, control: w.control, idle: s.cfg.BodyIdle, rate: s.cfg.BodyRate}
		r.Body = body
		defer s.passed(w, r)
		defer body.leave()
		if !canonical(r.URL) {
			nothingAt(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nothingAt answers what no path is. There is no redirect: a client would follow it with the method that it came with.
func nothingAt(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %q: a path holds no //, no . or .. between slashes, and ends with none", shortened(r.URL.Path)),
		"a document with such an id is removed with POST /v1/corpora/{corpus}/documents/delete")
}

// passed counts a request that has been answered, and turns a panic into an answer and a line of the log.
func (s *Server) passed(w *patientWriter, r *http.Request) {
	route := s.routeOf(r)
	switch why := recover(); {
	case why == nil:
		s.cfg.Observe(route, w.status)
	case why == http.ErrAbortHandler: // a stream that was broken off, so that no part is taken for the whole
		s.cfg.Observe(route, w.status)
		panic(why)
	default:
		s.cfg.Log.Error("a handler panicked", "method", r.Method, "route", route, "path", shortened(r.URL.Path), "panic", why, "stack", string(debug.Stack()))
		begun := w.status != 0
		if !begun {
			refuse(w, http.StatusInternalServerError, "the coordinator made a mistake, and its log says where", "")
		}
		s.cfg.Observe(route, w.status)
		if begun {
			panic(http.ErrAbortHandler)
		}
	}
}

// routeOf names what a request was for: the operation, "extra" for what isn't under /v1, "openapi", or "none".
func (s *Server) routeOf(r *http.Request) string {
	if !below(r.URL.Path) {
		return "extra"
	}
	_, pattern := s.mux.Handler(r)
	if id := s.operations[pattern]; id != "" {
		return id
	}
	if strings.HasPrefix(r.URL.Path, "/v1/openapi") && pattern != "/" {
		return "openapi"
	}
	return "none"
}

// shortened makes a path from outside fit to be shown.
func shortened(p string) string {
	const most = 200
	if len(p) > most {
		p = p[:most] + "…"
	}
	return printable.Line(p)
}

// refused logs that somebody was not let in. Floods of them are counted, not logged one by one.
func (s *Server) refused(r *http.Request, status int, who, why string) {
	held, ok := s.refusals.pass(time.Now())
	if !ok {
		return
	}
	s.cfg.Log.Warn("a request was refused", "status", status, "who", who, "remote", r.RemoteAddr, "method", r.Method, "route", s.routeOf(r),
		"path", shortened(r.URL.Path), "why", why, "not_logged", held)
}

// flood lets so many lines through in a second.
type flood struct {
	mu    sync.Mutex
	since time.Time
	n     int
	held  int
}

const refusalsASecond = 20

// pass reports whether a line may be logged now, and how many were held back before it.
func (f *flood) pass(now time.Time) (held int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.since) >= time.Second {
		f.since, f.n = now, 0
	}
	if f.n++; f.n > refusalsASecond {
		f.held++
		return 0, false
	}
	held, f.held = f.held, 0
	return held, true
}

// origin refuses pages of other origins, whatever the method: also what only reads may be large, and takes the store's time.
func (s *Server) origin(next http.Handler) http.Handler {
	check := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := *r
		asked.Method = http.MethodPost // the check passes over methods that change nothing
		if err := check.Check(&asked); err != nil {
			s.refused(r, http.StatusForbidden, "", "a page of another origin")
			refuse(w, http.StatusForbidden, "a page of another origin may not use this API", "call it from a program")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tooMany answers a request for which there is no room now.
func tooMany(what string) error {
	return &api.Error{
		Err: fmt.Errorf("the coordinator has as many %s in hand as it takes at once", what), Hint: "ask again in a moment",
		Exit: api.ExitFailed, Status: http.StatusTooManyRequests,
	}
}
