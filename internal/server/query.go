package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

type queryInput struct {
	CorpusPath
	Body api.Query
}

type askInput struct {
	CorpusPath
	Accept string `header:"Accept" doc:"text/event-stream: sentences as they come"`
	Body   api.Ask
}

const askText = `With Accept: text/event-stream the answer comes as it is written: events named sentence, then one named answer with all of
it, which is what counts, or one named problem. Otherwise it comes as JSON in one piece.`

func (s *Server) queryRoutes() {
	register(s, huma.Operation{
		OperationID: "query", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/query", Tags: []string{"queries"},
		Summary: "Find the nodes of all levels that answer a question best, up to a budget of tokens",
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *queryInput) (*reply[retrieve.Result], error) {
		result, err := s.service.Query(ctx, in.Corpus, in.Body)
		return &reply[retrieve.Result]{Status: http.StatusOK, Body: result}, err
	})
	schema := s.api.OpenAPI().Components.Schemas.Schema(typeOf[api.Answer](), true, "Answer")
	register(s, huma.Operation{
		OperationID: "ask", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/ask", Tags: []string{"queries"},
		Summary: "Answer a question from the corpus, with citations", Description: askText,
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schema}, eventStream: {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, s.ask)
}

func (s *Server) ask(ctx context.Context, in *askInput) (*huma.StreamResponse, error) {
	if strings.Contains(in.Accept, eventStream) {
		return &huma.StreamResponse{Body: func(hc huma.Context) { s.askStream(ctx, in, hc) }}, nil
	}
	a, err := s.service.Ask(ctx, in.Corpus, in.Body, nil)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/json")
		_ = writeJSON(hc.BodyWriter(), a) // who doesn't read it has gone
	}}, nil
}

// askStream sends sentences as they come. What fails before the first one is a problem like any other.
func (s *Server) askStream(ctx context.Context, in *askInput, hc huma.Context) {
	_, w := humago.Unwrap(hc)
	var out *eventWriter
	a, err := s.service.Ask(ctx, in.Corpus, in.Body, func(sentence answer.Sentence) {
		if out == nil {
			out = s.eventWriter(w)
		}
		out.event("", "sentence", api.Spoken{Sentence: sentence, Gap: sentence.Gap})
	})
	switch {
	case err != nil && out == nil:
		writeProblem(w, s.problem(ctx, err))
		return
	case out == nil:
		out = s.eventWriter(w)
	}
	if err != nil {
		out.event("", "problem", s.problem(ctx, err))
		return
	}
	out.event("", "answer", a)
}
