package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode"
)

// hostile is what a name, an id or an endpoint's message may hold to steer a terminal or to read otherwise than it is written.
const hostile = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202egpj.exe\u2066\u200f\x08\r"

// steered returns what in an output could steer a terminal.
func steered(text string) string {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return string(r)
		}
	}
	return ""
}

// TestA23Shown: whatever comes from outside, on stdout or stderr, in sentences, tables, JSON or the log, steers no terminal.
func TestA23Shown(t *testing.T) {
	fresh(t)
	var asked int
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "no " + hostile + " key"}})
	}))
	defer endpoint.Close()
	name := strings.ReplaceAll(hostile, "/", "") + ".md"
	for path, text := range map[string]string{
		name: "Herons " + hostile + " fish. Egrets fish too.", "x" + hostile: "y", "bad" + name: "caf\xe9",
		"rows.jsonl": `{"id":"r` + strings.Trim(jsonText(t, hostile), `"`) + `","text":"Storks fish.","tag":` + jsonText(t, hostile) + `}` + "\n{\"id\":" + jsonText(t, hostile) + "}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad := "summaries.base_url=" + hostile
	for _, args := range [][]string{
		{"ingest", "."}, {"ingest", "x" + hostile}, {"ingest", "gone" + hostile}, {"build", "--force"}, {"query", "herons"}, {"query", "herons", "--where", hostile + "=" + hostile},
		{"ask", "herons"}, {"tree"}, {"tree", "--root", hostile}, {"status"}, {"delete", hostile}, {"status", "--corpus", hostile}, {"status", "--home", "h" + hostile},
		{"nosuch" + hostile}, {"status", "--nosuch" + hostile}, {"config", "show", "--" + bad}, {"status", "--config", hostile}, {"config", "show", "--summaries.model=" + hostile},
		{"ingest", ".", "--corpus", "away", "--embeddings.provider=openai", "--embeddings.model=m", "--embeddings.base_url=" + endpoint.URL, "--log-level=debug"},
	} {
		for _, output := range []string{"table", "json", "jsonl"} {
			r := aerie(t, append(args, "--output", output)...)
			if s := steered(r.stdout); s != "" {
				t.Errorf("%q as %s: %q on stdout: %q", args, output, s, r.stdout)
			}
			if s := steered(r.stderr); s != "" {
				t.Errorf("%q as %s: %q on stderr: %q", args, output, s, r.stderr)
			}
		}
	}
	if asked == 0 {
		t.Error("the endpoint was not asked")
	}
	// JSON loses nothing.
	var found struct{ Hits []struct{ Text string } }
	if r := aerie(t, "query", "herons", "--output", "json", "--top-k", "1").want(t, exitDone); json.Unmarshal([]byte(r.stdout), &found) != nil ||
		len(found.Hits) != 1 || !strings.Contains(found.Hits[0].Text, "\u202egpj.exe\u2066") {
		t.Errorf("%s", r.stdout)
	}
}

// TestA23OwnCodes: the program's own codes pass, and only those.
func TestA23OwnCodes(t *testing.T) {
	var b bytes.Buffer
	s := &shown{&b, &cli{output: "table"}}
	if n, err := s.Write([]byte(bold(true, "on\x1b[31m") + "\x1b[1moff")); n == 0 || err != nil || b.String() != "\x1b[1mon\x1b[0moff" {
		t.Errorf("%d, %v: %q", n, err, &b)
	}
}

func jsonText(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
