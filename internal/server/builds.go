package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aerie-rag/aerie/internal/api"
)

type BuildPath struct {
	CorpusPath
	Build string `path:"build" doc:"id of the build"`
}

type startInput struct {
	CorpusPath
	Key  string            `header:"Idempotency-Key" maxLength:"200" doc:"a name for this request: sent again with the same key and body, it is answered with the same build"`
	Body *api.BuildRequest `required:"false"`
}

type retryInput struct {
	CorpusPath
	Key  string            `header:"Idempotency-Key" maxLength:"200" doc:"a name for this request"`
	Body *api.RetryRequest `required:"false"`
}

type planInput struct {
	CorpusPath
	Full bool `query:"full" doc:"compute what a build in full would do, which takes as long as clustering everything"`
}

type rollbackInput struct {
	CorpusPath
	Body *api.RollbackRequest `required:"false"`
}

const rollbackText = `Switches readers in one step and makes no call. With build.keep 1 the tree before is kept until the next one is published. What led to
the tree that is left makes no build due again. An unfinished build is cancelled and named; while one runs the answer is 409.`

const startText = `Goes on with a build that is unfinished, or starts one if the growth rule or force says so. The answer is 202 with
the build while it runs, and 200 at rest, also when there was nothing to do. While a build of the corpus runs, a second request is answered with
that one, its attached true.`

func (s *Server) buildRoutes() {
	register(s, huma.Operation{
		OperationID: "get-plan", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/plan", Tags: []string{"builds"},
		Summary: "Say what a build would do and cost, without a call", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *planInput) (*reply[api.Estimate], error) {
		estimate, err := s.service.Plan(ctx, in.Corpus, in.Full)
		return &reply[api.Estimate]{Status: http.StatusOK, Body: estimate}, err
	})
	register(s, huma.Operation{
		OperationID: "start-build", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/builds", Tags: []string{"builds"},
		Summary: "Start a build, or go on with one", Description: startText, DefaultStatus: http.StatusAccepted,
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *startInput) (*reply[api.Build], error) {
		start := api.Start{Key: in.Key}
		if in.Body != nil {
			start.BuildRequest = *in.Body
		}
		return s.start(ctx, in.Corpus, start)
	})
	register(s, huma.Operation{
		OperationID: "retry-tasks", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/retry", Tags: []string{"builds"},
		Summary: "Run buried tasks again and go on with their build", DefaultStatus: http.StatusAccepted, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *retryInput) (*reply[api.Build], error) {
		start := api.Start{Key: in.Key, Retry: true}
		if in.Body != nil {
			start.BuildRequest, start.Cause = in.Body.BuildRequest, in.Body.Cause
		}
		return s.start(ctx, in.Corpus, start)
	})
	register(s, huma.Operation{
		OperationID: "get-build", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/builds/{build}", Tags: []string{"builds"},
		Summary: "Look at a build", Description: "Only the newest build of a corpus is kept.", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *BuildPath) (*reply[api.Build], error) {
		b, err := s.service.Build(ctx, in.Corpus, in.Build)
		return &reply[api.Build]{Status: http.StatusOK, Body: b}, err
	})
	for _, stop := range []struct {
		verb, summary string
		cancel        bool
	}{
		{"pause", "Ask a build to pause: what is in hand finishes first, and the next start goes on", false},
		{"cancel", "Ask a build to end for good; what it paid for serves the next one", true},
	} {
		register(s, huma.Operation{
			OperationID: stop.verb + "-build", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/builds/{build}/" + stop.verb,
			Tags: []string{"builds"}, Summary: stop.summary, DefaultStatus: http.StatusAccepted,
			Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, func(ctx context.Context, in *BuildPath) (*reply[api.Build], error) {
			b, err := s.service.Stop(ctx, in.Corpus, in.Build, stop.cancel)
			return buildReply(b), err
		})
	}
	register(s, huma.Operation{
		OperationID: "watch-build", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/builds/{build}/events", Tags: []string{"builds"},
		Summary: "Follow a build until it rests, as server-sent events", Description: eventsText,
		Responses: streamed("Events", eventStream), Errors: []int{http.StatusNotFound},
	}, s.events)
	register(s, huma.Operation{
		OperationID: "rollback", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/rollback", Tags: []string{"builds"},
		Summary: "Let readers see the tree before the one that they see, or take that back", Description: rollbackText,
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *rollbackInput) (*reply[api.Rolled], error) {
		rolled, err := s.service.Rollback(ctx, in.Corpus, in.Body != nil && in.Body.Forward)
		return &reply[api.Rolled]{Status: http.StatusOK, Body: rolled}, err
	})
	register(s, huma.Operation{
		OperationID: "collect-garbage", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/gc", Tags: []string{"builds"},
		Summary: "Delete what no reader can see any more and no build needs", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.Collected], error) {
		c, err := s.service.Collect(ctx, in.Corpus)
		return &reply[api.Collected]{Status: http.StatusOK, Body: c}, err
	})
}

func (s *Server) start(ctx context.Context, corpus string, start api.Start) (*reply[api.Build], error) {
	b, err := s.service.Start(ctx, corpus, start)
	return buildReply(b), err
}

// buildReply is 202 while the build runs.
func buildReply(b api.Build) *reply[api.Build] {
	out := &reply[api.Build]{Status: http.StatusAccepted, Body: b}
	if b.Resting {
		out.Status = http.StatusOK
	}
	return out
}
