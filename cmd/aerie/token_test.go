package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/access"
)

// TestTokenCreate: what is printed lets in, and only with what was asked for.
func TestTokenCreate(t *testing.T) {
	fresh(t)
	made := decode[struct{ Token, Line string }](t, aerie(t, "token", "create", "ci", "--right", "write", "--corpora", "docs,wiki", "-o", "json").want(t, exitDone))
	shown := aerie(t, "token", "create", "root", "--right", "admin", "--corpora", "*").want(t, exitDone).stdout
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(made.Line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := access.Open(path, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g, ok := f.Find(made.Token)
	if !ok || g.Name != "ci" || !g.May(access.Write, "wiki") || g.May(access.Read, "other") || g.May(access.Admin, "docs") {
		t.Errorf("%+v, %v", g, ok)
	}
	if strings.Contains(made.Line, made.Token) || !strings.Contains(shown, "root admin * sha256:") || !strings.Contains(shown, "\naerie_") {
		t.Errorf("%s\n%s", made.Line, shown)
	}
	for args, says := range map[string]string{
		"token create":                               "needs a name",
		"token create ci":                            "--corpora is missing",
		"token create ci --corpora a":                "--right",
		"token create ci --corpora a --right own":    "read, write or admin",
		"token create a/b --corpora a --right read":  "the name is",
		"token create ci --corpora a/b --right read": "no name of a corpus",
		"token make":                                 "token",
	} {
		checkRefusal(t, aerie(t, strings.Fields(args)...).want(t, exitUsage), []string{says})
	}
}

// TestAuditOfAHome: with server.audit_log what aerie itself changes is written down too.
func TestAuditOfAHome(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("a.md", []byte("Owls listen in the dark."), 0o600); err != nil {
		t.Fatal(err)
	}
	aerie(t, "ingest", "a.md", "--server.audit-log", "audit.jsonl").want(t, exitDone)
	aerie(t, "delete", "a.md", "--server.audit-log", "audit.jsonl").want(t, exitDone)
	data, err := os.ReadFile("audit.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, says := range []string{`"action":"ingest-documents"`, `"action":"delete-documents"`} {
		if lines := strings.Split(string(data), "\n"); len(lines) != 3 || !strings.Contains(lines[i], says) || !strings.Contains(lines[i], `"outcome":"done"`) || !strings.Contains(lines[i], `"who":"`) {
			t.Errorf("%s", data)
		}
	}
}
