package access

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCreated: a token is let in by the line that came with it, with its right and its corpora, and is nowhere in the file.
func TestCreated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	token, line, err := Create("ci@build", Write, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	all, line2, err := Create("root", Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("# a comment\r\n\n"+line+" # ours\r\n"+line2), 0o600); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(line, token) || len(token) < 40 || token == all {
		t.Errorf("the line is %q", line)
	}
	f, err := Open(path, time.Hour, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g, ok := f.Find(token)
	if !ok || g.Name != "ci@build" || !g.May(Write, "a") || !g.May(Read, "b") || g.May(Write, "c") || g.May(Admin, "a") || !g.May(Read, "") {
		t.Errorf("%+v, %v", g, ok)
	}
	if g, ok := f.Find(all); !ok || !g.May(Admin, "whatever") {
		t.Errorf("%+v, %v", g, ok)
	}
	for _, wrong := range []string{"", token[1:], token + "x", line, strings.Fields(line)[3]} {
		if _, ok := f.Find(wrong); ok {
			t.Errorf("%q is let in", wrong)
		}
	}
}

// TestFileRefused: a wrong file is refused with the line and what is wrong there, and so is one that others may write to.
func TestFileRefused(t *testing.T) {
	_, good, err := Create("a", Read, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	for text, says := range map[string]string{
		"a read *":                               "it has 3 words",
		"\na reed * sha256:00":                   `line 2: the right is "reed"`,
		"a none * sha256:00":                     "read, write or admin",
		"a read * sha256:00":                     "64 hexadecimal digits",
		"a read * aerie_abcdef":                  "a token itself must not stand here",
		"a read x,*,y " + good[9:]:               "no name of a corpus",
		"a read .. " + good[9:]:                  "no name of a corpus",
		"-a read * " + good[9:]:                  "the name is",
		strings.Repeat(good+"\n", 3):             "line 3: a has more than two tokens",
		strings.Repeat("# a comment\n", 100_000): "larger than",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, 0, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, which doesn't say %q", text, err, says)
		}
	}
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 0, nil); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a file that everybody may write to: %v", err)
	}
	if _, err := Open(filepath.Dir(path), 0, nil); err == nil {
		t.Error("a folder is taken for a file")
	}
	for _, name := range []string{"", "a b", "a\nb", strings.Repeat("a", 65)} {
		if _, _, err := Create(name, Read, nil); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
}
