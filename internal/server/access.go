package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
)

// needs says which right each operation asks for. register takes no operation that isn't here.
var needs = map[string]access.Right{
	"get-status": access.Read, "list-workers": access.Read, "list-dead": access.Read, "list-builds": access.Read, "get-corpus": access.Read, "list-documents": access.Read,
	"list-nodes": access.Read, "show-node": access.Read, "get-tree": access.Read, "get-texts": access.Read,
	"query": access.Read, "ask": access.Read, "get-plan": access.Read, "get-build": access.Read, "watch-build": access.Read,
	"ingest-documents": access.Write, "delete-document": access.Write, "delete-documents": access.Write,
	"start-build": access.Write, "retry-tasks": access.Write, "pause-build": access.Write, "rollback": access.Write, "cancel-build": access.Write,
	"delete-corpus": access.Admin, "collect-garbage": access.Admin, "forget-documents": access.Admin,
}

// rightKey is where the description says it.
const rightKey = "x-aerie-right"

// describeRight says in the description of an operation which right it needs.
func describeRight(op *huma.Operation) {
	right, ok := needs[op.OperationID]
	if !ok {
		panic("server: nothing says which right " + op.OperationID + " needs")
	}
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	op.Extensions[rightKey] = right.String()
	op.Description = strings.TrimSpace(op.Description + "\n\nNeeds a token with the right " + right.String() + ", where tokens are asked for.")
	op.Security = []map[string][]string{{"token": {right.String()}}}
	op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
}

// grantKey is where the context of a request keeps who asks.
type grantKey struct{}

// anybody is who asks where no token is asked for: whoever reaches this machine's loopback.
var anybody = access.Grant{Name: "local", Right: access.Admin}

// guarded reports whether tokens are asked for.
func (s *Server) guarded() bool { return s.cfg.Token != "" || s.cfg.Tokens != nil }

// grant returns who sends a request; ok is false if it has no token that is right.
func (s *Server) grant(r *http.Request) (g access.Grant, ok bool) {
	if !s.guarded() {
		return anybody, true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return g, false
	}
	if s.cfg.Token != "" {
		want, got := sha256.Sum256([]byte(s.cfg.Token)), sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return access.Grant{Name: "server.token", Right: access.Admin}, true
		}
	}
	if s.cfg.Tokens != nil {
		return s.cfg.Tokens.Find(token)
	}
	return g, false
}

// guard lets requests in that may come in, and notes who sends them.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !s.guarded() && !local(r.Host) {
			s.refused(r, http.StatusForbidden, "", "a host that is no name of this machine")
			refuse(w, http.StatusForbidden, fmt.Sprintf("the host is %q, which is not a name of this machine", shortened(r.Host)), "use 127.0.0.1, or set server.token or server.tokens_file")
			return
		}
		g, ok := s.grant(r)
		if !ok {
			why := "no token"
			if r.Header.Get("Authorization") != "" {
				why = "a token that is none"
			}
			s.refused(r, http.StatusUnauthorized, "", why)
			w.Header().Set("WWW-Authenticate", `Bearer realm="aerie"`)
			refuse(w, http.StatusUnauthorized, "the coordinator wants a token, and this request has none that is right",
				"set server.token or server.token_file, or AERIE_SERVER_TOKEN, to one that the coordinator knows")
			return
		}
		ctx := context.WithValue(r.Context(), grantKey{}, g)
		if len(g.Corpora) > 0 {
			ctx = api.WithCorpora(ctx, g.Sees)
		}
		next.ServeHTTP(w, r.WithContext(api.WithCaller(ctx, api.Caller{Name: g.Name, Remote: r.RemoteAddr})))
	})
}

// permit ends an operation that who asks has no right to. It is the middleware of every operation, before its input is read.
func (s *Server) permit(ctx huma.Context, next func(huma.Context)) {
	g, _ := ctx.Context().Value(grantKey{}).(access.Grant)
	op := ctx.Operation()
	right, corpus := needs[op.OperationID], ctx.Param("corpus")
	if right != access.None && g.May(right, corpus) {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	what := fmt.Sprintf("%s, which has the right %s", g.Name, g.Right)
	if g.Right >= right {
		what = fmt.Sprintf("%s, which is for other corpora than %q", g.Name, shortened(corpus))
	}
	s.refused(r, http.StatusForbidden, g.Name, "the right "+right.String()+" on "+shortened(corpus)+" is needed")
	if s.cfg.Audit != nil && right > access.Read {
		s.cfg.Audit.Changed(r.Context(), api.Change{Action: op.OperationID, Corpus: corpus, Err: api.Forbidden(what)})
	}
	refuse(w, http.StatusForbidden, fmt.Sprintf("this needs the right %s, and the token is %s", right, what),
		"ask whoever keeps server.tokens_file for another; aerie token create makes one")
}

// local reports whether a Host header names this machine.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
