package server

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

type nodesInput struct {
	CorpusPath
	Accept  string `header:"Accept" doc:"application/x-ndjson: every node at once, one a line"`
	Root    string `query:"root" doc:"start at this node: an id, the beginning of one, or a cluster id such as L2-0f3c9a51"`
	Depth   int    `query:"depth" minimum:"0" doc:"levels to go down from root or from the top; 0, the default: all"`
	Text    bool   `query:"text" default:"true" doc:"with the texts"`
	Vectors bool   `query:"vectors" doc:"with the vectors"`
	Cursor  string `query:"cursor" doc:"next_cursor of the page before; not for NDJSON"`
	Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"most nodes of a page; not for NDJSON"`
}

type nodeInput struct {
	CorpusPath
	Node string `path:"node" maxLength:"64" doc:"an id, the beginning of one, or a cluster id such as L2-0f3c9a51"`
}

type textsInput struct {
	CorpusPath
	Body struct {
		IDs []tree.ID `json:"ids" maxItems:"10000" doc:"ids of nodes"`
	}
}

// texts answers a textsInput.
type texts struct {
	Texts map[string]string `json:"texts" doc:"by id; nodes that aren't there are left out"`
}

func (s *Server) treeRoutes() {
	page := s.api.OpenAPI().Components.Schemas.Schema(typeOf[api.NodePage](), true, "NodePage")
	node := s.api.OpenAPI().Components.Schemas.Schema(typeOf[api.Node](), true, "Node")
	register(s, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/nodes", Tags: []string{"tree"},
		Summary: "Read the tree of the current generation, leaves included, by level and id",
		Description: "With Accept: application/x-ndjson every node comes at once, one a line; the header Aerie-Generation names the generation. " +
			"Otherwise it comes in pages, all of one generation: when a newer one is published meanwhile, the cursor is gone (410).",
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: page}, ndjson: {Schema: node}}}},
		Errors:    []int{http.StatusNotFound, http.StatusGone},
	}, s.nodes)
	register(s, huma.Operation{
		OperationID: "show-node", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/nodes/{node}", Tags: []string{"tree"},
		Summary: "Read one node of the current generation, with its parents, children and neighbors", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *nodeInput) (*reply[api.Shown], error) {
		shown, err := s.service.Show(ctx, in.Corpus, in.Node)
		return &reply[api.Shown]{Status: http.StatusOK, Body: shown}, err
	})
	register(s, huma.Operation{
		OperationID: "get-tree", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/tree", Tags: []string{"tree"},
		Summary: "Tell the generation of the tree, and a hash of what it holds", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.TreeHash], error) {
		hash, err := s.service.TreeHash(ctx, in.Corpus)
		return &reply[api.TreeHash]{Status: http.StatusOK, Body: hash}, err
	})
	register(s, huma.Operation{
		OperationID: "get-texts", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/nodes/texts", Tags: []string{"tree"},
		Summary: "Read the texts of nodes by id", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *textsInput) (*reply[texts], error) {
		found, err := s.service.Texts(ctx, in.Corpus, in.Body.IDs)
		out := texts{Texts: make(map[string]string, len(found))}
		for id, text := range found {
			out.Texts[id.String()] = text
		}
		return &reply[texts]{Status: http.StatusOK, Body: out}, err
	})
}

func (s *Server) nodes(ctx context.Context, in *nodesInput) (*huma.StreamResponse, error) {
	req := api.TreeRequest{Corpus: in.Corpus, Root: in.Root, Depth: in.Depth, Text: in.Text, Vectors: in.Vectors}
	if strings.Contains(in.Accept, ndjson) {
		return s.streamNodes(ctx, req)
	}
	page, err := s.service.NodePage(ctx, req, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/json")
		_ = writeJSON(hc.BodyWriter(), page) // who doesn't read it has gone
	}}, nil
}

// streamNodes hands nodes on as they are read. Once the first has gone out an error can only break the stream off, so that no
// reader takes a part for the whole.
func (s *Server) streamNodes(ctx context.Context, req api.TreeRequest) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		out := bufio.NewWriterSize(w, 64<<10)
		begun := false
		err := s.service.Nodes(ctx, req, func(head api.TreeHead) error {
			w.Header().Set("Content-Type", ndjson)
			w.Header().Set("Aerie-Generation", strconv.Itoa(head.Generation))
			w.WriteHeader(http.StatusOK)
			begun = true
			return nil
		}, func(n *api.Node) error { return writeJSON(out, n) })
		switch {
		case err == nil && out.Flush() == nil:
		case !begun:
			writeProblem(w, s.problem(ctx, err))
		default:
			if ctx.Err() == nil {
				s.cfg.Log.Error("a stream of nodes broke off", "corpus", req.Corpus, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}}, nil
}
