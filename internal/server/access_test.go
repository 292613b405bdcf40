package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/access"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/server"
)

// keyring is a tokens file with tokens to hand.
type keyring struct {
	t     *testing.T
	path  string
	lines []string
}

func newKeyring(t *testing.T) *keyring {
	return &keyring{t: t, path: filepath.Join(t.TempDir(), "tokens")}
}

// add makes a token and writes it to the file.
func (k *keyring) add(name string, right access.Right, corpora ...string) (token string) {
	k.t.Helper()
	token, line, err := access.Create(name, right, corpora)
	if err != nil {
		k.t.Fatal(err)
	}
	k.lines = append(k.lines, line)
	k.write()
	return token
}

func (k *keyring) write() {
	k.t.Helper()
	if err := os.WriteFile(k.path, []byte(strings.Join(k.lines, "\n")+"\n"), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyring) open(log *slog.Logger) *access.File {
	k.t.Helper()
	f, err := access.Open(k.path, 0, log)
	if err != nil {
		k.t.Fatal(err)
	}
	return f
}

// TestRightsOfEveryRoute walks the description: a token that may only read corpus a is refused by every route that needs more, and
// by every route on another corpus; one with each route's right is not.
func TestRightsOfEveryRoute(t *testing.T) {
	keys := newKeyring(t)
	reader, writer := keys.add("reader", access.Read, "a"), keys.add("writer", access.Write, "a", "c")
	admin := keys.add("admin", access.Admin)
	w := newWorld(t, server.Config{Tokens: keys.open(slog.New(slog.DiscardHandler))})
	w.token = admin
	for _, corpus := range []string{"a", "b"} {
		want[api.IngestReport](t, w.do("POST", "/v1/corpora/"+corpus+"/documents", birds(8)), http.StatusOK)
	}
	type described struct {
		Paths map[string]map[string]struct {
			ID       string                `json:"operationId"`
			Right    string                `json:"x-aerie-right"`
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	doc := want[described](t, w.do("GET", "/v1/openapi.json", nil), http.StatusOK)
	param, routes := regexp.MustCompile(`\{[a-z]+\}`), 0
	fill := func(path, corpus string) string {
		return param.ReplaceAllString(strings.ReplaceAll(path, "{corpus}", corpus), "x")
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			routes++
			right, err := access.ParseRight(op.Right)
			if err != nil || len(op.Security) != 1 || len(op.Security[0]["token"]) != 1 || op.Security[0]["token"][0] != op.Right {
				t.Errorf("%s: right %q, security %v: %v", op.ID, op.Right, op.Security, err)
			}
			method = strings.ToUpper(method)
			refused := func(who, token, corpus string) bool {
				w.token = token
				a := w.do(method, fill(path, corpus), map[string]any{}) // nothing that is let in does anything with this
				if a.status == http.StatusUnauthorized {
					t.Errorf("%s: %s on %s is answered 401", op.ID, who, corpus)
				}
				if a.status == http.StatusForbidden {
					problem(t, a, http.StatusForbidden, api.ExitUsage, "right")
				}
				return a.status == http.StatusForbidden
			}
			hasCorpus := strings.Contains(path, "{corpus}")
			if hasCorpus && (!refused("reader", reader, "b") || !refused("writer", writer, "b")) {
				t.Errorf("%s lets a token in that isn't for corpus b", op.ID)
			}
			if got := refused("reader", reader, "a"); got != (right > access.Read) {
				t.Errorf("%s needs %s: the reader of a is refused: %v", op.ID, right, got)
			}
			if got := refused("writer", writer, "c"); got != (right > access.Write) {
				t.Errorf("%s needs %s: the writer of c is refused: %v", op.ID, right, got)
			}
			w.token = ""
			problem(t, w.do(method, fill(path, "a"), map[string]any{}), http.StatusUnauthorized, api.ExitUsage, "token")
			if refused("admin", admin, "none-such") {
				t.Errorf("%s refuses an admin of all corpora", op.ID)
			}
		}
	}
	if routes < 20 {
		t.Errorf("only %d routes are described", routes)
	}
	w.token = reader
	status := want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
	if data, _ := json.Marshal(status); len(status.Corpora) != 1 || status.Corpora[0].Corpus != "a" {
		t.Errorf("the reader of a sees %s", data)
	}
	w.token = writer
	if p := problem(t, w.do("GET", "/v1/corpora/c", nil), http.StatusNotFound, api.ExitFailed); strings.Contains(p.Detail, `"b"`) {
		t.Errorf("the writer of a and c learns of b: %s", p.Detail)
	}
}

// TestTokensChange: two tokens of one name are valid at a time, one that is taken out isn't any more, and both kinds of refusal are
// told apart and logged; a file that can't be taken leaves all as it was.
func TestTokensChange(t *testing.T) {
	var log logs
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	keys := newKeyring(t)
	old := keys.add("ci", access.Write)
	w := newWorld(t, server.Config{Token: "0123456789abcdef", Tokens: keys.open(logger), Log: logger})
	for range 2 { // the single token holds beside them
		want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
		w.token = old
	}
	young := keys.add("ci", access.Write)
	for _, token := range []string{old, young} {
		w.token = token
		want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
	}
	keys.lines = keys.lines[1:]
	keys.write()
	w.token = old
	problem(t, w.do("GET", "/v1/status", nil), http.StatusUnauthorized, api.ExitUsage)
	w.token = young
	problem(t, w.do("DELETE", "/v1/corpora/birds", nil), http.StatusForbidden, api.ExitUsage, "admin", "ci")
	keys.lines = append(keys.lines, young+" in the wrong place")
	keys.write()
	want[api.Status](t, w.do("GET", "/v1/status", nil), http.StatusOK)
	text := log.String()
	for _, says := range []string{`"status":401`, `"status":403`, `"who":"ci"`, "a token that is none", "can't be taken as it is now"} {
		if !strings.Contains(text, says) {
			t.Errorf("the log doesn't say %s:\n%s", says, text)
		}
	}
	for _, token := range []string{old, young} {
		if strings.Contains(text, token) {
			t.Error("the log shows a token")
		}
	}
}
