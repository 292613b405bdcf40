// Package openai serves corpora as the models of OpenAI's API, for programs that chat with such: models, chat completions, streamed or
// not, and embeddings. Answers are those of [api.Queries]: from the corpus alone, with citations as [1] and the sources at the end.
//
// What programs send beside the conversation, such as a temperature, is passed over: how answers are made is the configuration's.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Path is what all routes are below.
const Path = "/openai/v1"

// prefix begins the names of models; the corpus is the rest.
const prefix = "aerie/"

// Service is what is served.
type Service interface {
	Status(ctx context.Context, corpus string) (api.Status, error)
	Ask(ctx context.Context, corpus string, q api.Ask, on func(answer.Sentence)) (api.Answer, error)
	// Embed returns the vectors of texts by the embedder of a corpus, and its name.
	Embed(ctx context.Context, corpus string, texts []string) (vectors [][]float32, embedder string, err error)
}

// Config says how to serve.
type Config struct {
	// May is asked whether who asks may read a corpus; nil: everybody may.
	May func(ctx context.Context, corpus string) error
	// Link returns where a person sees a node of a corpus.
	Link func(r *http.Request, corpus string, id tree.ID) string
	// Problem makes an error one that may be told; nil: api.ProblemOf.
	Problem func(context.Context, error) *api.Problem
	// MaxBody bounds a body in bytes; 0: 4 MiB.
	MaxBody int64
	Log     *slog.Logger
}

type handler struct {
	Config
	service Service
	now     func() time.Time
}

// New returns the routes below Path.
func New(cfg Config, service Service) http.Handler {
	if cfg.May == nil {
		cfg.May = func(context.Context, string) error { return nil }
	}
	if cfg.Problem == nil {
		cfg.Problem = func(_ context.Context, err error) *api.Problem { return api.ProblemOf(err) }
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 4 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{Config: cfg, service: service, now: time.Now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"/models", h.models)
	mux.HandleFunc("GET "+Path+"/models/{name...}", h.model)
	mux.HandleFunc("POST "+Path+"/chat/completions", h.chat)
	mux.HandleFunc("POST "+Path+"/embeddings", h.embeddings)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, http.StatusNotFound, "", fmt.Sprintf("there is no %s %s; there are GET models, POST chat/completions and POST embeddings", r.Method, r.URL.Path))
	})
	return mux
}

// model is one of the list.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func modelOf(corpus string) model {
	return model{ID: prefix + corpus, Object: "model", OwnedBy: "aerie"}
}

func (h *handler) models(w http.ResponseWriter, r *http.Request) {
	status, err := h.service.Status(r.Context(), "")
	if err != nil {
		h.fail(w, r, err)
		return
	}
	data := []model{}
	for _, c := range status.Corpora {
		data = append(data, modelOf(c.Corpus))
	}
	h.write(w, map[string]any{"object": "list", "data": data})
}

func (h *handler) model(w http.ResponseWriter, r *http.Request) {
	corpus, err := h.corpus(r.Context(), r.PathValue("name"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.write(w, modelOf(corpus))
}

// corpus returns the corpus that a model's name is of, if it is there and who asks may read it.
func (h *handler) corpus(ctx context.Context, name string) (string, error) {
	corpus, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", &unknownModel{fmt.Sprintf("the model %q is not known: models are %s with the name of a corpus, such as %sdefault; GET %s/models lists them", name, prefix, prefix, Path)}
	}
	if err := h.May(ctx, corpus); err != nil {
		return "", err
	}
	if _, err := h.service.Status(ctx, corpus); err != nil {
		if e := api.Judge(err); e.Status == http.StatusNotFound {
			return "", &unknownModel{e.Error()}
		}
		return "", err
	}
	return corpus, nil
}

// unknownModel is told with the code that programs know it by.
type unknownModel struct{ sentence string }

func (e *unknownModel) Error() string { return e.sentence }

// wrong is a request that can't be understood.
type wrong struct{ param, sentence string }

func (e *wrong) Error() string { return e.sentence }

// failure is an error as programs read it.
type failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// failureOf returns an error as programs read it, and its status.
func (h *handler) failureOf(ctx context.Context, err error) (failure, int) {
	var unknown *unknownModel
	var bad *wrong
	switch {
	case errors.As(err, &unknown):
		code, param := "model_not_found", "model"
		return failure{Message: unknown.sentence, Type: "invalid_request_error", Param: &param, Code: &code}, http.StatusNotFound
	case errors.As(err, &bad):
		f := failure{Message: bad.sentence, Type: "invalid_request_error"}
		if bad.param != "" {
			f.Param = &bad.param
		}
		return f, http.StatusBadRequest
	}
	p := h.Problem(ctx, err)
	f := failure{Message: p.Detail, Type: "invalid_request_error"}
	if p.Hint != "" {
		f.Message += " (" + p.Hint + ")"
	}
	switch {
	case p.Status == http.StatusTooManyRequests:
		f.Type = "rate_limit_error"
	case p.Status >= http.StatusInternalServerError:
		f.Type = "server_error"
	}
	return f, p.Status
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, status := h.failureOf(r.Context(), err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	h.encode(w, map[string]any{"error": f})
}

func (h *handler) refuse(w http.ResponseWriter, status int, param, sentence string) {
	f := failure{Message: sentence, Type: "invalid_request_error"}
	if param != "" {
		f.Param = &param
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	h.encode(w, map[string]any{"error": f})
}

func (h *handler) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	h.encode(w, v)
}

func (h *handler) encode(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		h.Log.Debug("an answer was not read", "error", err)
	}
}

// read decodes the body. Fields that aren't known are passed over: programs send many that change nothing here.
func (h *handler) read(w http.ResponseWriter, r *http.Request, into any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, h.MaxBody)).Decode(into)
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var bad *wrong
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return bad
	case errors.As(err, &large):
		return &api.Error{Err: fmt.Errorf("the body has more than %d bytes", large.Limit), Exit: api.ExitUsage, Status: http.StatusRequestEntityTooLarge}
	case errors.As(err, &kind):
		return &wrong{kind.Field, fmt.Sprintf("%s is a JSON %s; it must be %s", kind.Field, kind.Value, kind.Type)}
	}
	return &wrong{"", "the body can't be read as JSON: " + err.Error()}
}
