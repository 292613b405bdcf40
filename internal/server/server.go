// Package server is the coordinator's HTTP side: what api.Service does, under /v1, described by OpenAPI 3.1 at
// /v1/openapi.json and /v1/openapi.yaml; agents' tools at /mcp, and corpora as OpenAI's models below /openai/v1.
//
// Bodies are JSON of the types that the command line prints; long lists are NDJSON and progress is SSE. Errors are RFC 9457
// problems with the exit code and the hint of the command line. There is no CORS: a browser's page of another origin is
// refused, and without a token so is a name in the Host header that isn't this machine's, because either could reach a
// listener on loopback through the browser of somebody who works here.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/openai"
)

// Config says how to serve. The zero value of a field is its default.
type Config struct {
	// Token is a bearer token with every right, Tokens are those of a file. With neither, everybody is let in who can reach the
	// listener, which then must be on loopback.
	Token  string
	Tokens *access.File
	// Embed returns the vectors of texts by the embedder of a corpus, and its name, for programs that chat. Without it they find nothing
	// at /openai.
	Embed Embed
	// Corpus is that of an agent's call that names none; "" means default.
	Corpus string
	// Version is that of the program, for the description of the API.
	Version string
	// MaxBody bounds a JSON body in bytes; 0 means 4 MiB. Streams of documents have no bound but that of one line, 32 MiB.
	MaxBody int64
	// BodyIdle is how long a request's body may stand still; 0 means a minute. BodyRate is how many bytes of it must come in a
	// second that it is waited for, after BodyIdle; 0 means 1 KiB.
	BodyIdle time.Duration
	BodyRate int64
	// Turn is how long a request waits for room where as many are in hand as are taken at once; 0 means 30 s.
	Turn time.Duration
	// Answer bounds the time of what should be quick: queries, looks, lists; 0 means two minutes. Ingests, plans, deletions and streams
	// take as long as they take.
	Answer time.Duration
	// Heartbeat is how often an event stream shows that it lives when nothing happens; 0 means 15 s.
	Heartbeat time.Duration
	// Look is how often a build is looked at for its events; 0 means 500 ms.
	Look time.Duration
	// Slow is how long a reader may take for one event, or for one piece of an answer, 16 KiB, before it is dropped; 0 means 10 s.
	Slow time.Duration
	// Observe is told of each request that was answered: its operation, or "extra", "openapi" or "none", and the status, 0 if
	// nobody read one; nil for nobody.
	Observe func(route string, status int)
	// Audit is told of changes that were refused for lack of a right; those that are let in tell it themselves. Nil: nobody.
	Audit api.Auditor
	// Log tells of failures that no client is told in full, and of who was refused; nil: nobody.
	Log *slog.Logger
}

// Embed makes vectors of texts.
type Embed func(ctx context.Context, corpus string, texts []string) (vectors [][]float32, embedder string, err error)

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.BodyIdle, time.Minute}, {&c.Answer, 2 * time.Minute}, {&c.Heartbeat, 15 * time.Second}, {&c.Look, 500 * time.Millisecond},
		{&c.Slow, 10 * time.Second}, {&c.Turn, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.BodyRate == 0 {
		c.BodyRate = 1 << 10
	}
	if c.Corpus == "" {
		c.Corpus = "default"
	}
	if c.Observe == nil {
		c.Observe = func(string, int) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "devel"
	}
	return c
}

// Server serves one service.
type Server struct {
	cfg     Config
	service api.Service
	api     huma.API
	mux     *http.ServeMux
	handler http.Handler
	streams context.Context // of the event streams; it lives until EndStreams
	end     context.CancelFunc

	operations map[string]string // id by pattern of the mux
	rooms      rooms
	refusals   flood
}

// New returns a server; its listener and its time-outs are the caller's. A write time-out must not be set, since streams take as long
// as they take. extra, if not nil, gets every request outside /v1, /mcp and /openai, without any check: health and metrics.
func New(cfg Config, service api.Service, extra http.Handler) *Server {
	s := &Server{cfg: cfg.withDefaults(), service: service, mux: http.NewServeMux(), operations: map[string]string{}}
	s.rooms = newRooms(s.cfg.MaxBody)
	s.streams, s.end = context.WithCancel(context.Background())
	s.api = humago.New(s.mux, s.describe())
	s.api.UseMiddleware(s.permit, s.admit)
	s.statusRoutes()
	s.documentRoutes()
	s.buildRoutes()
	s.treeRoutes()
	s.queryRoutes()
	s.openResponses()
	s.agentRoutes()
	s.chatRoutes()
	s.mux.HandleFunc("/", s.nowhere)
	guarded := s.guard(s.origin(s.mux))
	s.handler = s.door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if extra != nil && !below(r.URL.Path) {
			extra.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	return s
}

// Starting stands in for a server that isn't ready yet: whatever is asked of /v1 may be asked again in a moment. extra gets all else.
func Starting(extra http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !canonical(r.URL):
			nothingAt(w, r)
			return
		case !below(r.URL.Path):
			extra.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "2")
		writeProblem(w, &api.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
			Detail: "the coordinator is starting, and waits for its servers", Hint: "/readyz says for which", Exit: api.ExitUnreachable,
		})
	})
}

// below reports whether a path is one of the API, or of agents.
func below(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || path == agentsPath || strings.HasPrefix(path, openai.Path+"/")
}

// Handler returns all of it.
func (s *Server) Handler() http.Handler { return s.handler }

// EndStreams ends all event streams, those to come too, so that a listener can be shut down: their clients come back to whoever
// serves then.
func (s *Server) EndStreams() { s.end() }

// describe returns what huma is to know.
func (s *Server) describe() huma.Config {
	cfg := huma.DefaultConfig("aerie", s.cfg.Version)
	cfg.Info.Description = "Documents, builds, trees, queries and status of the corpora of one coordinator."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "/v1/openapi", "", ""
	cfg.CreateHooks = nil // no $schema in bodies: they are those of the command line
	cfg.RejectUnknownQueryParameters = true
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Transformers = []huma.Transformer{s.asProblem}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {
		Type: "http", Scheme: "bearer", Description: "read, write or admin, each with the rights before it, for some corpora or all",
	}}
	return cfg
}

// openResponses lets the types that only responses have take more fields, since more are welcome in any later version; those of requests
// refuse what they don't know.
func (s *Server) openResponses() {
	doc := s.api.OpenAPI()
	asked := map[*huma.Schema]bool{}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, content := range op.RequestBody.Content {
				if content.Schema.Ref != "" {
					asked[doc.Components.Schemas.SchemaFromRef(content.Schema.Ref)] = true
				}
			}
		}
	}
	for _, schema := range doc.Components.Schemas.Map() {
		if schema.AdditionalProperties == false && !asked[schema] {
			schema.AdditionalProperties = nil
		}
	}
}

// schemaNames are those of types of package api that have another name in the description.
var schemaNames = map[reflect.Type]string{
	typeOf[api.BuildReport](): "CoordinatorReport", typeOf[api.LevelReport](): "CoordinatorLevelReport", typeOf[api.Cost](): "CoordinatorCost",
	typeOf[api.Estimate](): "CoordinatorEstimate", typeOf[api.LevelEstimate](): "CoordinatorLevelEstimate", typeOf[api.EstimateSum](): "CoordinatorEstimateSum",
	typeOf[api.CorpusStatus](): "CoordinatorStatus", typeOf[api.BuildStatus](): "CoordinatorBuildStatus",
	typeOf[api.LevelStatus](): "CoordinatorLevelStatus", typeOf[api.BuriedGroup](): "CoordinatorBuriedGroup",
	typeOf[api.DocumentCounts](): "IngestDocuments", typeOf[api.LeafCounts](): "IngestLeaves", typeOf[api.InputError](): "CorpusProblem",
}

// schemaName names the types of other packages with theirs, since several have a Report and a Status.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	path := strings.Split(t.PkgPath(), "/")
	pkg := path[len(path)-1]
	switch {
	case schemaNames[t] != "":
		return schemaNames[t]
	case pkg == "" || pkg == "api" || pkg == "server":
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}
