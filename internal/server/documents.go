package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// ndjson is the type of lines of JSON.
const ndjson = "application/x-ndjson"

type ingestInput struct {
	CorpusPath
	ChunkTokens int    `query:"chunk_tokens" minimum:"8" maximum:"8192" doc:"size that leaves are filled up to; default: as the corpus has it, or as the coordinator is configured"`
	Context     string `query:"context" enum:"true,false" doc:"whether leaves have their headings and table heads as context; default: as the corpus has it, and in a new one yes"`

	body io.Reader
}

// Resolve takes the body before anything reads it: it is a stream.
func (in *ingestInput) Resolve(ctx huma.Context) []error {
	in.body = ctx.BodyReader()
	return nil
}

type documentsInput struct {
	CorpusPath
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100000" default:"1000" doc:"most documents of a page"`
	Prefix string `query:"prefix" doc:"what ids start with"`
	Source string `query:"source" doc:"what the documents belong to: a name, or the folder or file that was ingested"`
}

type documentInput struct {
	CorpusPath
	Document string `path:"document" doc:"id of the document, its slashes written as %2F"`
}

type deleteInput struct {
	CorpusPath
	Body struct {
		Documents []string `json:"documents" minItems:"1" doc:"ids of documents"`
	}
}

const ingestText = `The body is JSON lines, and is read as it comes. A row {"id","text","document_id"?,"chunk_index"?,"embedding"?, and flat
metadata} is a ready-made chunk, as aerie ingest takes them. A line {"document":{"id":"a.md","text":"…","format":"text"}} is a whole document
(format text or html), which is cut here. What is there already is kept, what has changed is replaced. If the body breaks off, what was stored
stands, and the same request goes on from there.`

const forgetText = `Beside deleting documents it takes what is left of them, and of all that were deleted before, out of the summaries of every generation,
the paid answers, the dead stream and the record of the newest build, now. Answers go for the whole corpus. An unfinished build is cancelled and
named; while one runs the answer is 409. Documents that aren't there are listed, and are no error: they may have been deleted before.`

func (s *Server) documentRoutes() {
	lines := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{ndjson: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	register(s, huma.Operation{
		OperationID: "ingest-documents", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/documents", Tags: []string{"documents"},
		Summary: "Bring documents or ready-made chunks into the corpus", Description: ingestText, RequestBody: lines,
		Errors: []int{http.StatusBadRequest, http.StatusConflict},
	}, s.ingest)
	register(s, huma.Operation{
		OperationID: "list-documents", Method: http.MethodGet, Path: "/v1/corpora/{corpus}/documents", Tags: []string{"documents"},
		Summary: "List the documents of the corpus by id", Errors: []int{http.StatusNotFound},
	}, s.listDocuments)
	register(s, huma.Operation{
		OperationID: "delete-document", Method: http.MethodDelete, Path: "/v1/corpora/{corpus}/documents/{document}", Tags: []string{"documents"},
		Summary: "Remove a document", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *documentInput) (*reply[api.IngestReport], error) {
		return s.delete(ctx, in.Corpus, in.Document)
	})
	register(s, huma.Operation{
		OperationID: "delete-documents", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/documents/delete", Tags: []string{"documents"},
		Summary: "Remove several documents", Errors: []int{http.StatusNotFound},
		Description: "Documents that aren't there are named by a problem, whose report says what was removed all the same.",
	}, func(ctx context.Context, in *deleteInput) (*reply[api.IngestReport], error) {
		return s.delete(ctx, in.Corpus, in.Body.Documents...)
	})
	register(s, huma.Operation{
		OperationID: "forget-documents", Method: http.MethodPost, Path: "/v1/corpora/{corpus}/documents/forget", Tags: []string{"documents"},
		Summary: "Remove documents and all that is left of them", Errors: []int{http.StatusNotFound, http.StatusConflict},
		Description: forgetText,
	}, func(ctx context.Context, in *deleteInput) (*reply[api.Forgotten], error) {
		forgotten, err := s.service.Forget(ctx, in.Corpus, in.Body.Documents)
		return &reply[api.Forgotten]{Status: http.StatusOK, Body: forgotten}, err
	})
	register(s, huma.Operation{
		OperationID: "delete-corpus", Method: http.MethodDelete, Path: "/v1/corpora/{corpus}", Tags: []string{"documents"},
		Summary: "Remove the corpus with all it holds", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *CorpusPath) (*reply[api.IngestReport], error) {
		report, err := s.service.DeleteCorpus(ctx, in.Corpus)
		return &reply[api.IngestReport]{Status: http.StatusOK, Body: report}, err
	})
}

// context is the parameter of that name; nil if it isn't there.
func (in *ingestInput) context() *bool {
	if in.Context == "" {
		return nil
	}
	return new(in.Context == "true")
}

// errBroken is what became of a body whose connection is broken.
var errBroken = errors.New("the body broke off, or stood still for too long")

func (s *Server) ingest(ctx context.Context, in *ingestInput) (*reply[api.IngestReport], error) {
	report, err := s.service.Ingest(ctx, api.IngestRequest{Corpus: in.Corpus, Stream: in.body, ChunkTokens: in.ChunkTokens, Context: in.context()})
	if err != nil {
		e := *api.Judge(err)
		if ctx.Err() != nil { // net/http ends it with the connection
			e.Err = errBroken
		}
		if errors.Is(err, corpus.ErrBrokenOff) || ctx.Err() != nil {
			e.Status, e.Hint = http.StatusBadRequest, "what was stored stands; the same request goes on from there"
		}
		if report.Corpus != "" {
			e.Report = &report
		}
		return nil, &e
	}
	return &reply[api.IngestReport]{Status: http.StatusOK, Body: report}, nil
}

func (s *Server) listDocuments(ctx context.Context, in *documentsInput) (*reply[api.DocumentPage], error) {
	page, err := s.service.Documents(ctx, api.DocumentsRequest{Corpus: in.Corpus, Prefix: in.Prefix, Source: in.Source, Cursor: in.Cursor, Limit: in.Limit})
	return &reply[api.DocumentPage]{Status: http.StatusOK, Body: page}, err
}

func (s *Server) delete(ctx context.Context, name string, documents ...string) (*reply[api.IngestReport], error) {
	report, err := s.service.Delete(ctx, name, documents)
	if err != nil {
		e := *api.Judge(err)
		if errors.Is(err, api.ErrUnknown) {
			e.Report = &report
		}
		return nil, &e
	}
	return &reply[api.IngestReport]{Status: http.StatusOK, Body: report}, nil
}
