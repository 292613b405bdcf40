package server

import (
	"context"
	"net/http"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/mcp"
)

// agentsPath is where agents find tools, over the Model Context Protocol. Host, origin, token, body and deadlines are checked as for
// every other route; the right to a corpus is checked at each call, since its name stands in the body.
const agentsPath = "/mcp"

func (s *Server) agentRoutes() {
	tools := mcp.New(mcp.Config{
		Corpus: s.cfg.Corpus, Version: s.cfg.Version, May: s.mayRead, Log: s.cfg.Log,
		Explain: func(err error) string { p := s.problem(context.Background(), err); return p.Detail + hinted(p.Hint) },
	}, s.service).Handler()
	s.operations[agentsPath] = "agents"
	s.mux.HandleFunc(agentsPath, func(w http.ResponseWriter, r *http.Request) {
		leave, err := s.rooms.others.enter(r.Context(), 1, s.cfg.Turn)
		if err != nil {
			writeProblem(w, s.problem(r.Context(), err))
			return
		}
		defer leave()
		tools.ServeHTTP(w, r)
	})
}

func hinted(hint string) string {
	if hint == "" {
		return ""
	}
	return "\n" + hint
}

// mayRead reports whether who sends a request may read a corpus.
func (s *Server) mayRead(ctx context.Context, corpus string) error {
	g, _ := ctx.Value(grantKey{}).(access.Grant)
	if g.May(access.Read, corpus) {
		return nil
	}
	return api.Forbidden("the token is " + g.Name + ", which is for other corpora than " + shortened(corpus))
}
