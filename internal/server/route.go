package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aerie-rag/aerie/internal/api"
)

// CorpusPath is the part of the path that names the corpus.
type CorpusPath struct {
	Corpus string `path:"corpus" doc:"name of the corpus" example:"default"`
}

// reply is a body with a status.
type reply[T any] struct {
	Status int
	Body   T
}

// nothing is the input of what needs none.
type nothing struct{}

// long lists the operations that may take as long as they take.
var long = []string{
	"ingest-documents", "delete-document", "delete-documents", "delete-corpus", "forget-documents", "get-plan", "collect-garbage", "list-nodes", "show-node", "get-tree", "ask",
	"watch-build",
}

// register registers an operation. Every error of the handler becomes a problem.
func register[I, O any](s *Server, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	describeRight(&op)
	s.operations[op.Method+" "+op.Path] = op.OperationID
	op.MaxBodyBytes, op.BodyReadTimeout = s.cfg.MaxBody, -1 // patientBody has the deadline
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	problem := s.api.OpenAPI().Components.Schemas.Schema(typeOf[api.Problem](), true, "Problem")
	for _, status := range append(op.Errors, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
	op.Errors = nil
	bounded := !slices.Contains(long, op.OperationID)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		if bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, s.cfg.Answer, errSlow)
			defer cancel()
		}
		out, err := handler(ctx, in)
		switch {
		case err == nil:
			return out, nil
		case context.Cause(ctx) == errSlow:
			err = &api.Error{
				Err: fmt.Errorf("%w, after %s", errSlow, s.cfg.Answer), Hint: "GET /readyz says whether all servers can be reached", Exit: api.ExitFailed,
				Status: http.StatusServiceUnavailable,
			}
		}
		return nil, s.problem(ctx, err)
	})
}

// errSlow ends what should be quick.
var errSlow = errors.New("the coordinator gave up on its answer")

// problem makes any error one that goes over the wire, and logs what is this side's fault.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	p := api.ProblemOf(err)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil { // who has gone is told nothing
		s.cfg.Log.Error("a request failed", "error", err)
	}
	return p
}

// streamed says in the description that an operation answers with something else than JSON too.
func streamed(description string, contentTypes ...string) map[string]*huma.Response {
	content := map[string]*huma.MediaType{}
	for _, ct := range contentTypes {
		content[ct] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return map[string]*huma.Response{"200": {Description: description, Content: content}}
}

// writeJSON writes one value and a line end.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
