package server_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/server"
)

// description is what the test reads of the description.
type description struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"` // by path and method
	Components struct {
		Schemas map[string]struct {
			Properties           map[string]any `json:"properties"`
			AdditionalProperties any            `json:"additionalProperties"`
		} `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	OperationID string   `json:"operationId"`
	Summary     string   `json:"summary"`
	Tags        []string `json:"tags"`
	Responses   map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// TestOpenAPI holds the description to be whole: every route has an id, a summary and its errors as problems, and the paths are
// those that the documentation names.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t, server.Config{})
	doc := w.openAPI()
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("the description is of version %s", doc.OpenAPI)
	}
	if a := w.do("GET", "/v1/openapi.yaml", nil); a.status != http.StatusOK || !strings.Contains(string(a.body), "openapi: ") {
		t.Errorf("YAML: status %d", a.status)
	}
	seen := map[string]string{}
	var routes []string
	for path, item := range doc.Paths {
		for method, op := range item {
			route := strings.ToUpper(method) + " " + path
			routes = append(routes, route)
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) == 0 {
				t.Errorf("%s: operation id %q, summary %q, tags %q", route, op.OperationID, op.Summary, op.Tags)
			}
			if other, twice := seen[op.OperationID]; twice {
				t.Errorf("%s and %s are both %s", route, other, op.OperationID)
			}
			seen[op.OperationID] = route
			checkResponses(t, route, op, strings.Contains(path, "{corpus}"))
		}
	}
	slices.Sort(routes)
	want := []string{
		"DELETE /v1/corpora/{corpus}", "DELETE /v1/corpora/{corpus}/documents/{document}",
		"GET /v1/corpora/{corpus}", "GET /v1/corpora/{corpus}/builds", "GET /v1/corpora/{corpus}/builds/{build}", "GET /v1/corpora/{corpus}/builds/{build}/events",
		"GET /v1/corpora/{corpus}/dead", "GET /v1/corpora/{corpus}/documents", "GET /v1/corpora/{corpus}/nodes", "GET /v1/corpora/{corpus}/nodes/{node}", "GET /v1/corpora/{corpus}/plan", "GET /v1/corpora/{corpus}/tree",
		"GET /v1/status", "GET /v1/workers",
		"POST /v1/corpora/{corpus}/ask", "POST /v1/corpora/{corpus}/builds", "POST /v1/corpora/{corpus}/builds/{build}/cancel",
		"POST /v1/corpora/{corpus}/builds/{build}/pause", "POST /v1/corpora/{corpus}/documents", "POST /v1/corpora/{corpus}/documents/delete",
		"POST /v1/corpora/{corpus}/documents/forget",
		"POST /v1/corpora/{corpus}/gc", "POST /v1/corpora/{corpus}/nodes/texts", "POST /v1/corpora/{corpus}/query", "POST /v1/corpora/{corpus}/retry",
		"POST /v1/corpora/{corpus}/rollback",
	}
	if !slices.Equal(routes, want) {
		t.Errorf("the routes are\n%s\nwant\n%s", strings.Join(routes, "\n"), strings.Join(want, "\n"))
	}
	if len(doc.Components.Schemas) < 20 {
		t.Errorf("only %d types are described", len(doc.Components.Schemas))
	}
	requests := []string{"Ask", "BuildRequest", "DeleteInputBody", "Query", "RetryRequest", "RollbackRequest", "TextsInputBody"}
	for name, schema := range doc.Components.Schemas {
		if closed := schema.AdditionalProperties == false; closed != slices.Contains(requests, name) {
			t.Errorf("%s: additionalProperties is %v", name, schema.AdditionalProperties)
		}
		for field := range schema.Properties {
			if strings.ToLower(field) != field {
				t.Errorf("%s.%s: names of fields are in lower case", name, field)
			}
		}
	}
}

// TestDocs holds the routes of docs/api.md to be those that there are.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:GET|POST|DELETE) /v1/[^ `]*)` \\|").FindAllSubmatch(text, -1) {
		named = append(named, string(m[1]))
	}
	slices.Sort(named)
	var routes []string
	for path, item := range newWorld(t, server.Config{}).openAPI().Paths {
		for method := range item {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	if !slices.Equal(named, routes) {
		t.Errorf("docs/api.md names\n%s\nand there are\n%s", strings.Join(named, "\n"), strings.Join(routes, "\n"))
	}
}

func (w *world) openAPI() description {
	w.t.Helper()
	return want[description](w.t, w.do("GET", "/v1/openapi.json", nil), http.StatusOK)
}

func checkResponses(t *testing.T, route string, op operation, hasCorpus bool) {
	t.Helper()
	codes := []string{"422", "500", "503"}
	if hasCorpus && op.OperationID != "ingest-documents" { // an unknown corpus is no error there
		codes = append(codes, "404")
	}
	for _, code := range codes {
		if op.Responses[code].Content["application/problem+json"].Schema["$ref"] != "#/components/schemas/Problem" {
			t.Errorf("%s: response %s is no problem", route, code)
		}
	}
	good := false
	for code, r := range op.Responses {
		good = good || code[0] == '2' && len(r.Content) > 0
		for kind, content := range r.Content {
			if content.Schema == nil {
				t.Errorf("%s: response %s, %s has no schema", route, code, kind)
			}
		}
	}
	if !good {
		t.Errorf("%s: no response says what comes back", route)
	}
}
