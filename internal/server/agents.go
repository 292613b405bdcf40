package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/mcp"
	"github.com/aerie-rag/aerie/internal/openai"
	"github.com/aerie-rag/aerie/internal/tree"
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

// chatRoutes lets programs that chat with OpenAI's models chat with corpora; what is checked is as for agents.
func (s *Server) chatRoutes() {
	if s.cfg.Embed == nil {
		return
	}
	models := openai.New(openai.Config{May: s.mayRead, Link: s.link, Problem: s.problem, MaxBody: s.cfg.MaxBody, Log: s.cfg.Log}, chatService{s.service, s.cfg.Embed})
	s.operations[openai.Path+"/"] = "chat"
	s.mux.HandleFunc(openai.Path+"/", func(w http.ResponseWriter, r *http.Request) {
		leave, err := s.rooms.others.enter(r.Context(), 1, s.cfg.Turn)
		if err != nil {
			writeProblem(w, s.problem(r.Context(), err))
			return
		}
		defer leave()
		models.ServeHTTP(w, r)
	})
}

// chatService is the API's service with its embedder.
type chatService struct {
	api.Service
	embed Embed
}

func (c chatService) Embed(ctx context.Context, corpus string, texts []string) ([][]float32, string, error) {
	return c.embed(ctx, corpus, texts)
}

// link is where a person sees a node, as the address that was asked has it.
func (s *Server) link(r *http.Request, corpus string, id tree.ID) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: r.Host, Path: "/v1/corpora/" + corpus + "/nodes/" + id.String()}
	return u.String()
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
