package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aerie-rag/aerie/internal/api"
)

func (s *Server) statusRoutes() {
	register(s, huma.Operation{
		OperationID: "get-status", Method: http.MethodGet, Path: "/v1/status", Tags: []string{"status"},
		Summary: "Show all corpora, their growth, what would start the next build, and the running one by level",
	}, func(ctx context.Context, _ *nothing) (*reply[api.Status], error) {
		status, err := s.service.Status(ctx, "")
		return &reply[api.Status]{Status: http.StatusOK, Body: status}, err
	})
	register(s, huma.Operation{
		OperationID: "list-workers", Method: http.MethodGet, Path: "/v1/workers", Tags: []string{"status"},
		Summary: "Show who works: workers with their slots and what they wait for, and coordinators",
	}, func(ctx context.Context, _ *nothing) (*reply[api.Workers], error) {
		workers, err := s.service.Workers(ctx)
		return &reply[api.Workers]{Status: http.StatusOK, Body: workers}, err
	})
	register(s, huma.Operation{
		OperationID: "list-dead", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/dead", Tags: []string{"status"},
		Summary: "Show the buried tasks of the newest build by cause, with an example of each", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.Dead], error) {
		dead, err := s.service.Dead(ctx, in.Corpus)
		return &reply[api.Dead]{Status: http.StatusOK, Body: dead}, err
	})
	register(s, huma.Operation{
		OperationID: "list-builds", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/builds", Tags: []string{"builds"},
		Summary: "Show all builds of a corpus with outcome and cost, in the order in which they began", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.PastBuilds], error) {
		history, err := s.service.History(ctx, in.Corpus)
		return &reply[api.PastBuilds]{Status: http.StatusOK, Body: history}, err
	})
	register(s, huma.Operation{
		OperationID: "get-corpus", Method: http.MethodGet, Path: "/v1/corpora/{corpus}", Tags: []string{"status"},
		Summary: "Show one corpus", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.CorpusStatus], error) {
		status, err := s.service.Status(ctx, in.Corpus)
		if err != nil {
			return nil, err
		}
		if len(status.Corpora) == 0 {
			return nil, api.Missingf("aerie status lists what there is", "there is no corpus %q", in.Corpus)
		}
		return &reply[api.CorpusStatus]{Status: http.StatusOK, Body: status.Corpora[0]}, nil
	})
}
