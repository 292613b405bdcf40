package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
)

// refuse answers with a problem where huma has no part.
func refuse(w http.ResponseWriter, status int, detail, hint string) {
	exit := api.ExitUsage
	if status >= http.StatusInternalServerError {
		exit = api.ExitFailed
	}
	writeProblem(w, &api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Hint: hint, Exit: exit})
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "2")
	}
	w.WriteHeader(p.Status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(p) // who doesn't read it has gone
}

// nowhere answers what no route is for: 405 if other methods are, else 404.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, not %s", r.URL.Path, strings.Join(allowed, " and "), r.Method), "")
		return
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %s", r.URL.Path), "/v1/openapi.json lists what there is")
}

// asProblem makes huma's own errors, which are about the form of a request, problems with one sentence.
func (s *Server) asProblem(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := &api.Problem{Type: "about:blank", Title: m.Title, Status: m.Status, Detail: m.Detail, Exit: api.ExitUsage, Hint: "/v1/openapi.json describes the request"}
	if m.Status >= http.StatusInternalServerError {
		p.Exit, p.Hint = api.ExitFailed, ""
	}
	if len(m.Errors) > 0 {
		p.Detail = s.sentence(ctx, m.Status, m.Errors[0])
	}
	return p, nil
}

// sentence says what is wrong with one value of a request that is refused with a status.
func (s *Server) sentence(ctx huma.Context, status int, d *huma.ErrorDetail) string {
	where, name, _ := strings.Cut(d.Location, ".")
	switch {
	case status == http.StatusUnsupportedMediaType:
		return fmt.Sprintf("the body is %s; it must be application/json, and the header Content-Type must say so", ctx.Header("Content-Type"))
	case d.Message == "unexpected property":
		return unknownName(name, s.fields(ctx.Operation()))
	case d.Message == "unknown query parameter":
		return unknownName(name, parameters(ctx.Operation()))
	case where == "body" && name == "" || d.Location == "":
		return "the body can't be read: " + d.Message
	case d.Value != nil && where != "body":
		return fmt.Sprintf("%s is %v: %s", name, d.Value, d.Message)
	}
	return fmt.Sprintf("%s: %s", name, d.Message)
}

func unknownName(name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("%s is not known here", name)
	}
	return fmt.Sprintf("%s is not known; did you mean %s?", name, config.Nearest(name, known))
}

// fields lists the fields of an operation's JSON body.
func (s *Server) fields(op *huma.Operation) []string {
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	schema := op.RequestBody.Content["application/json"].Schema
	if schema.Ref != "" {
		schema = s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

func parameters(op *huma.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}
